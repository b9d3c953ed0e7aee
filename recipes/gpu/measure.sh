#!/usr/bin/env bash
# Measures on a GPU what recipes/gpu/README.md predicts, part by part.
#
#     bash recipes/gpu/measure.sh [PART]     one part, or all that have no result yet
#     bash recipes/gpu/measure.sh table      what there is, as a table
#
# Each part takes less than nine minutes and leaves OUT/PART.json; a part that has left one is not
# done again (remove the file to repeat it). Nothing is installed: what is missing is named.
#
# PYTHON  the Python with torch, fairseq and this package's requirements (default: python3)
# DATA    a folder with train.en and train.fr, a sentence a line; without it lengths are drawn
# OUT     where results go (default: runs/gpu)
# DEVICE  cuda, or cpu to try the program at tiny sizes

set -euo pipefail

HERE=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
: "${PYTHON:=python3}" "${OUT:=runs/gpu}" "${DEVICE:=cuda}"
PARTS=(ceilings correctness resume types profile training lengths search memory)
export PYTHONPATH=$HERE/../..${PYTHONPATH:+:$PYTHONPATH}
export CUBLAS_WORKSPACE_CONFIG=:4096:8 # for deterministic algorithms

die() {
    echo "error: $*" >&2
    exit 1
}

(($# <= 1)) || die "give one part at most: ${PARTS[*]} table"
case ${1:-} in
    -h | --help) sed -n '2,/^$/s/^# \{0,1\}//p' -- "$0" && exit ;;
esac
[[ -z ${1:-} || " ${PARTS[*]} table " = *" $1 "* ]] ||
    die "part $1: must be one of ${PARTS[*]} table"

command -v "$PYTHON" >/dev/null || die "PYTHON=$PYTHON: there is no such program"
for module in torch fairseq matplotlib sacremoses; do
    "$PYTHON" -c "import $module" 2>/dev/null || die "$PYTHON has no module $module: install it"
done
[[ $DEVICE = cpu ]] || "$PYTHON" -c "import torch; assert torch.cuda.is_available()" 2>/dev/null ||
    die "torch finds no GPU here (DEVICE=cpu tries the program at tiny sizes)"
[[ -z ${DATA:-} || -e $DATA/train.en && -e $DATA/train.fr ]] ||
    die "DATA=$DATA: has no train.en and train.fr"
mkdir -p "$OUT"

measure() {
    [[ ! -e $OUT/$1.json ]] || return 0
    echo "measuring $1" >&2
    timeout 540 "$PYTHON" "$HERE/measure.py" "$1" --out "$OUT" --device "$DEVICE" \
        ${DATA:+--data "$DATA"} || die "part $1 failed or took more than nine minutes"
}

if (($# == 0)); then
    for part in "${PARTS[@]}"; do measure "$part"; done
elif [[ $1 != table ]]; then
    measure "$1"
fi
"$PYTHON" "$HERE/measure.py" table --out "$OUT" --device "$DEVICE"
