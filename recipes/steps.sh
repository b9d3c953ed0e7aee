# Sourced by the recipes: strict mode, messages, and steps that are done once. ROOT is the root of
# the repository.
#
# A recipe calls begin_work, and then its steps with `run_step` or `resume_step`, outside of any `if`,
# `&&` or `||`, where bash would ignore failures inside them. What a step makes appears under its
# own name only when it is complete, and only then is the step stamped in $WORK/.done, so that an
# interrupted recipe goes on where it stopped.

set -euo pipefail

ROOT=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
STEP=

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

# only_help ARGUMENT...: for a recipe without arguments; shows its help where that is asked for.
only_help() {
    (($#)) || return 0
    [[ $1 != -h && $1 != --help ]] || { show_help && exit; }
    die "unknown argument $1; the only one is --help, which says what can be set"
}

# ended STATUS: says how the step ended that this shell was in the middle of.
ended() {
    [[ -n $STEP ]] || return 0
    if (($1 > 0 && $1 <= 128)); then
        log "step \"$STEP\" failed: mend what is said above"
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
        die "$1=${!1}: must be a number of $2 or more"
}

# use_work_folder DEFAULT: makes $WORK absolute and creates it. Steps replace what they find in it:
# it must be new, or hold only archives that were put there to save the download.
use_work_folder() {
    local others
    WORK=${WORK:-$1}
    [[ $WORK = /* ]] || WORK=$PWD/$WORK
    [[ $WORK != *:* ]] ||
        die "WORK=$WORK: fairseq takes a colon for the end of a path; name another"
    others=$(ls -A -- "$WORK" 2>/dev/null | grep -vx archives || true)
    [[ -z $others || -e $WORK/.done ]] ||
        die "WORK=$WORK has other things in it (${others%%$'\n'*}) and is no work folder;" \
            "name a new one"
    mkdir -p -- "$WORK/.done" "$WORK/logs"
}

# to_disk FILE: makes all that was written to its file system, and all names there, survive a power
# loss.
to_disk() { sync -f -- "$1" 2>/dev/null || sync; }

# run_step NAME OUTPUT COMMAND...: COMMAND makes the file or folder $PARTIAL, which becomes OUTPUT.
run_step() {
    local name=$1 output=$2 start=$SECONDS
    shift 2
    if [[ -e $WORK/.done/$name && -e $output ]]; then
        log "$name: done before"
        return
    fi
    log "$name"
    STEP=$name
    PARTIAL=$output.partial
    rm -rf -- "$PARTIAL" "$output.replaced"
    "$@"
    [[ -e $PARTIAL ]] || die "$name made nothing"
    rm -f -- "$WORK/.done/$name"
    to_disk "$PARTIAL"
    [[ ! -e $output ]] || mv -- "$output" "$output.replaced"
    mv -- "$PARTIAL" "$output"
    to_disk "$output"
    touch -- "$WORK/.done/$name"
    rm -rf -- "$output.replaced"
    STEP=
    log "$name: done in $((SECONDS - start)) s"
}

# resume_step NAME COMMAND...: COMMAND goes on by itself where it was interrupted.
resume_step() {
    local name=$1 start=$SECONDS
    shift
    if [[ -e $WORK/.done/$name ]]; then
        log "$name: done before"
        return
    fi
    log "$name"
    STEP=$name
    "$@"
    to_disk "$WORK"
    touch -- "$WORK/.done/$name"
    STEP=
    log "$name: done in $((SECONDS - start)) s"
}

# remember_settings NAME...: dies if the work folder was made with another value of one of these
# variables.
remember_settings() {
    local name settings changed
    settings=$(for name; do printf '%s=%s\n' "$name" "${!name}"; done)
    if [[ -e $WORK/settings ]]; then
        changed=$(diff <(printf '%s\n' "$settings") "$WORK/settings" | grep -m 1 '^<' || true)
        [[ -z $changed ]] || die "$WORK was made with other settings, now ${changed#< }: name" \
            "another WORK, or remove that folder"
        return
    fi
    printf '%s\n' "$settings" >"$WORK/settings.partial"
    to_disk "$WORK/settings.partial"
    mv -- "$WORK/settings.partial" "$WORK/settings"
}

# begin_work DEFAULT NAME...: uses the work folder and makes the Python environment; NAME are the
# settings that cannot be changed in that folder.
begin_work() {
    use_work_folder "$1"
    remember_settings "${@:2}"
    log "working in $WORK"
    # shellcheck source=recipes/environment.sh
    source "$ROOT/recipes/environment.sh"
}

# logged NAME COMMAND...: writes the output to a log, and shows its end if the command fails.
logged() {
    local file=$WORK/logs/$1.log status=0
    shift
    "$@" >"$file" 2>&1 || status=$?
    if ((status != 0)); then
        tail -n 15 -- "$file" >&2
        die "$STEP: $1 failed with status $status; the end of $file is above"
    fi
}

# same_length FILE FILE: dies unless both have as many lines.
same_length() {
    local first second
    first=$(wc -l <"$1") second=$(wc -l <"$2")
    ((first == second)) ||
        die "$1 has $(counted $((first)) line) and $2 has $((second)), which should be equal"
}
