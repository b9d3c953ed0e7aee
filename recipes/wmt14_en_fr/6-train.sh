#!/usr/bin/env bash
# The five models of the paper's Table 1, one after the other, each for the updates of Table 2.

# shellcheck source=recipes/wmt14_en_fr/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=recipes/wmt14_en_fr/models.sh
source "$HERE/models.sh"
use_training_folder

# RNNsearch-50* is RNNsearch-50 trained on: it begins where that ended.
begin_with() {
    local from to
    from=$CHECKPOINTS/$(folder_of "$1") to=$CHECKPOINTS/$(folder_of "$2")
    [[ ! -e $to/checkpoint_last.pt && -e $from/checkpoint_last.pt ]] || return 0
    log "  $2 goes on from $1"
    mkdir -p -- "$to"
    python "$HERE/begin.py" "$from/checkpoint_last.pt" "$to/checkpoint_last.pt"
}

# train MODEL
train() {
    local cost=word longest
    local -a optimizer=(--optimizer rnnsearch_adadelta) stop=() further=() launch=()
    longest=$(updates_of "$1")
    [[ $1 != *\* ]] || longest=$LONGEST_TRAINING
    if [[ $OPTIMIZER = adam ]]; then
        optimizer=(--optimizer adam --lr "$LEARNING_RATE" --lr-scheduler polynomial_decay
            --warmup-updates "$WARMUP" --total-num-update "$longest" --end-learning-rate 0.00001)
    else
        cost=sum # the paper's
    fi
    stop=(--max-update "$longest" --best-checkpoint-metric nll_loss)
    if [[ $1 = *\* ]]; then
        begin_with "${1%\*}" "$1"
        stop=(--max-update "$longest" --patience "$PATIENCE" --eval-bleu
            --eval-bleu-args '{"beam": 1}' --best-checkpoint-metric bleu
            --maximize-best-checkpoint-metric)
        [[ $VOCABULARY = shortlist ]] || stop+=(--eval-bleu-remove-bpe)
    fi
    read -r -a launch <<<"$LAUNCH" || true
    read -r -a further <<<"$TRAIN_OPTIONS" || true
    train_logged "train-$(folder_of "$1")" ${launch[@]+"${launch[@]}"} "$(command -v fairseq-train)" "$DATA" \
        "${PLUGIN[@]}" --source-lang en --target-lang fr --arch "$(arch_of "$1")" \
        --compute-dtype "$COMPUTE_DTYPE" --dropout "$DROPOUT" --label-smoothing "$LABEL_SMOOTHING" \
        --encoder-embed-dim "$EMBEDDING" --decoder-embed-dim "$EMBEDDING" \
        --encoder-hidden-size "$HIDDEN" --decoder-hidden-size "$HIDDEN" \
        --attention-size "$ATTENTION" --maxout-size "$MAXOUT" \
        --criterion alignment_heatmap --cost-scale "$cost" "${optimizer[@]}" --clip-norm 1 \
        --batch-size $((BATCH_SIZE / WORKERS)) --batch-order "$BATCH_ORDER" "${stop[@]}" \
        --save-interval-updates "$SAVE_EVERY" --keep-interval-updates 2 --no-epoch-checkpoints \
        --save-dir "$CHECKPOINTS/$(folder_of "$1")" --seed "$SEED" --log-format simple --log-interval 50 \
        ${further[@]+"${further[@]}"}
}

use_environment fairseq-train
for model in "${CHOSEN[@]}"; do
    resume_step "train $model on ${DATA##*/}" train "$model"
done
