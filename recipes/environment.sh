#!/usr/bin/env bash
# The Python environment of the recipes and tests: made once, then reused.
#
#   source recipes/environment.sh     makes or completes it and puts its programs first on PATH
#   bash recipes/environment.sh       only makes or completes it
#   bash recipes/environment.sh --python    makes nothing; prints the path of its Python, or, where
#                                           there is none yet, of one that could make it
#
# VENV               where it lies (default: .venv at the root of the repository); none: nothing is
#                    made, and the python and programs on PATH are taken as they are
# PYTHON             the Python that makes it. By default it is the first of python3.12 and what else
#                    is on PATH for which pip finds a torch without NVIDIA's libraries; if there is
#                    none, the first that is supported. fairseq has a ready wheel for 3.12 alone.
# RNNSEARCH_TORCH    what pip installs as torch (default: torch==2.13.0). For a GPU name another
#                    version or build; pip's own variables, such as PIP_EXTRA_INDEX_URL, say where
#                    it is found. Another torch needs another VENV.
# RNNSEARCH_EXTRAS   extras of this project to install beside it, such as test or test,dev
#
# What was done is noted in $VENV/.rnnsearch. An environment that was left half made is made again.

if [[ ${BASH_SOURCE[0]} != "$0" ]]; then
    [[ ${VENV:-} != none ]] || return 0
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
[[ $VENV = /* || $VENV = none ]] || VENV=$PWD/$VENV
TORCH=${RNNSEARCH_TORCH:-torch==2.13.0}
EXTRAS=${RNNSEARCH_EXTRAS:-}
FAIRSEQ=$(sed -n 's/^ *"\(fairseq-fixed==.*\)",$/\1/p' "$ROOT/pyproject.toml")
read -r OLDEST TOO_NEW <<<"$(sed -n 's/^requires-python = ">=\(.*\),<\(.*\)"$/\1 \2/p' \
    "$ROOT/pyproject.toml")"
NEEDED="needed is Python $OLDEST or newer, and older than $TOO_NEW"
# What compiles fairseq where it has no ready wheel, and what installs this project.
BUILD_TOOLS=("setuptools>=77" wheel cython numpy ninja "flit_core>=3.12,<5")

NOTES=$VENV/.rnnsearch
UNFINISHED=$NOTES/unfinished # there while the environment is changed
MADE_HERE=$NOTES/made-here   # where this script has made it

ACTION=make
case ${1-} in
    '') ;;
    --python) ACTION=find ;;
    -h | --help)
        sed -n '2,/^$/s/^# \{0,1\}//p' -- "$0"
        exit
        ;;
    *)
        printf 'environment: error: unknown argument %s; valid are --python and --help\n' "$1" >&2
        exit 1
        ;;
esac

say() { printf 'environment: %s\n' "$*" >&2; }

die() {
    printf 'environment: error: %s\n' "$*" >&2
    exit 1
}

if [[ $VENV = none ]]; then
    [[ $ACTION = make ]] || command -v python || die "VENV=none: there is no python on PATH"
    exit
fi

# step NAME TEXT COMMAND...: runs COMMAND with its output in a log, and says now and then that it
# is still at work.
step() {
    local log=$NOTES/$1.log text=$2 start=$SECONDS status=0 ticker
    shift 2
    say "$text (log: $log)"
    while sleep 1 && kill -0 "$$" 2>/dev/null; do
        (((SECONDS - start) % 30)) || say "$text ... $((SECONDS - start)) s"
    done 9>&- &
    ticker=$!
    "$@" >"$log" 2>&1 </dev/null || status=$?
    kill "$ticker" 2>/dev/null || true
    if ((status != 0)); then
        tail -n 15 -- "$log" >&2
        die "$text: failed with status $status; the end of $log is above"
    fi
    say "$text: done in $((SECONDS - start)) s"
}

run_pip() { "$VENV/bin/python" -m pip --disable-pip-version-check "$@"; }

# describe PYTHON: prints "Python 3.9.2", for example, or why it is none.
describe() {
    if ! command -v -- "$1" >/dev/null; then
        echo "no such program"
    else
        "$1" -c 'import platform; print("Python", platform.python_version())' 2>/dev/null ||
            echo "no working Python"
    fi
}

is_supported() {
    "$1" -c 'import sys; oldest, too_new = (tuple(map(int, v.split("."))) for v in sys.argv[1:])
sys.exit(not oldest <= sys.version_info[:2] < too_new)' "$OLDEST" "$TOO_NEW" 2>/dev/null
}

# finds_wheel PYTHON REQUIREMENT: whether pip finds it ready made; nothing is installed.
finds_wheel() {
    "$1" -m pip install --quiet --dry-run --no-deps --ignore-installed --only-binary :all: \
        --target "$NOTES/nothing" "$2" >/dev/null 2>&1
}

find_python() {
    local candidate first='' found=
    if [[ -n ${PYTHON:-} ]]; then
        is_supported "$PYTHON" ||
            die "PYTHON=$PYTHON: $(describe "$PYTHON"); $NEEDED"
        return
    fi
    [[ $ACTION = find ]] || say "looking for a Python, and for a torch without NVIDIA's libraries"
    for candidate in python3.12 python3 python3.11 python3.13 python; do
        found=${found:-$(command -v -- "$candidate" >/dev/null && describe "$candidate" || true)}
        is_supported "$candidate" || continue
        first=${first:-$candidate}
        if [[ $ACTION = find ]] ||
            { [[ -z ${RNNSEARCH_TORCH:-} ]] && finds_wheel "$candidate" "$TORCH+cpu"; }; then
            first=$candidate
            break
        fi
    done
    PYTHON=$first
    [[ -n $PYTHON ]] || die "found ${found:-no Python}; $NEEDED; install one (Debian, Ubuntu: apt install" \
        "python3 python3-venv python3-dev) or name one with PYTHON=/path/to/python3"
}

# What is wrong with the folder as it is, and what it lacks before pip can begin.
check_folder() {
    if [[ -e $MADE_HERE && ! $(<"$MADE_HERE") -ef $VENV ]]; then
        die "$VENV was made as $(<"$MADE_HERE") and cannot be moved; remove it to make it again"
    fi
    if [[ -e $NOTES/torch && $(<"$NOTES/torch") != "$TORCH" ]]; then
        die "$VENV was made with $(<"$NOTES/torch"), asked for is RNNSEARCH_TORCH=$TORCH: name" \
            "another VENV for it, or remove $VENV"
    fi
    if [[ -e $UNFINISHED && -e $MADE_HERE ]]; then
        say "$VENV was left half made; making it again"
        find "$VENV" -mindepth 1 -maxdepth 1 ! -path "$NOTES" -exec rm -rf -- {} +
        rm -f -- "$NOTES"/project-*
    fi
    [[ -e $VENV/pyvenv.cfg ]] || return 0
    is_supported "$VENV/bin/python" || die "$VENV/bin/python: $(describe "$VENV/bin/python");" \
        "$NEEDED; remove $VENV or name another VENV"
    run_pip --version >/dev/null 2>&1 ||
        die "$VENV has no pip; run \"$VENV/bin/python\" -m ensurepip"
}

# What compiling fairseq needs, where it has to be compiled.
check_compiler() {
    local header
    if "$PYTHON" -m pip show fairseq-fixed >/dev/null 2>&1 || finds_wheel "$PYTHON" "$FAIRSEQ"; then
        return
    fi
    "${CXX:-c++}" --version >/dev/null 2>&1 || "${CXX:-g++}" --version >/dev/null 2>&1 ||
        die "no C++ compiler (${CXX:-c++ or g++}), needed once to build fairseq; install one" \
            "(Debian, Ubuntu: apt install g++; Fedora: dnf install gcc-c++)"
    header=$("$PYTHON" -c \
        'import sysconfig; print(sysconfig.get_paths()["include"] + "/Python.h")')
    [[ -e $header ]] || die "no $header, needed once to build fairseq; install Python's headers" \
        "(Debian, Ubuntu: apt install python3-dev; Fedora: dnf install python3-devel)"
}

version_in_venv() { run_pip show "$1" 2>/dev/null | sed -n 's/^Version: //p'; }

install_project() {
    cd -- "$ROOT"
    run_pip install "${BUILD_TOOLS[@]}"
    # No dependency may exchange torch.
    run_pip install --no-build-isolation -e ".${EXTRAS:+[$EXTRAS]}" "torch==$(version_in_venv torch)"
}

is_complete() {
    [[ -x $VENV/bin/fairseq-train && ! -e $UNFINISHED && -e $NOTES/project-$EXTRAS &&
        $(<"$NOTES/project-$EXTRAS") = "$PROJECT" ]]
}

PROJECT="$TORCH $(cksum <"$ROOT/pyproject.toml") $ROOT $VENV"
if [[ $ACTION = find ]]; then
    if is_supported "$VENV/bin/python"; then
        PYTHON=$VENV/bin/python
    else
        find_python
    fi
    command -v -- "$PYTHON"
    exit
fi
if is_complete; then
    exit
fi
if [[ -e $VENV && ! -e $VENV/pyvenv.cfg && ! -e $NOTES ]] && [[ -n $(ls -A -- "$VENV") ]]; then
    die "VENV=$VENV has other things in it and is no environment; name a new folder"
fi
mkdir -p -- "$NOTES" 2>/dev/null || die "cannot write to VENV=$VENV"
exec 9>"$NOTES/busy" # one process at a time; the kernel frees the file when the process ends
if [[ -n $(command -v flock) ]] && ! flock -n 9; then
    say "another process is setting up $VENV; waiting for it"
    flock 9
fi
if is_complete; then # the other process did it
    exit
fi

check_folder
if [[ -e $VENV/pyvenv.cfg ]]; then
    PYTHON=$VENV/bin/python
else
    find_python
    "$PYTHON" -c 'import venv, ensurepip' 2>/dev/null || die "$PYTHON ($(describe "$PYTHON"))" \
        "has no venv module; install it (Debian, Ubuntu: apt install python3-venv)"
fi
check_compiler
touch -- "$UNFINISHED"
if [[ ! -e $VENV/pyvenv.cfg ]]; then
    echo "$VENV" >"$MADE_HERE"
    step venv "making $VENV with $(describe "$PYTHON")" "$PYTHON" -m venv "$VENV"
fi
if [[ -n ${RNNSEARCH_TORCH:-} || -z $(version_in_venv torch) ]]; then
    step torch "installing $TORCH" run_pip install "$TORCH"
fi
echo "$TORCH" >"$NOTES/torch"
rm -f -- "$UNFINISHED"
step project "installing fairseq-rnnsearch${EXTRAS:+[$EXTRAS]} and what it needs" install_project
echo "$PROJECT" >"$NOTES/project-$EXTRAS"
