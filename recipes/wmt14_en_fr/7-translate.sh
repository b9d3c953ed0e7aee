#!/usr/bin/env bash
# The test sets by every model: as they are, and without ever generating UNK; alignments of RNNsearch,
# and its UNK replaced by means of them.

# shellcheck source=recipes/wmt14_en_fr/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=recipes/wmt14_en_fr/models.sh
source "$HERE/models.sh"
use_training_folder

WORDS=$WORK/words-${DATA##*/data-} # the test sets' own, which --replace-unk copies

# generate MODEL SUBSET NAME DATA OPTION...: NAME.tokens and NAME.text in $PARTIAL
generate() {
    local model=$1 subset=$2 name=$3
    local -a search=(--unnormalized --authors-search)
    shift 3
    [[ $OPTIMIZER = adadelta ]] || search=()
    [[ $VOCABULARY = shortlist ]] || search+=(--post-process subword_nmt)
    logged "generate-$(folder_of "$model")-$subset-$name" fairseq-generate "$@" "${PLUGIN[@]}" \
        --source-lang en --target-lang fr --path "$(checkpoint_of "$model")" --gen-subset "$subset" \
        --beam "$BEAM" --batch-size "$SEARCH_BATCH" --results-path "$PARTIAL/$name" \
        ${search[@]+"${search[@]}"}
    translations "$PARTIAL/$name/generate-$subset.txt" >"$PARTIAL/$name.tokens"
    python "$ROOT/recipes/moses.py" detokenize --language fr --tokenizer "$TOKENIZER" \
        <"$PARTIAL/$name.tokens" >"$PARTIAL/$name.text"
}

# translate MODEL TEST SUBSET: SUBSET is fairseq's name of the test set
translate() {
    local model=$1 test=$2 subset=$3 way name
    local -a draw=() words=("$WORDS" --dataset-impl raw)
    mkdir -- "$PARTIAL"
    ! has_attention "$model" || draw=(--heatmap-dir "$PARTIAL/alignments"
        --heatmap-format jsonl,html --heatmap-samples all)
    generate "$model" "$subset" all "$DATA" ${draw[@]+"${draw[@]}"}
    generate "$model" "$subset" no-unk "$DATA" --forbid-unk
    if has_attention "$model"; then
        for way in $REPLACE_UNK; do
            case $way in
                copy) generate "$model" "$subset" copy "${words[@]}" --replace-unk "" ;;
                dictionary) generate "$model" "$subset" dictionary "${words[@]}" \
                    --replace-unk "$(dictionary_of "$model")/dictionary" ;;
            esac
        done
    fi
    for name in "$PARTIAL"/*.tokens; do
        same_length "$name" "$(tokens_of "$test").fr"
    done
}

keep_words() {
    local test tests=
    for test in "${TESTS[@]}"; do
        tests+=${tests:+,}$(tokens_of "$test")
    done
    logged preprocess-words fairseq-preprocess "${PLUGIN[@]}" --source-lang en --target-lang fr \
        --testpref "$tests" --dataset-impl raw --srcdict "$DATA/dict.en.txt" \
        --tgtdict "$DATA/dict.fr.txt" --destdir "$PARTIAL"
}

# learn_dictionary MODEL: of the training pairs that it aligns
learn_dictionary() {
    local language
    mkdir -- "$PARTIAL"
    for language in en fr; do
        if ((DICTIONARY_PAIRS)); then
            head -n "$DICTIONARY_PAIRS" -- "$SELECTED/train.$language"
        else
            cat -- "$SELECTED/train.$language"
        fi >"$PARTIAL/text.$language"
    done
    logged "align-$(folder_of "$1")" python -m fairseq_rnnsearch.align "$DATA" \
        --path "$(checkpoint_of "$1")" --source "$PARTIAL/text.en" --target "$PARTIAL/text.fr" \
        --tokenizer space --heatmap-dir "$PARTIAL" --heatmap-format pharaoh
    python -m fairseq_rnnsearch.evaluation dictionary --source "$PARTIAL/text.en" \
        --target "$PARTIAL/text.fr" --alignments "$PARTIAL/alignments.pharaoh" \
        --out "$PARTIAL/dictionary"
    rm -- "$PARTIAL"/text.*
}

use_environment fairseq-generate
[[ -z $REPLACE_UNK ]] || run_step "keep the words of ${WORDS##*/words-}" "$WORDS" keep_words
for model in $MODELS; do
    if has_attention "$model" && [[ " $REPLACE_UNK " = *" dictionary "* ]]; then
        run_step "learn a dictionary by $model, ${TRAINING##*/}" "$(dictionary_of "$model")" \
            learn_dictionary "$model"
    fi
    for test in "${!TESTS[@]}"; do
        name=${TESTS[test]} subset=test$((test))
        mkdir -p -- "$TRANSLATIONS/$name"
        run_step "translate $name by $model, ${TRAINING##*/}, beam $BEAM" \
            "$TRANSLATIONS/$name/$(folder_of "$model")" translate "$model" "$name" "${subset/%test0/test}"
    done
done
