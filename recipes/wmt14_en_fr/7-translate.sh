#!/usr/bin/env bash
# The test set by every model: as it is, and without ever generating UNK; alignments of RNNsearch.

# shellcheck source=recipes/wmt14_en_fr/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=recipes/wmt14_en_fr/models.sh
source "$HERE/models.sh"

# generate MODEL NAME DATA OPTION...: NAME.tokens and NAME.text in $PARTIAL
generate() {
    local checkpoint name=$2
    local -a search=(--unnormalized --authors-search)
    checkpoint=$CHECKPOINTS/$(folder_of "$1")
    if [[ $OPTIMIZER = adadelta && $1 != *\* ]]; then
        checkpoint+=/checkpoint_last.pt # after the updates of Table 2
    else
        checkpoint+=/checkpoint_best.pt
    fi
    [[ $OPTIMIZER = adadelta ]] || search=()
    [[ $VOCABULARY = shortlist ]] || search+=(--post-process subword_nmt)
    logged "generate-$(folder_of "$1")-$name" fairseq-generate "${@:3}" "${PLUGIN[@]}" --source-lang en \
        --target-lang fr --path "$checkpoint" --beam "$BEAM" --batch-size "$SEARCH_BATCH" \
        --results-path "$PARTIAL/$name" ${search[@]+"${search[@]}"}
    translations "$PARTIAL/$name/generate-test.txt" >"$PARTIAL/$name.tokens"
    same_length "$PARTIAL/$name.tokens" "$TEST.fr"
    python "$ROOT/recipes/moses.py" detokenize --language fr --tokenizer "$TOKENIZER" \
        <"$PARTIAL/$name.tokens" >"$PARTIAL/$name.text"
}

translate() {
    local -a draw=()
    mkdir -- "$PARTIAL"
    ! has_attention "$1" || draw=(--heatmap-dir "$PARTIAL/alignments"
        --heatmap-format jsonl,html --heatmap-samples all)
    generate "$1" all "$DATA" ${draw[@]+"${draw[@]}"}
    generate "$1" no-unk "$DATA" --forbid-unk
    if has_attention "$1" && [[ $REPLACE_UNK = 1 ]]; then
        generate "$1" replaced "$WORK/test-words" --dataset-impl raw --replace-unk ""
    fi
}

# The test set's own words, which --replace-unk copies.
keep_test_words() {
    logged preprocess-test fairseq-preprocess "${PLUGIN[@]}" --source-lang en --target-lang fr \
        --testpref "$TEST" --dataset-impl raw --srcdict "$DATA/dict.en.txt" \
        --tgtdict "$DATA/dict.fr.txt" --destdir "$PARTIAL"
}

use_environment fairseq-generate
[[ $REPLACE_UNK = 0 ]] || run_step "keep the test set's words" "$WORK/test-words" keep_test_words
for model in $MODELS; do
    run_step "translate by $model, ${TRAINING##*/}, beam $BEAM" "$TRANSLATIONS/$(folder_of "$model")" \
        translate "$model"
done
