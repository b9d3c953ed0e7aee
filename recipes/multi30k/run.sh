#!/usr/bin/env bash
# Trains and scores a translator on Multi30k, English to French or German: 29,000 sentence pairs.
#
#     bash recipes/multi30k/run.sh
#     TARGET=de bash recipes/multi30k/run.sh
#     MODEL=rnnencdec bash recipes/multi30k/run.sh
#
# MULTI30K_DIR, a folder with {train,val,test_2016_flickr}.{en,fr}[.gz], saves the download. Any setting
# listed by `rnnsearch-train --help` can be an environment variable, such as HIDDEN; settings.sh has this
# recipe's values. Rerun it to resume an interrupted run.

HERE=$(CDPATH= cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
: "${MULTI30K_DIR:=}"
source "$HERE/settings.sh"
source "$HERE/../steps.sh"

SOURCE=en
: "${TARGET:=fr}" # or de

only_help "$@"

lay_out_corpus() {
    python "$HERE/corpus.py" --out "$PARTIAL" --languages "$SOURCE,$TARGET" \
        ${MULTI30K_DIR:+--folder "$MULTI30K_DIR"}
}

main() {
    one_of TARGET fr de
    begin_work "$ROOT/runs/multi30k-$([[ $TARGET = fr ]] || echo "$TARGET-")$MODEL" \
        TARGET MULTI30K_DIR
    run_step "lay out the corpus" "$WORK/corpus" lay_out_corpus
    train_translator --title "$MODEL on Multi30k" \
        --licence "trained on Multi30k (Elliott et al., 2016 and 2017), translated descriptions of \
Flickr30k's pictures; terms: github.com/multi30k/dataset"
}

main
exit
