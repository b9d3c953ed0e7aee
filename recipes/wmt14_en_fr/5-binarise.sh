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

# binarise TRAIN VALID TESTS OPTION...: makes $PARTIAL; the prefixes TESTS are joined by commas.
binarise() {
    preprocess preprocess en fr --trainpref "$1" --validpref "$2" --testpref "$3" \
        --workers "$PROCESSES" "${@:4}"
}

# tests_in BEGINNING END: prints the prefixes of the test sets, joined by commas.
tests_in() { printf "%s$2\n" "${TESTS[@]/#/$1}" | paste -s -d , -; }

binarise_words() {
    binarise "$SELECTED/train" "$VALID" "$(tests_in "$WORK/tokens/test-" /text)" \
        --nwordssrc "$SHORTLIST" --nwordstgt "$SHORTLIST"
    describe_preprocessing en fr
}

binarise_subwords() {
    binarise "$SUBWORDS/train" "$SUBWORDS/valid" "$(tests_in "$SUBWORDS/test-" '')"
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
