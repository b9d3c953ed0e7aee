#!/usr/bin/env bash
# Writes report.md for each test set: tables 1 to 3 and figures 2 and 3 beside the paper's.

source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"
source "$HERE/models.sh"
use_training_folder

# report TEST: makes its report of all models that have been trained
report() {
    local model trained log folder pair name way
    local -a ids=() systems=() notes=(
        --note "trained with $OPTIMIZER, dropout $DROPOUT, label smoothing $LABEL_SMOOTHING"
        --note "m $EMBEDDING, n $HIDDEN, n' $ATTENTION, l $MAXOUT"
        --note "vocabulary: $VOCABULARY, $([[ $VOCABULARY = bpe ]] && echo "$BPE_MERGES merges" ||
            echo "$SHORTLIST words a language")"
        --note "training text: $(wc -l <"$SELECTED/train.en") pairs,
            $(wc -w <"$SELECTED/train.fr") French words")
    for model in "${CHOSEN[@]}"; do
        folder=$TRANSLATIONS/$1/$(folder_of "$model")
        systems+=(--system "$model=$folder/all.tokens" --system-detokenised
            "$model=$folder/all.text")
        for trained in $([[ $model != *\* ]] || echo "${model%\*}") "$model"; do # it goes on from that
            log=$WORK/logs/train-$(folder_of "$trained")-${DATA##*/}.log
            [[ ! -e $log ]] || systems+=(--log "$model=$log")
        done
        [[ ! -e $folder/no-unk.tokens ]] ||
            systems+=(--system-no-unk "$model=$folder/no-unk.tokens"
                --system-no-unk-detokenised "$model=$folder/no-unk.text")
        if [[ -e $folder/alignments/alignments.jsonl ]]; then
            systems+=(--alignments "$model=$folder/alignments/alignments.jsonl")
            ids=(--alignment-ids "$ALIGNMENT_IDS") # RNNencdec alone has no alignments
        fi
        for way in copy dictionary; do
            [[ ! -e $folder/$way.tokens ]] || systems+=(
                --system "$model, UNK by $way=$folder/$way.tokens"
                --system-detokenised "$model, UNK by $way=$folder/$way.text"
                --only-scored "$model, UNK by $way")
        done
    done
    for pair in $OTHER_SYSTEMS; do
        name=${pair%%=*}
        [[ $name = *@* && $name != *@"$1" ]] || systems+=(--system "${name%@*}=${pair#*=}")
    done
    [[ $VOCABULARY = bpe ]] || systems+=(--source-dictionary "$DATA/dict.en.txt"
        --target-dictionary "$DATA/dict.fr.txt")
    python "$ROOT/recipes/reporting" report --out "$PARTIAL" --title "$TITLE: $1" \
        --paper-rows show \
        "${notes[@]}" --source "$(tokens_of "$1").en" --reference "$(tokens_of "$1").fr" \
        --source-detokenised "$WORK/text/test-$1/text.en" \
        --reference-detokenised "$WORK/text/test-$1/text.fr" \
        --baseline "${CHOSEN[0]}" ${ids[@]+"${ids[@]}"} "${systems[@]}"
}

use_environment
for test in "${TESTS[@]}"; do
    rm -f -- "$WORK/.done/report on $test, ${TRAINING##*/}" # quick, and rows may have been added
    run_step "report on $test, ${TRAINING##*/}" "$TRAINING/report-$test" report "$test"
    log "report: $TRAINING/report-$test/report.md"
done
