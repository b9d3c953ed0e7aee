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
# RNNSEARCH_EXTRAS   extras of this project to install beside fairseq, such as test or test,dev

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
case ${1-} in
    '') ;;
    -h | --help) sed -n '2,/^$/s/^# \{0,1\}//p' -- "$0" && exit ;;
    *) echo "environment.sh: error: unknown argument $1; the only one is --help" >&2 && exit 2 ;;
esac
ROOT=$(CDPATH= cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
VENV=${VENV:-$ROOT/.venv} EXTRAS=${RNNSEARCH_EXTRAS:-} TORCH=${RNNSEARCH_TORCH:-torch==2.13.0}
MADE="$TORCH $EXTRAS $(cksum <"$ROOT/pyproject.toml") $ROOT $VENV" # it is complete with these
[[ $VENV != none ]] && ! grep -sqxF "$MADE" "$VENV/installed" || exit 0

pip() { "$VENV/bin/python" -P -m pip --disable-pip-version-check install --quiet "$@" >&2; }

echo "environment: installing into $VENV, which takes minutes" >&2
[[ -x $VENV/bin/pip ]] || "${PYTHON:-python3}" -P -m venv "$VENV"
if [[ -n ${RNNSEARCH_TORCH:-} ]]; then
    pip "$TORCH"
elif ! "$VENV/bin/python" -P -c 'import torch' 2>/dev/null; then
    pip --only-binary :all: "$TORCH+cpu" 2>/dev/null || pip "$TORCH"
fi
installed=$("$VENV/bin/python" -P -m pip show torch | sed -n 's/^Version: //p')
# fairseq is compiled against this torch, and no dependency may exchange it
pip "setuptools>=77" wheel cython numpy ninja "flit_core>=3.12,<5"
pip --no-build-isolation -e "$ROOT[fairseq${EXTRAS:+,$EXTRAS}]" "torch==$installed"
echo "$MADE" >>"$VENV/installed"
