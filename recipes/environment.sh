# The Python environment of the recipes and tests: made once, then reused.
#
#   source recipes/environment.sh     makes or completes it and puts its programs first on PATH
#   bash recipes/environment.sh       only makes or completes it
#
# VENV               where it lies (default: .venv at the root of the repository)
# PYTHON             the Python that makes it, 3.11 or newer (default: the first found on PATH)
# RNNSEARCH_TORCH    what pip installs as torch (default: torch==2.13.0). For a GPU name another
#                    version or build; pip's own variables, such as PIP_EXTRA_INDEX_URL, say where
#                    it is found. fairseq is compiled against it: another torch, another VENV.
# RNNSEARCH_EXTRAS   extras of this project to install beside it, such as test or test,dev
#
# What was done is noted in $VENV/.rnnsearch. An environment that was left half made is made again.

if [[ ${BASH_SOURCE[0]} != "$0" ]]; then
    # Sourced: a shell of its own does the work, so that its options and names stay there.
    VENV=${VENV:-$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)/.venv}
    [[ $VENV = /* ]] || VENV=$PWD/$VENV
    export VENV
    bash "${BASH_SOURCE[0]}" || return
    export VIRTUAL_ENV=$VENV PATH=$VENV/bin:$PATH
    unset PYTHONHOME
    hash -r
    return 0
fi

set -euo pipefail

ROOT=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
VENV=${VENV:-$ROOT/.venv}
[[ $VENV = /* ]] || VENV=$PWD/$VENV
TORCH=${RNNSEARCH_TORCH:-torch==2.13.0}
EXTRAS=${RNNSEARCH_EXTRAS:-}
FAIRSEQ=fairseq-fixed==0.12.3.1
BUILD_TOOLS=("setuptools>=77" wheel cython numpy ninja)
OLDEST_PYTHON=3.11

NOTES=$VENV/.rnnsearch
BUSY=$NOTES/busy             # the number of the process that is at work
UNFINISHED=$NOTES/unfinished # there while a command changes the environment
MADE_HERE=$NOTES/made-here   # made by this script, and where

ticker_pid=
is_busy=

say() { printf 'environment: %s\n' "$*" >&2; }

die() {
    printf 'environment: error: %s\n' "$*" >&2
    exit 1
}

clean_up() {
    [[ -z $ticker_pid ]] || kill "$ticker_pid" 2>/dev/null || true
    [[ -z $is_busy ]] || rm -f -- "$BUSY"
}
trap clean_up EXIT

# ticker TEXT: says how long TEXT has taken: every second, or every 30 s where nobody watches.
ticker() {
    local seconds=0
    while sleep 1 && kill -0 "$$" 2>/dev/null; do
        seconds=$((seconds + 1))
        if [[ -t 2 ]]; then
            printf '\renvironment: %s ... %d s ' "$1" "$seconds" >&2
        elif ((seconds % 30 == 0)); then
            say "$1 ... $seconds s"
        fi
    done
}

# with_progress LOG TEXT COMMAND...: runs COMMAND with its output in LOG and a ticker beside it.
with_progress() {
    local log=$1 text=$2 start=$SECONDS status=0
    shift 2
    say "$text (log: $log)"
    ticker "$text" &
    ticker_pid=$!
    "$@" >"$log" 2>&1 </dev/null || status=$?
    kill "$ticker_pid" 2>/dev/null || true
    wait "$ticker_pid" 2>/dev/null || true
    ticker_pid=
    [[ ! -t 2 ]] || printf '\r' >&2
    if ((status != 0)); then
        tail -n 15 -- "$log" >&2
        die "$text: failed with status $status; the end of $log is above"
    fi
    say "$text: done in $((SECONDS - start)) s"
}

# changing LOG TEXT COMMAND...: the same, for a command that would leave a half-made environment.
changing() {
    touch -- "$UNFINISHED"
    with_progress "$@"
    rm -f -- "$UNFINISHED"
}

is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < tuple(map(int, sys.argv[1].split("."))))' \
        "$OLDEST_PYTHON" 2>/dev/null
}

version_of() {
    "$1" -c 'import platform; print(platform.python_version())' 2>/dev/null || echo none
}

find_python() {
    local candidate found=none
    if [[ -n ${PYTHON:-} ]]; then
        is_new_enough "$PYTHON" || die "PYTHON=$PYTHON is version $(version_of "$PYTHON"), needed" \
            "is $OLDEST_PYTHON or newer; name another"
        return
    fi
    for candidate in python3 python3.12 python3.11 python3.13 python; do
        if is_new_enough "$candidate"; then
            PYTHON=$candidate
            return
        fi
        [[ $found != none ]] || found=$(version_of "$candidate")
    done
    die "Python $OLDEST_PYTHON or newer is needed, found $found; install it (Debian, Ubuntu: apt" \
        "install python3 python3-venv python3-dev) or name one with PYTHON=/path/to/python3"
}

# One process at a time; the others wait.
take_turn() {
    local pid waited=
    if [[ -e $VENV && ! -e $VENV/pyvenv.cfg && ! -e $NOTES ]] && [[ -n $(ls -A -- "$VENV") ]]; then
        die "VENV=$VENV has other things in it and is no environment; name a new folder"
    fi
    mkdir -p -- "$NOTES" 2>/dev/null || die "cannot write to VENV=$VENV"
    until (set -o noclobber && echo "$$" >"$BUSY") 2>/dev/null; do
        pid=$(cat -- "$BUSY" 2>/dev/null || true)
        if [[ -n $pid ]] && ! kill -0 "$pid" 2>/dev/null; then
            rm -f -- "$BUSY" # left by a process that was killed
            continue
        fi
        [[ -n $waited ]] || say "process ${pid:-?} is setting up $VENV; waiting for it"
        waited=yes
        sleep 1
    done
    is_busy=yes
}

is_in_place() { [[ ! -e $MADE_HERE || $(<"$MADE_HERE") -ef $VENV ]]; }

check_folder() {
    if ! is_in_place; then
        die "$VENV was made as $(<"$MADE_HERE") and cannot be moved; remove it to make it again"
    fi
    if [[ -e $UNFINISHED && -e $MADE_HERE ]]; then
        say "$VENV was left half made; making it again"
        find "$VENV" -mindepth 1 -maxdepth 1 ! -path "$NOTES" -exec rm -rf -- {} +
        rm -f -- "$NOTES"/project-* "$NOTES/torch"
    fi
    rm -f -- "$UNFINISHED"
    [[ -e $VENV/pyvenv.cfg ]] || return 0
    is_new_enough "$VENV/bin/python" || die "$VENV has Python $(version_of "$VENV/bin/python")," \
        "needed is $OLDEST_PYTHON or newer; remove it or name another VENV"
    "$VENV/bin/python" -m pip --version >/dev/null 2>&1 ||
        die "$VENV has no pip; run \"$VENV/bin/python\" -m ensurepip"
}

make_venv() {
    [[ ! -e $VENV/pyvenv.cfg ]] || return 0
    find_python
    "$PYTHON" -c 'import venv, ensurepip' 2>/dev/null || die "$PYTHON ($(version_of "$PYTHON"))" \
        "has no venv module; install it (Debian, Ubuntu: apt install python3-venv)"
    echo "$VENV" >"$MADE_HERE"
    changing "$NOTES/venv.log" "making $VENV with Python $(version_of "$PYTHON")" \
        "$PYTHON" -m venv "$VENV"
}

# What compiling fairseq needs.
check_compiler() {
    local header
    "${CXX:-c++}" --version >/dev/null 2>&1 || "${CXX:-g++}" --version >/dev/null 2>&1 ||
        die "no C++ compiler (${CXX:-c++ or g++}), needed once to build fairseq; install one" \
            "(Debian, Ubuntu: apt install g++; Fedora: dnf install gcc-c++)"
    header=$("$VENV/bin/python" -c \
        'import sysconfig; print(sysconfig.get_paths()["include"] + "/Python.h")')
    [[ -e $header ]] || die "no $header, needed once to build fairseq; install Python's headers" \
        "(Debian, Ubuntu: apt install python3-dev; Fedora: dnf install python3-devel)"
}

run_pip() { "$VENV/bin/python" -m pip --disable-pip-version-check "$@"; }

installed_torch() {
    "$VENV/bin/python" -c 'from importlib.metadata import version; print(version("torch"))'
}

# pip keeps the wheels that it builds, but knows nothing of the torch they were compiled against.
build_fairseq() {
    local cache torch
    torch=$(installed_torch)
    cache=$(run_pip cache dir 2>/dev/null) || cache=$NOTES/cache
    run_pip wheel --cache-dir "$cache/rnnsearch-torch-$torch" --no-build-isolation --no-deps \
        --wheel-dir "$NOTES/wheels" "$FAIRSEQ"
}

install_fairseq() {
    run_pip install --no-build-isolation "$NOTES"/wheels/fairseq_fixed-*.whl \
        "torch==$(installed_torch)" # no dependency may exchange it
}

install_project() {
    cd -- "$ROOT"
    run_pip install --no-build-isolation -e ".${EXTRAS:+[$EXTRAS]}" "torch==$(installed_torch)"
}

# Prints which of the given distributions (name or name==version) are not installed.
list_missing() {
    "$VENV/bin/python" - "$@" <<'PYTHON_END'
import sys
from importlib.metadata import PackageNotFoundError, version

for wanted in sys.argv[1:]:
    name, _, exact = wanted.partition("==")
    try:
        found = version(name)
    except PackageNotFoundError:
        found = None
    if found is None or (exact and found != exact):
        print(wanted)
PYTHON_END
}

noted() { [[ -e $NOTES/$1 && $(<"$NOTES/$1") = "$2" ]]; }

is_complete() {
    [[ -x $VENV/bin/python && ! -e $UNFINISHED ]] && is_in_place &&
        noted torch "$TORCH" && noted "project-$EXTRAS" "$1" &&
        [[ -z $(list_missing torch "$FAIRSEQ" fairseq-rnnsearch) ]]
}

main() {
    local project missing
    project="$(cksum <"$ROOT/pyproject.toml") $ROOT"
    if is_complete "$project"; then
        return
    fi
    take_turn
    if is_complete "$project"; then # another process did it
        return
    fi
    check_folder
    make_venv

    missing=$(list_missing torch)
    if [[ -e $NOTES/torch ]] && ! noted torch "$TORCH"; then
        die "$VENV was made with $(<"$NOTES/torch"), asked for is RNNSEARCH_TORCH=$TORCH: name" \
            "another VENV for it, or remove $VENV"
    fi
    if [[ -n $missing || -n ${RNNSEARCH_TORCH:-} ]] && ! noted torch "$TORCH"; then
        changing "$NOTES/torch.log" "installing $TORCH" run_pip install "$TORCH"
    fi
    echo "$TORCH" >"$NOTES/torch"

    if [[ -n $(list_missing "${BUILD_TOOLS[@]%%>=*}") ]]; then
        changing "$NOTES/build-tools.log" "installing what builds fairseq" \
            run_pip install "${BUILD_TOOLS[@]}"
    fi
    if [[ -n $(list_missing "$FAIRSEQ") ]]; then
        check_compiler
        with_progress "$VENV/fairseq-build.log" "compiling $FAIRSEQ, once, for some minutes" \
            build_fairseq
        changing "$NOTES/fairseq.log" "installing $FAIRSEQ" install_fairseq
    fi
    with_progress "$NOTES/project.log" "installing fairseq-rnnsearch${EXTRAS:+[$EXTRAS]}" \
        install_project
    echo "$project" >"$NOTES/project-$EXTRAS"
}

main
