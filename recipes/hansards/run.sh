#!/usr/bin/env bash
# Trains RNNsearch in both directions, aligns the 447 Hansards sentences of the NAACL 2003 task by
# force, and prints precision, recall and alignment error rate of each direction and of both joined.
#
#     HANSARDS_DIR=... TRAIN="..." VALID=... bash recipes/hansards/run.sh
#
# settings.sh beside this file has all that can be set. Run again, it goes on where it stopped.

HERE=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(cd -- "$HERE/../.." && pwd)
# shellcheck source=recipes/hansards/settings.sh
source "$HERE/settings.sh"
# shellcheck source=recipes/steps.sh
source "$ROOT/recipes/steps.sh"

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
    logged preprocess fairseq-preprocess "${PLUGIN[@]}" --source-lang en --target-lang fr \
        --trainpref "$WORK/subwords/train" --validpref "$WORK/subwords/valid" \
        --workers 2 --destdir "$PARTIAL"
}

# train SOURCE-TARGET
train() {
    train_logged "train-$1" fairseq-train "$WORK/data" "${PLUGIN[@]}" \
        --source-lang "${1%-*}" --target-lang "${1#*-}" \
        --arch rnnsearch_50 --decoder-order "$DECODER_ORDER" --dropout "$DROPOUT" \
        --encoder-embed-dim "$EMBEDDING" --decoder-embed-dim "$EMBEDDING" \
        --encoder-hidden-size "$HIDDEN" --decoder-hidden-size "$HIDDEN" \
        --attention-size "$ATTENTION" --maxout-size "$MAXOUT" --max-train-words 0 \
        --criterion alignment_heatmap --cost-scale word --label-smoothing "$LABEL_SMOOTHING" \
        --optimizer adam --lr "$LEARNING_RATE" --lr-scheduler polynomial_decay \
        --warmup-updates "$WARMUP" --total-num-update "$UPDATES" --end-learning-rate 0.00001 \
        --clip-norm "$CLIP_NORM" --max-tokens "$BATCH_TOKENS" --batch-order fairseq \
        --max-update "$UPDATES" --seed "$SEED" --num-workers 0 \
        --save-dir "$WORK/checkpoints-$1" --no-epoch-checkpoints --save-interval-updates 500 \
        --keep-interval-updates 1 --best-checkpoint-metric nll_loss \
        --log-format simple --log-interval 50
}

main() {
    local direction
    [[ -n $TRAIN && -n $VALID ]] || die "TRAIN and VALID name the training and the validation text"
    [[ -e $HANSARDS_DIR/enfr.src-tgt && -e $HANSARDS_DIR/enfr.gold ]] ||
        die "HANSARDS_DIR=$HANSARDS_DIR: must be a folder with enfr.src-tgt and enfr.gold"
    use_work_folder "$ROOT/runs/hansards"
    remember_settings TRAIN VALID HANSARDS_DIR LONGEST BPE_MERGES EMBEDDING HIDDEN ATTENTION \
        MAXOUT DECODER_ORDER DROPOUT LEARNING_RATE WARMUP CLIP_NORM LABEL_SMOOTHING BATCH_TOKENS \
        UPDATES SEED
    log "working in $WORK"
    # shellcheck source=recipes/environment.sh
    source "$ROOT/recipes/environment.sh"
    PLUGIN=(--user-dir "$ROOT/fairseq_rnnsearch" --task alignment_heatmap)

    run_step "lay out the corpus" "$WORK/corpus" lay_out_corpus
    run_step "make subwords" "$WORK/subwords" make_subwords
    run_step "binarise it" "$WORK/data" binarise
    for direction in $DIRECTIONS; do
        [[ $direction = en-fr || $direction = fr-en ]] ||
            die "DIRECTIONS=$DIRECTIONS: must be en-fr, fr-en or both"
        resume_step "train $direction" train "$direction"
    done
}

main
exit
