#!/usr/bin/env bash
# Trains and scores a translator on Multi30k, English to French or German: 29,000 sentence pairs.
#
#     bash recipes/multi30k/run.sh [--dry-run]
#     TARGET=de bash recipes/multi30k/run.sh
#     MODEL=rnnencdec bash recipes/multi30k/run.sh
#
# MULTI30K_DIR, a folder with {train,val,test_2016_flickr}.{en,fr}[.gz], saves the download. Each
# setting that `rnnsearch-train --help` lists may be a variable of the environment, such as HIDDEN;
# settings.sh has the values of this recipe. --dry-run says what would be done, and what time, disk
# and memory it takes. Run again, the recipe goes on where it stopped.

HERE=$(CDPATH= cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
: "${MULTI30K_DIR:=}"
# shellcheck source=recipes/multi30k/settings.sh
source "$HERE/settings.sh"
# shellcheck source=recipes/train.sh
source "$HERE/../train.sh"

SOURCE=en
: "${TARGET:=fr}" # or de

read_dry_run "$@"

lay_out_corpus() {
    local pair
    python "$HERE/corpus.py" --out "$PARTIAL" --languages "$SOURCE,$TARGET" \
        ${MULTI30K_DIR:+--folder "$MULTI30K_DIR"}
    for pair in train valid test; do
        same_length "$PARTIAL/$pair.$SOURCE" "$PARTIAL/$pair.$TARGET"
    done
}

main() {
    one_of TARGET fr de
    check_work_folder "$ROOT/runs/multi30k-$([[ $TARGET = fr ]] || echo "$TARGET-")$MODEL"
    say_plan "$WORK" "${MULTI30K_COUNTS[@]}"
    end_dry_run
    begin_work TARGET MULTI30K_DIR
    run_step "lay out the corpus" "$WORK/corpus" lay_out_corpus
    train --title "$MODEL on Multi30k" \
        --licence "trained on Multi30k (Elliott et al., 2016 and 2017), translated descriptions of \
Flickr30k's pictures; terms: github.com/multi30k/dataset"
}

main
exit
