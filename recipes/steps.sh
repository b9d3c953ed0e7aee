# Sourced by the recipes: strict mode, steps that run once, and shared calls of fairseq. ROOT is the
# root of the repository.
#
# A recipe calls begin_work, and then its steps with `run_step` or `resume_step`. These must stand
# outside any `if`, `&&` or `||`, where bash would ignore failures inside them. The output of a step
# gets its name only when it is complete, and only then is the step stamped in $WORK/.done. So an
# interrupted recipe resumes where it stopped.

set -euo pipefail

ROOT=$(CDPATH= cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
STEP=
PLUGIN=(--user-dir "$ROOT/fairseq_rnnsearch" --task alignment_heatmap)
export RNNSEARCH_WHOLE_LOG=1 # logs get all that fairseq prints, the screen a selection
trap '[[ $? = 0 || -z $STEP ]] || log "step \"$STEP\" is unfinished; run again to go on"' EXIT

log() { printf '%s %s\n' "$(date +%H:%M:%S)" "$*" >&2; }

die() {
    log "error: $*"
    exit 1
}

# show_help: prints the comment that the recipe begins with.
show_help() { sed -n '2,/^$/s/^# \{0,1\}//p' -- "$0"; }

# only_help ARGUMENT...: for a recipe without arguments; shows its help on request.
only_help() {
    (($#)) || return 0
    [[ $1 != -h && $1 != --help ]] || { show_help && exit; }
    die "unknown argument $1; see --help for what can be set"
}

# one_of NAME VALUE...: dies unless the variable NAME has one of the values.
one_of() {
    [[ " ${*:2} " = *" ${!1} "* ]] || die "$1=${!1}: must be one of ${*:2}"
}

# list_of NAME: leaves the words of the variable NAME in the array WORDS, where a * is no pattern.
list_of() { read -r -d '' -a WORDS <<<"${!1}" || true; }

# check_work_folder DEFAULT: makes $WORK absolute. Steps replace what is in it, so it must be new, or
# hold nothing but archives that were put there to save the download.
check_work_folder() {
    local others
    WORK=${WORK:-$1}
    [[ $WORK = /* ]] || WORK=$PWD/$WORK
    others=$(ls -A -- "$WORK" 2>/dev/null | grep -vx archives || true)
    [[ -z $others || -e $WORK/.done ]] || die "WORK=$WORK has other things in it" \
        "(${others%%$'\n'*}) and is no work folder; name a new one"
    mkdir -p -- "$WORK/.done" "$WORK/logs"
}

# remember_settings NAME...: dies if the work folder was made with another value of one of these
# variables. Settings newer than the folder are ignored, and a folder in which no step is done accepts
# new values.
remember_settings() {
    local name settings changed
    settings=$(for name; do printf '%s=%s\n' "$name" "${!name//$'\n'/ }"; done)
    if [[ -e $WORK/settings && (! -d $WORK/.done || -n $(ls -- "$WORK/.done")) ]]; then
        changed=$(awk -F = 'NR == FNR { made[$1] = $0; next }
            $1 in made && made[$1] != $0 { print; exit }' "$WORK/settings" - <<<"$settings")
        [[ -z $changed ]] || die "$WORK was made with other settings, now $changed: name another" \
            "WORK, or remove that folder"
        return
    fi
    printf '%s\n' "$settings" >"$WORK/settings.partial"
    mv -- "$WORK/settings.partial" "$WORK/settings"
}

# begin_work DEFAULT NAME...: makes the work folder and the Python environment. The settings NAME
# cannot change in that folder.
begin_work() {
    check_work_folder "$1"
    remember_settings "${@:2}"
    log "working in $WORK"
    exec </dev/null # some programs fail if it is closed
    source "$ROOT/recipes/environment.sh"
}

# to_disk FILE: syncs its file system, so that what was written survives a power loss.
to_disk() { sync -f -- "$1" 2>/dev/null || sync; }

# run_step NAME OUTPUT COMMAND...: COMMAND makes the file or folder $PARTIAL, which becomes OUTPUT.
run_step() {
    [[ -e $2 ]] || rm -f -- "$WORK/.done/$1"
    resume_step "$1" make_whole "${@:2}"
}

make_whole() { # OUTPUT COMMAND...
    PARTIAL=$1.partial
    rm -rf -- "$PARTIAL"
    "${@:2}"
    to_disk "$PARTIAL"
    rm -rf -- "$1"
    mv -- "$PARTIAL" "$1"
}

# resume_step NAME COMMAND...: COMMAND resumes by itself. Descriptor 8 locks the step, if the system
# has locks, until it and all its children have ended.
resume_step() {
    exec 8>"$WORK/.done/.$1"
    ! command -v flock >/dev/null || flock -n 8 || die "$1: another run is at it in $WORK"
    if [[ -e $WORK/.done/$1 ]]; then
        log "$1: done before"
    else
        local start=$SECONDS
        log "$1"
        STEP=$1
        "${@:2}"
        to_disk "$WORK"
        touch -- "$WORK/.done/$1"
        STEP=
        log "$1: done in $((SECONDS - start)) s"
    fi
    exec 8>&- # release the lock
}

# logged NAME COMMAND...: writes the output to a log, and shows its end if the command fails.
logged() {
    local file=$WORK/logs/$1.log status=0
    "${@:2}" >"$file" 2>&1 || status=$?
    ((status == 0)) || show_end "$file"
}

# show_end LOG: shows the end of a log, without control characters, and ends the recipe.
show_end() {
    tail -n 15 -- "$1" | tr -d '\000-\010\013-\037\177' >&2
    die "$STEP: the end of $1 is above"
}

# same_length FILE FILE: dies unless both have the same number of lines.
same_length() {
    (($(wc -l <"$1") == $(wc -l <"$2"))) || die "$1 and $2 should have the same number of lines"
}

# train_translator OPTION...: runs rnnsearch-train from SOURCE to TARGET on $WORK/corpus, in $WORK. Any
# setting that its --help lists can be an environment variable, such as HIDDEN.
train_translator() {
    python -P "$ROOT/recipes/train.py" --corpus "$WORK/corpus" --languages "$SOURCE,$TARGET" \
        --work "$WORK" "$@"
}

# --- fairseq

# preprocess LOG SOURCE TARGET OPTION...: runs fairseq-preprocess from one language to the other, into
# $PARTIAL.
preprocess() {
    logged "$1" fairseq-preprocess "${PLUGIN[@]}" --source-lang "$2" --target-lang "$3" \
        --destdir "$PARTIAL" "${@:4}"
}

# describe_preprocessing LANGUAGE[:CODES]...: records how the text in the data folder $PARTIAL was
# preprocessed (TOKENIZER, LOWERCASE, files of BPE codes there), for commands that read plain text.
describe_preprocessing() {
    local side codes tokenizer="\"$TOKENIZER\"" separator='{' lowercase=false
    [[ $LOWERCASE = 0 ]] || lowercase=true
    [[ $TOKENIZER != moses ]] || tokenizer+=", \"sacremoses\": \"$(python -P -c \
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

# train_logged NAME COMMAND...: like logged, but appends to the log and shows progress. If SIGUSR1
# stopped the training, which is neither an error nor its end, this shell exits.
train_logged() {
    local file=$WORK/logs/$1.log status=0 updates=0 epochs=0 place
    shift
    for ((place = 1; place < $#; place++)); do
        [[ ${!place} != --max-update ]] || updates=${@:place+1:1}
        [[ ${!place} != --max-epoch ]] || epochs=${@:place+1:1}
    done
    "$@" 2>&1 | tee -a -- "$file" |
        python -P -m fairseq_rnnsearch.train.progress "$updates" "$epochs" ||
        status=${PIPESTATUS[0]}
    ((status == 0)) || show_end "$file"
    ! tail -n 5 -- "$file" | grep -q 'Stopped by SIGUSR1' || exit 138
}

# set_sizes: sets SIZES to the options of the model's sizes.
set_sizes() {
    SIZES=(--encoder-embed-dim "$EMBEDDING" --decoder-embed-dim "$EMBEDDING"
        --encoder-hidden-size "$HIDDEN" --decoder-hidden-size "$HIDDEN"
        --attention-size "$ATTENTION" --maxout-size "$MAXOUT")
}

# set_optimization OPTIMIZER UPDATES: sets OPTIMIZATION to the options of the cost and the optimizer,
# for that many updates.
set_optimization() {
    if [[ $1 = adadelta ]]; then # the paper's, with its summed cost
        OPTIMIZATION=(--cost-scale sum --optimizer rnnsearch_adadelta)
        return
    fi
    OPTIMIZATION=(--cost-scale word --optimizer adam --lr "$LEARNING_RATE"
        --lr-scheduler polynomial_decay --warmup-updates "$WARMUP" --total-num-update "$2"
        --end-learning-rate 0.00001)
}

# translations FILE: prints the translations in fairseq-generate's output, in the test set's order.
translations() { sed -n 's/^D-//p' -- "$1" | sort -n | cut -f 3-; }
