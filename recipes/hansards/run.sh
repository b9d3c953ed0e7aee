#!/usr/bin/env bash
# Trains RNNsearch in both directions, aligns the 447 Hansards sentences of the NAACL 2003 task by
# force, and prints precision, recall and alignment error rate of each direction and of both joined.
#
#     HANSARDS_DIR=... TRAIN="..." VALID=... bash recipes/hansards/run.sh
#
# recipes/hansards/settings.sh has all that can be set. Run again, it goes on where it stopped.

HERE=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=recipes/hansards/settings.sh
source "$HERE/settings.sh"
# shellcheck source=recipes/fairseq.sh
source "$HERE/../fairseq.sh"

only_help "$@"

lay_out_corpus() {
    local -a train
    read -r -a train <<<"$TRAIN"
    python "$HERE/corpus.py" --out "$PARTIAL" --train "${train[@]}" --valid "$VALID" \
        --pairs "$HANSARDS_DIR/enfr.src-tgt" --longest "$LONGEST"
}

make_subwords() {
    local split language
    mkdir -- "$PARTIAL"
    cat -- "$WORK/corpus/train.en" "$WORK/corpus/train.fr" |
        subword-nmt learn-bpe --symbols "$BPE_MERGES" >"$PARTIAL/codes" 2>"$WORK/logs/learn-bpe.log"
    for split in train valid; do
        for language in en fr; do
            subword-nmt apply-bpe --codes "$PARTIAL/codes" \
                <"$WORK/corpus/$split.$language" >"$PARTIAL/$split.$language"
        done
    done
}

binarise() {
    preprocess preprocess en fr --trainpref "$WORK/subwords/train" \
        --validpref "$WORK/subwords/valid" --workers 2
    cp -- "$WORK/subwords/codes" "$PARTIAL/codes"
    TOKENIZER=space LOWERCASE=1 describe_preprocessing en:codes fr:codes
}

# align SOURCE-TARGET: aligns the test sentences by force
align() {
    python -m fairseq_rnnsearch.align "$WORK/data" \
        --path "$WORK/checkpoints-$1/checkpoint_best.pt" \
        --source "$WORK/corpus/test.${1%-*}" --target "$WORK/corpus/test.${1#*-}" \
        --heatmap-dir "$PARTIAL" --heatmap-format pharaoh,jsonl,html \
        --heatmap-source-end "$SOURCE_END"
}

# train SOURCE-TARGET: trains one direction
train() {
    set_sizes
    set_optimization adam polynomial_decay "$UPDATES"
    set_judgement nll_loss
    train_logged "train-$1" fairseq-train "$WORK/data" "${PLUGIN[@]}" \
        --source-lang "${1%-*}" --target-lang "${1#*-}" \
        --arch rnnsearch_50 "${SIZES[@]}" --decoder-order "$DECODER_ORDER" --dropout "$DROPOUT" \
        --max-train-words 0 --criterion alignment_heatmap --label-smoothing "$LABEL_SMOOTHING" \
        "${OPTIMIZATION[@]}" --clip-norm "$CLIP_NORM" \
        --max-tokens "$BATCH_TOKENS" --batch-order fairseq \
        --max-update "$UPDATES" --seed "$SEED" --num-workers 0 \
        --save-dir "$WORK/checkpoints-$1" --no-epoch-checkpoints --save-interval-updates 500 \
        --keep-interval-updates 1 "${JUDGEMENT[@]}" \
        --log-format simple --log-interval 50
}

# score COMMENT OPTION...: prints precision, recall and alignment error rate in a line
score() {
    local comment=$1
    shift
    python -m fairseq_rnnsearch.evaluation aer --gold "$HANSARDS_DIR/enfr.gold" "$@" \
        --bootstrap "$RESAMPLES" >"$WORK/logs/aer-$comment.log"
    awk -v comment="$comment" '
        BEGIN { printf "%-20s", comment }
        /^(precision|recall|AER)/ { printf " %s %s ", $1, $2 }
        /^95%/ { printf " 95%% interval of the AER %s to %s\n", $3, $5 }
    ' "$WORK/logs/aer-$comment.log"
}

report() {
    local forward=$WORK/aligned-en-fr/alignments.pharaoh method
    local inverse=$WORK/aligned-fr-en/alignments.pharaoh
    score en-fr --hypothesis "$forward"
    score fr-en --hypothesis "$inverse" --reverse hypothesis
    for method in intersection union grow-diag-final-and; do
        score "$method" --hypothesis "$forward" --hypothesis-inverse "$inverse" \
            --reverse inverse --symmetrise "$method"
    done
    echo "alignments: $WORK/aligned-en-fr/index.html"
}

main() {
    local direction
    [[ -n $TRAIN && -n $VALID ]] || die "TRAIN and VALID name the training and the validation text"
    [[ -e $HANSARDS_DIR/enfr.src-tgt && -e $HANSARDS_DIR/enfr.gold ]] ||
        die "HANSARDS_DIR=$HANSARDS_DIR: must be a folder with enfr.src-tgt and enfr.gold"
    begin_work "$ROOT/runs/hansards" TRAIN VALID HANSARDS_DIR LONGEST BPE_MERGES EMBEDDING HIDDEN \
        ATTENTION MAXOUT DECODER_ORDER DROPOUT LEARNING_RATE WARMUP CLIP_NORM LABEL_SMOOTHING \
        BATCH_TOKENS UPDATES SEED
    run_step "lay out the corpus" "$WORK/corpus" lay_out_corpus
    run_step "make subwords" "$WORK/subwords" make_subwords
    run_step "binarise it" "$WORK/data" binarise
    for direction in $DIRECTIONS; do
        [[ $direction = en-fr || $direction = fr-en ]] ||
            die "DIRECTIONS=$DIRECTIONS: must be en-fr, fr-en or both"
        resume_step "train $direction" train "$direction"
    done
    for direction in en-fr fr-en; do
        [[ -e "$WORK/.done/train $direction" ]] || die "train $direction as well, then run again"
        run_step "align $direction" "$WORK/aligned-$direction" align "$direction"
    done
    report
}

main
exit
