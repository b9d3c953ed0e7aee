#!/usr/bin/env bash
# The Python environment of the recipes and tests: made once, then reused.
#
#   source recipes/environment.sh     makes or completes it and puts its programs first on PATH
#   bash recipes/environment.sh       only makes or completes it
#
# VENV               where it lies (default: .venv at the root of the repository); none: nothing is
#                    made, and the python and programs on PATH are taken as they are
# PYTHON             the Python that makes it (default: python3); fairseq has a ready wheel for 3.12,
#                    and is compiled for the others
# RNNSEARCH_TORCH    what pip installs as torch (default: torch==2.13.0, without NVIDIA's libraries
#                    where pip finds it so). Another torch needs another VENV. pip's own variables,
#                    such as PIP_EXTRA_INDEX_URL, say where it is found.
# RNNSEARCH_EXTRAS   extras of this project to install beside it, such as test or test,dev

if [[ ${BASH_SOURCE[0]} != "$0" ]]; then
    [[ ${VENV:-} != none ]] || return 0
    # Sourced: a shell of its own does the work, so that its options and names stay there.
    VENV=${VENV:-$(CDPATH= cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)/.venv}
    [[ $VENV = /* ]] || VENV=$PWD/$VENV
    export VENV
    bash "${BASH_SOURCE[0]}" || return
    export VIRTUAL_ENV=$VENV PATH=$VENV/bin:$PATH
    unset PYTHONHOME
    hash -r
    return 0
fi

set -euo pipefail

die() {
    printf 'environment: error: %s\n' "$*" >&2
    exit 1
}

case ${1-} in
    '') ;;
    -h | --help) sed -n '2,/^$/s/^# \{0,1\}//p' -- "$0" && exit ;;
    *) die "unknown argument $1; the only one is --help" ;;
esac

ROOT=$(CDPATH= cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
VENV=${VENV:-$ROOT/.venv} PYTHON=${PYTHON:-python3} EXTRAS=${RNNSEARCH_EXTRAS:-}
[[ $VENV != none ]] || exit 0
TORCH=${RNNSEARCH_TORCH:-torch==2.13.0}
MADE="$TORCH $EXTRAS $(cksum <"$ROOT/pyproject.toml") $ROOT $VENV" # it is complete with these

is_complete() { grep -sqxF "$MADE" "$VENV/installed"; }

if is_complete; then
    exit
fi
[[ -e $VENV/pyvenv.cfg || -z $(ls -A -- "$VENV" 2>/dev/null | grep -vx .busy) ]] ||
    die "VENV=$VENV has other things in it and is no environment; name a new folder"
"$PYTHON" -P -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' \
    2>/dev/null || die "PYTHON=$PYTHON: must be Python 3.11 to 3.13 with its module venv (Debian," \
    "Ubuntu: apt install python3 python3-venv python3-dev)"
mkdir -p -- "$VENV" 2>/dev/null || die "cannot write to VENV=$VENV"
exec 9>"$VENV/.busy" # one process at a time; the kernel frees the file when the process ends
if command -v flock >/dev/null; then
    flock 9
fi
if is_complete; then # another process has just made it
    exit
fi

pip() {
    "$VENV/bin/python" -P -m pip --disable-pip-version-check "$@" >>"$VENV/install.log" 2>&1 || {
        tail -n 15 -- "$VENV/install.log" >&2
        die "pip $1 failed; the end of $VENV/install.log is above"
    }
}

printf 'environment: installing into %s, which takes minutes (log: %s)\n' \
    "$VENV" "$VENV/install.log" >&2
[[ -x $VENV/bin/pip ]] || "$PYTHON" -P -m venv "$VENV"
if [[ -n ${RNNSEARCH_TORCH:-} ]]; then
    pip install "$TORCH"
elif ! "$VENV/bin/python" -P -c 'import torch' 2>/dev/null; then
    (pip install --only-binary :all: "$TORCH+cpu") 2>/dev/null || pip install "$TORCH"
fi
installed=$("$VENV/bin/python" -P -m pip show torch | sed -n 's/^Version: //p')
# fairseq is compiled against this torch, and no dependency may exchange it
pip install "setuptools>=77" wheel cython numpy ninja "flit_core>=3.12,<5"
pip install --no-build-isolation -e "$ROOT${EXTRAS:+[$EXTRAS]}" "torch==$installed"
echo "$MADE" >>"$VENV/installed"
