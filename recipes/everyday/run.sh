#!/usr/bin/env bash
# A small model for everyday sentences, English to French or, with TARGET=en, French to English.
#
#     TATOEBA=fra-eng.zip TEST_PREFIX=test-v2021-08-07 bash recipes/everyday/run.sh [--dry-run]
#     TARGET=en ... bash recipes/everyday/run.sh
#
# TATOEBA is a download of sentence pairs from https://www.manythings.org/anki/fra-eng.zip (CC BY
# 2.0, tatoeba.org). TEST_PREFIX names Tatoeba's test set of OPUS-MT, PREFIX.en and PREFIX.fr, plain
# or as .gz (github.com/Helsinki-NLP/OPUS-MT-testsets). Its sentences stay out of training and
# validation. EVALUATE=valid leaves the test set unread. Each setting that `rnnsearch-train --help`
# lists may be a variable of the environment, such as HIDDEN; settings.sh has the values of this
# recipe. --dry-run says what would be done, and what time, disk and memory it takes. Run again, the
# recipe goes on where it stopped.

HERE=$(CDPATH= cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
: "${TATOEBA:=}" "${TEST_PREFIX:=}"
# shellcheck source=recipes/everyday/settings.sh
source "$HERE/settings.sh"
# shellcheck source=recipes/train.sh
source "$HERE/../train.sh"

: "${TARGET:=fr}" # or en
LICENCE="trained on sentences of Tatoeba (tatoeba.org), CC BY 2.0 FR"

read_dry_run "$@"

# what the corpus has, for say_plan: pairs of training and test, then English and French
PAIRS=(151821 12681) ENGLISH=(937897 3877038 89) FRENCH=(1018992 4642453 109)

lay_out_corpus() {
    python "$HERE/corpus.py" --out "$PARTIAL" --archive "$TATOEBA" --test "$TEST_PREFIX" \
        --target "$TARGET"
}

write_model() {
    python "$HERE/card.py" --model "$WORK" --data "$WORK/data" --corpus "$WORK/corpus" \
        --part "$EVALUATE" --translations "$WORK/translations/text.$TARGET" --beam "$BEAM" \
        --settings "$WORK/training-settings" --target "$TARGET" >"$WORK/card.md"
    python -P -m fairseq_rnnsearch.inference.export "$WORK" --data "$WORK/data" \
        --weights int8 --card "$WORK/card.md" --licence "$LICENCE" --out "$PARTIAL"
}

main() {
    local language
    local -a counts
    one_of TARGET fr en
    SOURCE=$([[ $TARGET = fr ]] && echo en || echo fr)
    [[ -f $TATOEBA ]] || die "TATOEBA=$TATOEBA: must be the file fra-eng.zip (--help says where it is)"
    for language in en fr; do
        [[ -f $TEST_PREFIX.$language || -f $TEST_PREFIX.$language.gz ]] ||
            die "TEST_PREFIX=$TEST_PREFIX must name the test set: there is no $TEST_PREFIX.$language"
    done
    check_work_folder "$ROOT/runs/everyday-$SOURCE-$TARGET"
    counts=("${PAIRS[@]}" "${ENGLISH[@]}" "${FRENCH[@]}")
    [[ $TARGET = fr ]] || counts=("${PAIRS[@]}" "${FRENCH[@]}" "${ENGLISH[@]}")
    say_plan "$WORK" "${counts[@]}"
    end_dry_run
    begin_work TARGET TATOEBA TEST_PREFIX
    run_step "lay out the corpus" "$WORK/corpus" lay_out_corpus
    train --title "Everyday sentences" --licence "$LICENCE"
    rm -f -- "$WORK/.done/write the model's folder" # quick, and its card has the last scores
    run_step "write the model's folder" "$WORK/model" write_model
    echo "the model, to be shared: $WORK/model"
}

main
exit
