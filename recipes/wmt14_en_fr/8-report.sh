#!/usr/bin/env bash
# Tables 1 to 3 and figures 2 and 3 beside the paper's, as report.md and report.html.

# shellcheck source=recipes/wmt14_en_fr/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=recipes/wmt14_en_fr/models.sh
source "$HERE/models.sh"

report() {
    local model folder pair
    local -a systems=() notes=(
        --note "trained with $OPTIMIZER, dropout $DROPOUT, label smoothing $LABEL_SMOOTHING"
        --note "m $EMBEDDING, n $HIDDEN, n' $ATTENTION, l $MAXOUT"
        --note "vocabulary: $VOCABULARY, $([[ $VOCABULARY = bpe ]] && echo "$BPE_MERGES merges" ||
            echo "$SHORTLIST words a language")"
        --note "training text: $(wc -l <"$SELECTED/train.en") pairs,
            $(wc -w <"$SELECTED/train.fr") French words")
    for model in $MODELS; do
        folder=$TRANSLATIONS/$(folder_of "$model")
        systems+=(--system "$model=$folder/all.tokens" --system-detokenised
            "$model=$folder/all.text" --system-no-unk "$model=$folder/no-unk.tokens"
            --system-no-unk-detokenised "$model=$folder/no-unk.text"
            --log "$model=$WORK/logs/train-$(folder_of "$model").log")
        [[ ! -e $folder/alignments/alignments.jsonl ]] ||
            systems+=(--alignments "$model=$folder/alignments/alignments.jsonl")
        [[ ! -e $folder/replaced.tokens ]] ||
            systems+=(--system "$model, UNK replaced=$folder/replaced.tokens"
                --system-detokenised "$model, UNK replaced=$folder/replaced.text")
    done
    for pair in $OTHER_SYSTEMS; do
        systems+=(--system "$pair")
    done
    [[ $VOCABULARY = bpe ]] || systems+=(--source-dictionary "$DATA/dict.en.txt"
        --target-dictionary "$DATA/dict.fr.txt")
    python -m fairseq_rnnsearch.evaluation report --out "$PARTIAL" --title "$TITLE" \
        "${notes[@]}" --source "$TEST.en" --reference "$TEST.fr" \
        --source-detokenised "$WORK/text/test/text.en" \
        --reference-detokenised "$WORK/text/test/text.fr" \
        --baseline "${MODELS%% *}" --alignment-ids "$ALIGNMENT_IDS" "${systems[@]}"
}

use_environment
rm -f -- "$WORK/.done/report on ${TRAINING##*/}" # quick, and further rows may have been added
run_step "report on ${TRAINING##*/}" "$TRAINING/report" report
log "report: $TRAINING/report/report.html"
