#!/usr/bin/env bash
# Makes dictionaries and binary data for fairseq: of the SHORTLIST most frequent words, or of
# subwords.

source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

make_subwords() {
    local split language prefix test
    local -a splits=(train:"$SELECTED/train" valid:"$VALID")
    for test in "${TESTS[@]}"; do
        splits+=("test-$test:$(tokens_of "$test")")
    done
    mkdir -- "$PARTIAL"
    { sample "$SELECTED/train.en" "$BPE_SAMPLE" && sample "$SELECTED/train.fr" "$BPE_SAMPLE"; } |
        subword-nmt learn-bpe --symbols "$BPE_MERGES" >"$PARTIAL/codes"
    for split in "${splits[@]}"; do
        prefix=${split#*:} split=${split%%:*}
        for language in en fr; do
            logged "apply-bpe-$split.$language" subword-nmt apply-bpe --codes "$PARTIAL/codes" \
                --num-workers "$PROCESSES" --input "$prefix.$language" \
                --output "$PARTIAL/$split.$language"
        done
        same_length "$PARTIAL/$split.en" "$PARTIAL/$split.fr"
    done
}

# binarise TRAIN VALID TEXT_OF OPTION...: makes $PARTIAL; TEXT_OF is the command that prints where a
# test set is.
binarise() {
    local train=$1 valid=$2 text_of=$3 test tests=
    shift 3
    for test in "${TESTS[@]}"; do
        tests+=${tests:+,}$("$text_of" "$test")
    done
    preprocess preprocess en fr --trainpref "$train" --validpref "$valid" --testpref "$tests" \
        --workers "$PROCESSES" "$@"
}

subwords_of() { echo "$SUBWORDS/test-$1"; }

binarise_words() {
    binarise "$SELECTED/train" "$VALID" tokens_of --nwordssrc "$SHORTLIST" --nwordstgt "$SHORTLIST"
    describe_preprocessing en fr
}

binarise_subwords() {
    binarise "$SUBWORDS/train" "$SUBWORDS/valid" subwords_of
    cp -- "$SUBWORDS/codes" "$PARTIAL/codes"
    describe_preprocessing en:codes fr:codes
}

use_environment
if [[ $VOCABULARY = shortlist ]]; then
    run_step "binarise ${DATA##*/}" "$DATA" binarise_words
else
    run_step "make ${SUBWORDS##*/}" "$SUBWORDS" make_subwords
    run_step "binarise ${DATA##*/}" "$DATA" binarise_subwords
fi
log "data: $DATA"
