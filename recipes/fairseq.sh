# Sourced by the recipes after steps.sh: fairseq's commands, and options of theirs that recipes
# share. ROOT is the root of the repository.

PLUGIN=(--user-dir "$ROOT/fairseq_rnnsearch" --task alignment_heatmap)
export RNNSEARCH_WHOLE_LOG=1 # logs have all that fairseq says; the screen has what is picked here

# preprocess LOG SOURCE TARGET OPTION...: fairseq-preprocess from one language to the other, to
# $PARTIAL.
preprocess() {
    logged "$1" fairseq-preprocess "${PLUGIN[@]}" --source-lang "$2" --target-lang "$3" \
        --destdir "$PARTIAL" "${@:4}"
}

# describe_preprocessing LANGUAGE[:CODES]...: writes how the text in the data folder $PARTIAL was
# made (by TOKENIZER, LOWERCASE and files of BPE codes there), for load() and align, which take
# plain text.
describe_preprocessing() {
    local side codes separator='{' lowercase=false tokenizer="\"$TOKENIZER\""
    [[ $LOWERCASE = 0 ]] || lowercase=true
    [[ $TOKENIZER != moses ]] || tokenizer+=", \"sacremoses\": \"$(python -c \
        'from importlib.metadata import version; print(version("sacremoses"))')\""
    for side; do
        codes=null
        [[ $side != *:* ]] || codes="\"${side#*:}\""
        printf '%s"%s": {"tokenizer": %s, "lowercase": %s, "bpe_codes": %s}' \
            "$separator" "${side%%:*}" "$tokenizer" "$lowercase" "$codes"
        separator=$',\n '
    done >"$PARTIAL/preprocessing.json"
    echo '}' >>"$PARTIAL/preprocessing.json"
}

# train_logged NAME COMMAND...: does as logged, but adds to the log and shows how training goes.
train_logged() {
    local file=$WORK/logs/$1.log status=0
    shift
    "$@" 2>&1 | tee -a -- "$file" | show_training || status=${PIPESTATUS[0]}
    if ((status != 0)); then
        tail -n 15 -- "$file" >&2
        die "$STEP failed with status $status; the end of $file is above"
    fi
}

# show_training: reads fairseq-train's messages; writes a short line for each report, and warnings
# as they are.
show_training() {
    local line batch='\| epoch ([0-9]+): +([0-9]+) / ([0-9]+) .* ppl=([^ ,]+)'
    batch+='.* wall=([0-9]+)'
    local validation='\| valid \| epoch ([0-9]+) .* nll_loss ([^ ]+) .* ppl ([^ ]+)' on_line=
    while IFS= read -r line; do
        if [[ $line =~ $batch ]]; then
            [[ -t 1 ]] && printf '\r' && on_line=yes
            printf '  epoch %d, batch %d of %d: training perplexity %s, %d s ' \
                "$((10#${BASH_REMATCH[1]}))" "${BASH_REMATCH[@]:2}"
            [[ -t 1 ]] || echo
            continue
        fi
        [[ -z $on_line ]] || { echo && on_line=; }
        if [[ $line =~ $validation ]]; then
            printf '  epoch %d: validation perplexity %s\n' \
                "$((10#${BASH_REMATCH[1]}))" "${BASH_REMATCH[3]}"
        elif [[ $line = *Loaded\ checkpoint* || $line = *[Ee]rror* || $line = *WARNING* ]]; then
            printf '  %s\n' "$line"
        fi
    done
}

# set_sizes: leaves the options of the model's sizes in SIZES.
set_sizes() {
    SIZES=(--encoder-embed-dim "$EMBEDDING" --decoder-embed-dim "$EMBEDDING"
        --encoder-hidden-size "$HIDDEN" --decoder-hidden-size "$HIDDEN"
        --attention-size "$ATTENTION" --maxout-size "$MAXOUT")
}

# set_optimization OPTIMIZER SCHEDULER UPDATES: leaves the options of the cost and of the optimizer,
# for a training of so many updates, in OPTIMIZATION.
set_optimization() {
    if [[ $1 = adadelta ]]; then # the paper's, with its summed cost
        OPTIMIZATION=(--cost-scale sum --optimizer rnnsearch_adadelta)
        return
    fi
    OPTIMIZATION=(--cost-scale word --optimizer adam --lr "$LEARNING_RATE" --lr-scheduler "$2"
        --warmup-updates "$WARMUP")
    [[ $2 = fixed ]] || OPTIMIZATION+=(--total-num-update "$3" --end-learning-rate 0.00001)
}

# set_judgement nll_loss|bleu: leaves the options of what judges checkpoints, the cost or the BLEU
# of greedy translations, in JUDGEMENT.
set_judgement() {
    JUDGEMENT=(--best-checkpoint-metric "$1")
    [[ $1 = bleu ]] || return 0
    JUDGEMENT+=(--maximize-best-checkpoint-metric --eval-bleu --eval-bleu-args '{"beam": 1}')
    [[ $VOCABULARY = shortlist ]] || JUDGEMENT+=(--eval-bleu-remove-bpe)
}

# translations FILE: prints the translations in fairseq-generate's output, in the test set's order.
translations() { sed -n 's/^D-//p' -- "$1" | sort -n | cut -f 3-; }
