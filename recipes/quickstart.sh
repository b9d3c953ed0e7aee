#!/usr/bin/env bash
# From nothing to a trained RNNsearch in minutes on a laptop: makes a small English-French corpus,
# trains, translates the test set, prints BLEU, three translations, and the paths of a heatmap and of
# a page that translates in the browser.
#
#     bash recipes/quickstart.sh [--dry-run]
#
# --dry-run says what would be done, and what time, disk and memory it takes. Run again, the recipe
# goes on where it stopped. The variables at the top of this script, and those of
# recipes/environment.sh, can be set in the environment.

: "${EPOCHS:=14}"
: "${LEARNING_RATE:=0.002}"
: "${ANNEAL_FROM:=11}" # from this epoch on the learning rate is halved in every epoch
: "${BATCH_SIZE:=80}"
: "${DROPOUT:=0.1}"
: "${BEAM:=5}"
: "${LEAST_BLEU:=90}"
: "${SEED:=1}"
: "${TRAIN_SENTENCES:=12000}" "${TEST_SENTENCES:=500}"
# More threads do not pay for so small a model, and they lose much where a core is busy.
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}

# shellcheck source=recipes/steps.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/steps.sh"

read_dry_run "$@"

make_corpus() {
    python "$ROOT/recipes/quickstart/toy_corpus.py" --out "$PARTIAL" --seed "$SEED" \
        --train "$TRAIN_SENTENCES" --valid "$TEST_SENTENCES" --test "$TEST_SENTENCES"
}

binarise() {
    preprocess preprocess en fr --trainpref "$WORK/corpus/train" \
        --validpref "$WORK/corpus/valid" --testpref "$WORK/corpus/test"
    TOKENIZER=words LOWERCASE=1 describe_preprocessing en fr
}

train() {
    train_logged train fairseq-train "$WORK/data" "${PLUGIN[@]}" \
        --arch rnnsearch_tiny --dropout "$DROPOUT" \
        --criterion alignment_heatmap --cost-scale word \
        --optimizer adam --lr "$LEARNING_RATE" --clip-norm 1 \
        --lr-scheduler fixed --force-anneal "$ANNEAL_FROM" --lr-shrink 0.5 \
        --batch-size "$BATCH_SIZE" --max-epoch "$EPOCHS" --seed "$SEED" \
        --num-workers 0 --save-dir "$WORK/checkpoints" \
        --log-format simple --log-interval 25
}

translate() {
    logged generate fairseq-generate "$WORK/data" "${PLUGIN[@]}" \
        --path "$WORK/checkpoints/checkpoint_best.pt" --beam "$BEAM" --batch-size 100 \
        --results-path "$PARTIAL"
    translations "$PARTIAL/generate-test.txt" >"$PARTIAL/test.fr"
    same_length "$PARTIAL/test.fr" "$WORK/corpus/test.fr"
}

report() {
    local reference=$WORK/corpus/test.fr translation=$WORK/translations/test.fr score heatmaps
    echo
    paste -d '\t' "$WORK/corpus/test.en" "$translation" "$reference" | awk -F '\t' '
        split($1, words, " ") >= 9 && ++shown <= 3 {
            print "source       " $1 "\ntranslation  " $2 "\nreference    " $3 "\n"
        }'
    heatmaps=("$WORK"/checkpoints/heatmaps/epoch*/valid0000-*.png)
    echo "heatmap of \"$(head -n 1 "$WORK/corpus/valid.en")\":"
    echo "  ${heatmaps[${#heatmaps[@]} - 1]}"
    sacrebleu "$reference" --input "$translation" --tokenize none --force --format text
    score=$(sacrebleu "$reference" --input "$translation" --tokenize none --force --score-only)
    awk -v score="$score" -v least="$LEAST_BLEU" 'BEGIN { exit !(score >= least) }' ||
        die "BLEU $score is below $LEAST_BLEU"
    echo
    echo "your own sentence, of the words in $WORK/data/dict.en.txt:"
    echo '  echo "The young woman buys a red car near the white church." |'
    printf '    %q -m fairseq_rnnsearch.inference.translate %q --heatmap-dir heatmaps\n' \
        "$(command -v python)" "$WORK"
}

# write_page CHECKPOINT: makes $PARTIAL, a page that translates in the browser and offers three
# sentences, the longest among them; in place of a checkpoint, --training=FOLDER.
write_page() {
    local sentence
    local -a examples=()
    while IFS= read -r sentence; do
        examples+=(--example="$sentence")
    done < <(awk 'NR <= 2 { print } length($0) > length(most) { most = $0 } END { print most }' \
        "$WORK/corpus/test.en")
    logged living python -P -m fairseq_rnnsearch.living "$1" --data "$WORK/data" --out "$PARTIAL" \
        "${examples[@]}" --title "RNNsearch of the quickstart" \
        --licence "trained on sentences made up by recipes/quickstart.sh, free for any use"
}

# say_plan: says what is trained, and what it takes.
say_plan() {
    log "$(counted "$TRAIN_SENTENCES" pair) made up: 64/128/128/64 units, dropout $DROPOUT," \
        "$(counted "$EPOCHS" epoch) of $(counted "$BATCH_SIZE" pair) at a time"
    log "this takes about $(counted $((1 + EPOCHS * TRAIN_SENTENCES / 56000)) minute) on one core," \
        "0.8 GB of memory, and 130 MB of disk in $WORK"
    say_environment
}

main() {
    local name
    for name in EPOCHS BATCH_SIZE BEAM TRAIN_SENTENCES TEST_SENTENCES; do
        whole "$name" 1
    done
    WORK=${WORK:-$ROOT/runs/quickstart}
    say_plan
    end_dry_run
    begin_work "$WORK" EPOCHS LEARNING_RATE ANNEAL_FROM BATCH_SIZE DROPOUT SEED \
        TRAIN_SENTENCES TEST_SENTENCES
    run_step "make the corpus" "$WORK/corpus" make_corpus
    run_step "binarise it" "$WORK/data" binarise
    resume_step "train for $EPOCHS epochs" train
    run_step "translate the test set with beam $BEAM" "$WORK/translations" translate
    run_step "write a page that translates" "$WORK/living.html" \
        write_page "$WORK/checkpoints/checkpoint_best.pt"
    run_step "write a page of the training" "$WORK/training.html" \
        write_page "--training=$WORK/checkpoints"
    report
    echo "a page that translates, for any browser: $WORK/living.html"
    echo "the same after each epoch of the training, with a slider: $WORK/training.html"
    log "done in $SECONDS s"
}

main
exit
