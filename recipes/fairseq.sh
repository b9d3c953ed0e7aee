# Sourced by the recipes: steps, fairseq's commands, and options of theirs that recipes share.

# shellcheck source=recipes/steps.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/steps.sh"

PLUGIN=(--user-dir "$ROOT/fairseq_rnnsearch" --task alignment_heatmap)
export RNNSEARCH_WHOLE_LOG=1 # logs have all that fairseq says; the screen has what is picked here

# preprocess LOG SOURCE TARGET OPTION...: fairseq-preprocess from one language to the other, to
# $PARTIAL.
preprocess() {
    logged "$1" fairseq-preprocess "${PLUGIN[@]}" --source-lang "$2" --target-lang "$3" \
        --destdir "$PARTIAL" "${@:4}"
}

# tokenizer_of LANGUAGE: prints TOKENIZER, or what TOKENIZER_fr, for example, says of one language.
tokenizer_of() {
    local name=TOKENIZER_$1
    echo "${!name:-$TOKENIZER}"
}

# describe_preprocessing LANGUAGE[:CODES]...: writes how the text in the data folder $PARTIAL was
# made (by the tokenisers, LOWERCASE and files of BPE codes there), for what takes plain text.
describe_preprocessing() {
    local side codes tokenizer version='' separator='{' lowercase=false
    [[ $LOWERCASE = 0 ]] || lowercase=true
    for side; do
        tokenizer="\"$(tokenizer_of "${side%%:*}")\""
        if [[ $tokenizer = '"moses"' ]]; then
            version=${version:-$(python -c \
                'from importlib.metadata import version; print(version("sacremoses"))')}
            tokenizer+=", \"sacremoses\": \"$version\""
        fi
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
    local file=$WORK/logs/$1.log status=0 argument previous='' updates=0 epochs=0
    shift
    for argument; do
        [[ $previous != --max-update ]] || updates=$argument
        [[ $previous != --max-epoch ]] || epochs=$argument
        previous=$argument
    done
    "$@" 2>&1 | tee -a -- "$file" | show_training "$updates" "$epochs" || status=${PIPESTATUS[0]}
    if ((status != 0)); then
        tail -n 15 -- "$file" >&2
        die "$STEP failed with status $status; the end of $file is above"
    fi
}

# duration SECONDS: prints it in the unit that suits it.
duration() {
    if (($1 < 120)); then
        echo "$1 s"
    elif (($1 < 7200)); then
        echo "$((($1 + 30) / 60)) min"
    else
        echo "$((($1 + 1800) / 3600)) h"
    fi
}

# show_training UPDATES EPOCHS: reads fairseq-train's messages; writes a short line for each report,
# with the time that is left until the training has so many updates or epochs (0: without a limit),
# and warnings as they are.
show_training() {
    local report='\| epoch ([0-9]+): +([0-9]+) / ([0-9]+) .* ppl=([^ ,]+)'
    report+='.* num_updates=([0-9]+).* wall=([0-9]+)'
    local validation='\| valid \| epoch ([0-9]+) .* nll_loss ([^ ]+) .* ppl ([^ ]+)' on_line=
    local kept='([0-9]+) of ([0-9]+) training pairs have at most ([0-9]+) words'
    local line epoch update total first_update='' first_second text
    while IFS= read -r line; do
        if [[ $line =~ $report ]]; then
            epoch=$((10#${BASH_REMATCH[1]})) update=${BASH_REMATCH[5]} total=$1
            ((total && (!$2 || total < $2 * BASH_REMATCH[3]))) || total=$(($2 * BASH_REMATCH[3]))
            text="update $update of $total, epoch $epoch: training perplexity ${BASH_REMATCH[4]}"
            text+=", $(duration "${BASH_REMATCH[6]}")"
            if [[ -z $first_update ]]; then
                first_update=$update first_second=$SECONDS
            elif ((update < total)); then
                text+=", $(duration $(((total - update) * (SECONDS - first_second) \
                    / (update - first_update)))) left"
            fi
            [[ -t 1 ]] && printf '\r\e[K' && on_line=yes
            printf '  %s ' "$text"
            [[ -t 1 ]] || echo
            continue
        fi
        [[ -z $on_line ]] || { echo && on_line=; }
        if [[ $line =~ $kept ]]; then
            ((BASH_REMATCH[1] == BASH_REMATCH[2])) ||
                printf '  left out of training: %d of %d pairs, of more than %d words or pieces\n' \
                    $((BASH_REMATCH[2] - BASH_REMATCH[1])) "${BASH_REMATCH[@]:2}"
        elif [[ $line =~ $validation ]]; then
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

# living_page CHECKPOINT SENTENCES OPTION...: makes $PARTIAL, a page that translates in the browser.
# It offers the first two sentences of a file, and the longest one.
living_page() {
    local sentence
    local -a examples=()
    while IFS= read -r sentence; do
        examples+=(--example="$sentence")
    done < <(awk 'NR <= 2 { print } length($0) > length(most) { most = $0 } END { print most }' "$2")
    logged living python -m fairseq_rnnsearch.living "$1" --data "$WORK/data" --out "$PARTIAL" \
        ${examples[@]+"${examples[@]}"} "${@:3}"
}
