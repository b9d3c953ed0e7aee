#!/usr/bin/env bash
# Trains the five models of the paper's Table 1, one after the other, each for the updates of its
# Table 2.

source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"
source "$HERE/models.sh"
use_training_folder

# begin_with FROM TO: lets one model begin where another ended, as RNNsearch-50* with RNNsearch-50,
# which is judged by another metric, so that its best validation is left behind.
begin_with() {
    local from to
    from=$CHECKPOINTS/$(folder_of "$1") to=$CHECKPOINTS/$(folder_of "$2")
    [[ ! -e $to/checkpoint_last.pt && -e $from/checkpoint_last.pt ]] || return 0
    log "  $2 goes on from $1"
    mkdir -p -- "$to"
    cp -- "$from/checkpoint_last.pt" "$to/checkpoint_last.partial"
    to_disk "$to/checkpoint_last.partial"
    mv -- "$to/checkpoint_last.partial" "$to/checkpoint_last.pt"
}

# train MODEL: trains it, or goes on
train() {
    local longest
    local -a judge=(--best-checkpoint-metric nll_loss) further=() launch=()
    longest=$(updates_of "$1")
    if [[ $1 = *\* ]]; then
        longest=$LONGEST_TRAINING
        judge=(--best-checkpoint-metric bleu --maximize-best-checkpoint-metric --eval-bleu
            --eval-bleu-args '{"beam": 1}' --patience "$PATIENCE")
        [[ $VOCABULARY = shortlist ]] || judge+=(--eval-bleu-remove-bpe)
        begin_with "${1%\*}" "$1"
    fi
    set_sizes
    set_optimization "$OPTIMIZER" "$longest"
    list_of LAUNCH && launch=(${WORDS[@]+"${WORDS[@]}"})
    list_of TRAIN_OPTIONS && further=(${WORDS[@]+"${WORDS[@]}"})
    train_logged "train-$(folder_of "$1")-${DATA##*/}" ${launch[@]+"${launch[@]}"} \
        "$(command -v fairseq-train)" "$DATA" "${PLUGIN[@]}" --source-lang en --target-lang fr \
        --arch "$(arch_of "$1")" "${SIZES[@]}" --dropout "$DROPOUT" \
        --compute-dtype "$COMPUTE_DTYPE" --label-smoothing "$LABEL_SMOOTHING" \
        --criterion alignment_heatmap "${OPTIMIZATION[@]}" --clip-norm 1 \
        --distributed-world-size "$WORKERS" \
        --batch-size $((BATCH_SIZE / WORKERS)) --batch-order "$BATCH_ORDER" \
        --max-update "$longest" "${judge[@]}" \
        --save-interval-updates "$SAVE_EVERY" --keep-interval-updates 2 --no-epoch-checkpoints \
        --save-dir "$CHECKPOINTS/$(folder_of "$1")" --seed "$SEED" \
        --log-format simple --log-interval 50 ${further[@]+"${further[@]}"}
}

((BATCH_SIZE % WORKERS == 0)) || die "BATCH_SIZE=$BATCH_SIZE cannot be shared by WORKERS=$WORKERS"
# on CPUs the processes share the cores of this machine
: "${OMP_NUM_THREADS:=$((PROCESSES > WORKERS ? PROCESSES / WORKERS : 1))}"
use_environment
for model in "${CHOSEN[@]}"; do
    resume_step "$(training_of "$model")" train "$model"
done
