# Sourced by the recipes: strict mode, messages, steps that are done once, fairseq's commands and
# options of theirs that recipes share. ROOT is the root of the repository.
#
# A recipe calls begin_work, and then its steps with `run_step` or `resume_step`, outside of any `if`,
# `&&` or `||`, where bash would ignore failures inside them. What a step makes appears under its
# own name only when it is complete, and only then is the step stamped in $WORK/.done, so that an
# interrupted recipe goes on where it stopped.

set -euo pipefail

ROOT=$(CDPATH= cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
STEP=
PLUGIN=(--user-dir "$ROOT/fairseq_rnnsearch" --task alignment_heatmap)
export RNNSEARCH_WHOLE_LOG=1 # logs have all that fairseq says; the screen has what is picked here

log() { printf '%s %s\n' "$(date +%H:%M:%S)" "$*" >&2; }

die() {
    STEP=
    log "error: $*"
    exit 1
}

# counted NUMBER NOUN: prints "1 pair" or "2 pairs".
counted() { printf '%s %s%s' "$1" "$2" "$([[ $1 = 1 ]] || echo s)"; }

# show_help: prints the comment that the recipe begins with.
show_help() { sed -n '2,/^$/s/^# \{0,1\}//p' -- "$0"; }

# only_help ARGUMENT...: for a recipe without arguments; shows its help on request.
only_help() {
    DRY_RUN= # whatever the environment has
    (($#)) || return 0
    [[ $1 != -h && $1 != --help ]] || { show_help && exit; }
    die "unknown argument $1; --help says what can be set"
}

# read_dry_run ARGUMENT...: for a recipe whose options are --dry-run, left in DRY_RUN, and --help.
read_dry_run() {
    DRY_RUN=
    for argument; do
        [[ $argument = --dry-run ]] || only_help "$argument"
        DRY_RUN=yes
    done
}

# end_dry_run: ends a dry run before anything is made.
end_dry_run() {
    [[ -n $DRY_RUN ]] || return 0
    log "nothing was done (--dry-run)"
    exit
}

# check PROGRAM OPTION...: runs a program that needs Python alone: until the environment is there,
# the Python that will make it does.
check() {
    local checker=${VENV:-$ROOT/.venv}/bin/python
    if [[ ${VENV:-} = none || ! -x $checker ]]; then
        checker=${PYTHON:-python3}
        "$checker" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null ||
            die "PYTHON=$checker: must be Python 3.11 to 3.13"
    fi
    PYTHONPATH=$ROOT${PYTHONPATH:+:$PYTHONPATH} "$checker" "$@"
}

has_environment() { [[ ${VENV:-} = none || -e ${VENV:-$ROOT/.venv}/bin/fairseq-train ]]; }

# say_environment: says that the Python environment is made first, where there is none.
say_environment() {
    has_environment ||
        log "before all else the Python environment is made: some minutes, and 1.4 GB of disk"
}

# ended STATUS: says how the step that this shell was in ended.
ended() {
    [[ -n $STEP ]] || return 0
    if (($1 > 0 && $1 <= 128)); then
        log "step \"$STEP\" failed; correct the error above and run again"
    else # a signal has ended this shell or the command
        log "step \"$STEP\" is unfinished; run again to go on"
    fi
}

trap 'ended $?' EXIT

# one_of NAME VALUE...: dies unless the variable NAME has one of the values.
one_of() {
    local name=$1 value
    shift
    for value; do
        [[ ${!name} != "$value" ]] || return 0
    done
    die "$name=${!name}: must be one of $*"
}

# list_of NAME: leaves the words of the variable NAME in the array WORDS, where a * is no pattern for
# files; dies if it has one of them twice.
list_of() {
    local word seen=' '
    read -r -d '' -a WORDS <<<"${!1}" || true
    for word in ${WORDS[@]+"${WORDS[@]}"}; do
        [[ $seen != *" $word "* ]] || die "$1=${!1}: has $word twice"
        seen+="$word "
    done
}

# words_of NAME VALUE...: does as list_of, and dies unless each word is one of the values.
words_of() {
    local name=$1 word
    list_of "$name"
    shift
    for word in ${WORDS[@]+"${WORDS[@]}"}; do
        [[ " $* " = *" $word "* ]] || die "$name=${!name}: $word must be one of $*"
    done
}

# whole NAME LEAST: dies unless the variable NAME is a whole number of LEAST or more. Only then may
# it stand in arithmetic, where bash would run the commands in anything else.
whole() {
    [[ ${!1} =~ ^(0|[1-9][0-9]{0,15})$ ]] && ((${!1} >= $2)) ||
        die "$1=${!1}: must be a whole number of $2 or more"
}

# number NAME [LIMIT]: dies unless the variable NAME is a number of 0 or more, and below LIMIT.
number() {
    [[ ${!1} =~ ^([0-9]+\.?|[0-9]*\.[0-9]+)([eE][-+]?[0-9]{1,2})?$ ]] &&
        awk -v value="${!1}" -v limit="${2:-1e99}" 'BEGIN { exit !(value + 0 < limit + 0) }' ||
        die "$1=${!1}: must be a number of 0 or more${2:+ and below $2}"
}

# check_work_folder DEFAULT: makes $WORK absolute. Steps replace what they find in it: it must be new,
# or hold only archives that were put there to save the download.
check_work_folder() {
    local others
    WORK=${WORK:-$1}
    [[ $WORK = /* ]] || WORK=$PWD/$WORK
    [[ $WORK != *[:,]* ]] ||
        die "WORK=$WORK: a colon or comma ends a path for fairseq; name another"
    others=$(ls -A -- "$WORK" 2>/dev/null | grep -vx archives || true)
    [[ -z $others || -e $WORK/.done ]] ||
        die "WORK=$WORK has other things in it (${others%%$'\n'*}) and is no work folder;" \
            "name a new one"
}

make_work_folder() { mkdir -p -- "$WORK/.done" "$WORK/logs"; }

# to_disk FILE: makes all that was written to its file system, and all names there, survive a power
# loss.
to_disk() { sync -f -- "$1" 2>/dev/null || sync; }

# lock_step NAME: keeps other runs out of a step until it closes descriptor 8, or ends with all that
# it has begun; where the file system, and the system, have locks.
lock_step() {
    local status=0
    command -v flock >/dev/null || return 0
    exec 8>"$WORK/.done/.$1"
    flock -n -E 75 8 || status=$?
    ((status != 75)) || die "$1: another run is at it in $WORK; wait for its end"
}

# run_step NAME OUTPUT COMMAND...: COMMAND makes the file or folder $PARTIAL, which becomes OUTPUT.
run_step() {
    [[ -e $2 ]] || rm -f -- "$WORK/.done/$1"
    resume_step "$1" make_whole "${@:2}"
}

# make_whole OUTPUT COMMAND...: see run_step.
make_whole() {
    local output=$1
    PARTIAL=$output.partial
    rm -rf -- "$PARTIAL" "$output.replaced"
    "${@:2}"
    [[ -e $PARTIAL ]] || die "$STEP made nothing"
    to_disk "$PARTIAL"
    [[ ! -e $output ]] || mv -- "$output" "$output.replaced"
    mv -- "$PARTIAL" "$output"
    rm -rf -- "$output.replaced"
}

# resume_step NAME COMMAND...: COMMAND goes on by itself where it was interrupted.
resume_step() {
    local name=$1 start=$SECONDS
    lock_step "$name"
    if [[ -e $WORK/.done/$name ]]; then
        log "$name: done before"
        exec 8>&-
        return
    fi
    log "$name"
    STEP=$name
    "${@:2}"
    to_disk "$WORK"
    touch -- "$WORK/.done/$name"
    exec 8>&- # other runs may look at it now
    STEP=
    log "$name: done in $((SECONDS - start)) s"
}

# remember_settings NAME...: dies if the work folder was made with another value of one of these
# variables. A folder that is older than a setting does not have it, and one in which no step has
# ended takes others.
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
    [[ -z ${DRY_RUN:-} ]] || return 0
    printf '%s\n' "$settings" >"$WORK/settings.partial"
    to_disk "$WORK/settings.partial"
    mv -- "$WORK/settings.partial" "$WORK/settings"
}

# begin_work NAME...: creates the work folder and the Python environment; NAME are the settings that
# cannot be changed in that folder.
begin_work() {
    make_work_folder
    remember_settings "$@"
    log "working in $WORK"
    exec </dev/null # some programs fail where it is closed
    # shellcheck source=recipes/environment.sh
    source "$ROOT/recipes/environment.sh"
}

# end_unless_done STATUS LOG COMMAND: ends this shell too if somebody interrupted or terminated the
# command; if it failed, shows the end of its log, which may have anybody's text, without control
# characters.
end_unless_done() {
    (($1 != 129 && $1 != 130 && $1 != 143)) || exit "$1"
    (($1 != 0)) || return 0
    tail -n 15 -- "$2" | tr -d '\000-\010\013-\037\177' >&2
    die "$3 failed with status $1; the end of $2 is above"
}

# logged NAME COMMAND...: writes the output to a log, and shows its end if the command fails.
logged() {
    local file=$WORK/logs/$1.log status=0
    "${@:2}" >"$file" 2>&1 || status=$?
    end_unless_done "$status" "$file" "$STEP: $2"
}

# same_length FILE FILE: dies unless both have as many lines.
same_length() {
    local first second
    first=$(wc -l <"$1") second=$(wc -l <"$2")
    ((first == second)) ||
        die "$1 has $(counted $((first)) line) and $2 has $((second)), which should be equal"
}

# --- fairseq

# preprocess LOG SOURCE TARGET OPTION...: fairseq-preprocess from one language to the other, to
# $PARTIAL.
preprocess() {
    logged "$1" fairseq-preprocess "${PLUGIN[@]}" --source-lang "$2" --target-lang "$3" \
        --destdir "$PARTIAL" "${@:4}"
}

# describe_preprocessing LANGUAGE[:CODES]...: writes how the text in the data folder $PARTIAL was
# made (by TOKENIZER, LOWERCASE and files of BPE codes there), for commands that take plain text.
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

# train_logged NAME COMMAND...: like logged, but adds to the log and shows how training goes. It ends
# this shell if SIGUSR1 has ended the training, which is no error of the training and not its end.
train_logged() {
    local file=$WORK/logs/$1.log status=0 argument previous='' updates=0 epochs=0
    shift
    for argument; do
        [[ $previous != --max-update ]] || updates=$argument
        [[ $previous != --max-epoch ]] || epochs=$argument
        previous=$argument
    done
    "$@" 2>&1 | tee -a -- "$file" |
        python -P -m fairseq_rnnsearch.training.progress "$updates" "$epochs" ||
        status=${PIPESTATUS[0]}
    end_unless_done "$status" "$file" "$STEP"
    ! tail -n 5 -- "$file" | grep -q 'Stopped by SIGUSR1' || exit 138
}

# set_sizes: leaves the options of the model's sizes in SIZES.
set_sizes() {
    SIZES=(--encoder-embed-dim "$EMBEDDING" --decoder-embed-dim "$EMBEDDING"
        --encoder-hidden-size "$HIDDEN" --decoder-hidden-size "$HIDDEN"
        --attention-size "$ATTENTION" --maxout-size "$MAXOUT")
}

# set_optimization OPTIMIZER UPDATES: leaves the options of the cost and of the optimizer, for a
# training of so many updates, in OPTIMIZATION.
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
