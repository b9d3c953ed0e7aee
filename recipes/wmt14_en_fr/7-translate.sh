#!/usr/bin/env bash
# Translates the test sets by every model, and their sentences without unknown words once more,
# where UNK is forbidden. RNNsearch also aligns, and its UNK is replaced by means of the alignments.

source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"
source "$HERE/models.sh"
use_training_folder

# detokenise NAME: makes NAME.text of NAME.tokens, in $PARTIAL
detokenise() {
    python -P -m fairseq_rnnsearch.commands.tokenizing --join --language fr --tokenizer "$TOKENIZER" \
        <"$PARTIAL/$1.tokens" >"$PARTIAL/$1.text"
}

# generate MODEL TEST NAME OPTION...: makes NAME.tokens and NAME.text in $PARTIAL
generate() {
    local model=$1 test=$2 name=$3
    local -a search=(--unnormalized --authors-search)
    shift 3
    [[ $OPTIMIZER = adadelta ]] || search=()
    [[ $VOCABULARY = shortlist ]] || search+=(--post-process subword_nmt)
    logged "generate-$(folder_of "$model")-$test-$name" fairseq-generate "$@" "${PLUGIN[@]}" \
        --source-lang en --target-lang fr --path "$(checkpoint_of "$model")" \
        --beam "$BEAM" --batch-size "$SEARCH_BATCH" --results-path "$PARTIAL/$name" \
        ${search[@]+"${search[@]}"}
    translations "$PARTIAL/$name"/generate-*.txt >"$PARTIAL/$name.tokens"
    detokenise "$name"
}

# replace_unknown MODEL TEST WAY: makes WAY.tokens and WAY.text in $PARTIAL
replace_unknown() {
    local -a dictionary=()
    [[ $3 = copy ]] || dictionary=(--dictionary "$(dictionary_of "$1")/dictionary")
    python "$HERE/unknown_words.py" replace-unk --source "$(tokens_of "$2").en" \
        --translations "$PARTIAL/all.tokens" --alignments "$PARTIAL/alignments/alignments.jsonl" \
        --out "$PARTIAL/$3.tokens" ${dictionary[@]+"${dictionary[@]}"}
    detokenise "$3"
}

# translate MODEL TEST SUBSET: makes all translations of a test set, which fairseq calls SUBSET
translate() {
    local model=$1 test=$2 way draw=()
    mkdir -- "$PARTIAL"
    ! has_attention "$model" || draw=(--heatmap-dir "$PARTIAL/alignments"
        --heatmap-format jsonl,html --heatmap-samples all)
    generate "$model" "$test" all "$DATA" --gen-subset "$3" ${draw[@]+"${draw[@]}"}
    same_length "$PARTIAL/all.tokens" "$(tokens_of "$test").fr"
    [[ $VOCABULARY = shortlist ]] || return 0
    if [[ -s $(without_unknown "$test")/text.en ]]; then
        generate "$model" "$test" no-unk "$(without_unknown "$test")" --forbid-unk
    fi
    has_attention "$model" || return 0
    for way in $REPLACE_UNK; do
        replace_unknown "$model" "$test" "$way"
    done
}

# choose_without_unknown TEST: makes text and data of its sentences without unknown words
choose_without_unknown() {
    mkdir -- "$PARTIAL"
    python "$HERE/unknown_words.py" no-unk --source "$(tokens_of "$1").en" \
        --reference "$(tokens_of "$1").fr" \
        --source-dictionary "$DATA/dict.en.txt" --target-dictionary "$DATA/dict.fr.txt" \
        --out "$PARTIAL"
    [[ -s $PARTIAL/text.en ]] || return 0
    preprocess "preprocess-no-unk-$1" en fr --testpref "$PARTIAL/text" \
        --srcdict "$DATA/dict.en.txt" --tgtdict "$DATA/dict.fr.txt"
}

# learn_dictionary MODEL: makes a dictionary of the training pairs that the model aligns
learn_dictionary() {
    local language
    mkdir -- "$PARTIAL"
    for language in en fr; do
        sample "$SELECTED/train.$language" "$DICTIONARY_PAIRS" >"$PARTIAL/text.$language"
    done
    logged "align-$(folder_of "$1")" python -P -m fairseq_rnnsearch.commands.align \
        "$(checkpoint_of "$1")" --data "$DATA" --source "$PARTIAL/text.en" --target "$PARTIAL/text.fr" \
        --tokenizer space --attention --out "$PARTIAL" --heatmap-format pharaoh --device "${DEVICE:-$(
            python -P -c 'import torch; print("cuda" if torch.cuda.is_available() else "cpu")')}"
    python "$HERE/unknown_words.py" dictionary --source "$PARTIAL/text.en" --target "$PARTIAL/text.fr" \
        --alignments "$PARTIAL/alignments.pharaoh" --out "$PARTIAL/dictionary"
    rm -- "$PARTIAL"/text.*
}

: "${OMP_NUM_THREADS:=$PROCESSES}" # one process at a time
use_environment
if [[ $VOCABULARY = shortlist ]]; then
    mkdir -p -- "$(dirname -- "$(without_unknown any)")"
    for test in "${TESTS[@]}"; do
        run_step "choose sentences of $test, ${DATA##*/}" "$(without_unknown "$test")" \
            choose_without_unknown "$test"
    done
fi
for model in "${CHOSEN[@]}"; do
    [[ -e $WORK/.done/$(training_of "$model") ]] || die "$model is not trained to its end on" \
        "${DATA##*/}: run the stage train, or leave it out of MODELS"
    if [[ $VOCABULARY = shortlist && " $REPLACE_UNK " = *" dictionary "* ]] &&
        has_attention "$model"; then
        run_step "learn a dictionary by $model, ${TRAINING##*/}" "$(dictionary_of "$model")" \
            learn_dictionary "$model"
    fi
    for test in "${!TESTS[@]}"; do
        name=${TESTS[test]} subset=test$((test))
        mkdir -p -- "$TRANSLATIONS/$name"
        run_step "translate $name by $model, ${TRAINING##*/}, beam $BEAM" \
            "$TRANSLATIONS/$name/$(folder_of "$model")" \
            translate "$model" "$name" "${subset/%test0/test}"
    done
done
