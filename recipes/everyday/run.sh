#!/usr/bin/env bash
# A small model for everyday sentences, English to French or, with TARGET=en, French to English.
#
#     TATOEBA=fra-eng.zip TEST_PREFIX=test-v2021-08-07 bash recipes/everyday/run.sh
#     TARGET=en ... bash recipes/everyday/run.sh
#
# TATOEBA is a download of sentence pairs from https://www.manythings.org/anki/fra-eng.zip (CC BY
# 2.0, tatoeba.org). TEST_PREFIX names Tatoeba's test set of OPUS-MT, PREFIX.en and PREFIX.fr, plain
# or as .gz (github.com/Helsinki-NLP/OPUS-MT-testsets). Its sentences stay out of training and
# validation. EVALUATE=valid leaves the test set unread. Any setting listed by `rnnsearch-train --help`
# can be an environment variable, such as HIDDEN; settings.sh has this recipe's values. Rerun it to
# resume an interrupted run.
#
# Optional: TEACHER and INVERSE name models (or ensembles, with : between) from SOURCE to TARGET and
# back, whose translations join the training text; SENTENCES (more text for them) and NEWS (more
# validation text) are PREFIX.en and PREFIX.fr; LAWS is the text of recipes/laws; BEGIN a first model.

HERE=$(CDPATH= cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
: "${TATOEBA:=}${TEST_PREFIX:=}${TEACHER:=}${INVERSE:=}${SENTENCES:=}${LAWS:=}${NEWS:=}${BEGIN:=}"
source "$HERE/settings.sh"
source "$HERE/../steps.sh"

: "${TARGET:=fr}" # or en
LICENCE="trained on sentences of Tatoeba (tatoeba.org), CC BY 2.0 FR"
LICENCE+=${LAWS:+", and laws, Open Government Licence - Canada"}

only_help "$@"

lay_out_corpus() {
    python "$HERE/corpus.py" --out "$PARTIAL" --archive "$TATOEBA" --test "$TEST_PREFIX" --target $TARGET
}

translate_by() { # MODEL FILE...
    python -P -m fairseq_rnnsearch.commands.translate "$@" --nbest 5 --beam 5 >"$PARTIAL"
}

mix() {
    list_of NEWS
    python "$HERE/mix.py" --out "$PARTIAL" --base "$WORK/pairs" --target "$TARGET" \
        ${TRANSLATED[@]:+--translated "${TRANSLATED[@]}"} ${SENTENCES:+--sentences "$SENTENCES"} \
        ${LAWS:+--laws "$LAWS"} ${WORDS[@]:+--news "${WORDS[@]}"}
}

carry_over() {
    python "$HERE/carry_over.py" --model "$BEGIN" --data "$WORK/vocabulary/data" --out "$PARTIAL"
}

write_model() {
    python "$HERE/card.py" --model "$WORK" --data "$WORK/data" --corpus "$WORK/corpus" \
        --part "$EVALUATE" --translations "$WORK/translations/text.$TARGET" --beam "$BEAM" \
        --settings "$WORK/training-settings" --target "$TARGET" \
        --kinds ${TEACHER:+translations ${SENTENCES:+sentences}} ${LAWS:+laws} >"$WORK/card.md"
    python -P -m fairseq_rnnsearch.commands.export "$WORK" --data "$WORK/data" \
        --weights int8 --card "$WORK/card.md" --licence "$LICENCE" --out "$PARTIAL" \
        --examples <(cut -f "$([[ $TARGET = fr ]] && echo 1 || echo 2)" "$HERE/outside.tsv" | head)
    paste "$WORK/pairs/train.$SOURCE" "$WORK/pairs/train.$TARGET" | awk 'NR % 37 == 0' |
        gzip -9n >"$PARTIAL/pairs.tsv.gz" # for rnnsearch-train --from
    (cd "$PARTIAL" && sha256sum pairs.tsv.gz >>SHA256SUMS)
}

main() {
    one_of TARGET fr en
    SOURCE=$([[ $TARGET = fr ]] && echo en || echo fr)
    [[ -f $TATOEBA && -n $TEST_PREFIX ]] || die "TATOEBA and TEST_PREFIX name the text (see --help)"
    begin_work "$ROOT/runs/everyday-$SOURCE-$TARGET" TARGET TATOEBA TEST_PREFIX TEACHER INVERSE \
        SENTENCES LAWS NEWS BEGIN
    TRANSLATED=()
    run_step "lay out the pairs" "$WORK/pairs" lay_out_corpus
    for model in ${TEACHER:+"$SOURCE $TEACHER"} ${INVERSE:+"$TARGET $INVERSE"}; do
        TRANSLATED+=("$WORK/by-model.${model%% *}")
        run_step "translate the ${model%% *} side" "${TRANSLATED[-1]}" \
            translate_by "${model#* }" "$WORK/pairs/train.${model%% *}" \
            ${SENTENCES:+"$SENTENCES.${model%% *}"}
    done
    run_step "mix the corpus" "$WORK/corpus" mix
    if [[ $BEGIN ]]; then
        WORK=$WORK/vocabulary train_translator --corpus "$WORK/corpus" --stop-after text
        run_step "carry the model over" "$WORK/begin" carry_over
    fi
    train_translator ${BEGIN:+--from "$WORK/begin"} --title "Everyday sentences" --licence "$LICENCE"
    rm -f -- "$WORK/.done/write the model's folder" # quick, and its card has the last scores
    run_step "write the model's folder" "$WORK/model" write_model
    echo "the model, ready to share: $WORK/model"
}

main
exit
