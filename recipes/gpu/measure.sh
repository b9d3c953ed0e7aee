#!/usr/bin/env bash
# Measures on a GPU what recipes/gpu/README.md predicts, part by part.
#
#     bash recipes/gpu/measure.sh [PART]     one part, or all that are not complete yet
#     bash recipes/gpu/measure.sh table      what there is, as a table
#
# ceilings         products, copies and launches, on which predict.py rests
# correctness      gradients beside float64; the authors' numbers and searches; a CPU's translations
# waits            how often an update and a step of search wait, as torch counts it
# profile          milliseconds of each pass, launches, and the longest kernels
# training         updates/s by fairseq-train at 80 x 30 x 30; hours for the paper's Table 2
# lengths          the same at 80 pairs of real lengths, up to 50 words
# search           sentences/s with beam 12, fairseq's lstm beside it
# memory           what an update and a search take, beside their estimates
# types            the cost after 50 updates in each type, beside float32
# resume           whether a training resumes bit for bit, by deterministic algorithms
# multi30k         BLEU and updates/s of the Multi30k recipe in bfloat16; multi30k-float32
#
# Each part takes less than nine minutes and leaves OUT/PART.json, whole after each measurement: what
# is in it is not measured again (remove the file to repeat it), and what failed is tried again.
# What the commands said is in OUT/logs. Nothing is installed: what is missing is named.
#
# PYTHON  the Python with torch, fairseq and this package's requirements (default: python3)
# DATA    a folder with Multi30k, {train,val,test_2016_flickr}.{en,fr}[.gz]; of any other parallel
#         text train.en and train.fr give real lengths. Without it lengths are drawn, and the recipe
#         is left out
# OUT     where results go, one folder for each machine (default: runs/gpu)
# DEVICE  cuda, or cpu to try the program at tiny sizes

set -euo pipefail

HERE=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
: "${PYTHON:=python3}" "${DATA:=}" "${OUT:=runs/gpu}" "${DEVICE:=cuda}"
PARTS=(ceilings correctness waits profile training lengths search memory types resume
    multi30k multi30k-float32)
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

# has FILE: whether DATA has it, plain or packed.
has() { [[ -e $DATA/$1 || -e $DATA/$1.gz ]]; }

has_multi30k() {
    local part
    for part in {train,val,test_2016_flickr}.{en,fr}; do
        has "$part" || return
    done
}

# check_modules MODULE...: dies with a list of those that this Python lacks.
check_modules() {
    local missing
    missing=$("$PYTHON" -c 'import sys
from importlib.util import find_spec
print(*(module for module in sys.argv[1:] if not find_spec(module)))' "$@") ||
        die "PYTHON=$PYTHON does not run"
    [[ -z $missing ]] || die "$PYTHON lacks $missing: put them on its PYTHONPATH, or install them"
}

command -v "$PYTHON" >/dev/null || die "PYTHON=$PYTHON: there is no such program"
check_modules torch numpy fairseq hydra omegaconf antlr4 bitarray cffi regex tqdm sacrebleu \
    sacremoses matplotlib subword_nmt
case $DEVICE in
    cpu) export CUDA_VISIBLE_DEVICES='' ;;
    cuda)
        "$PYTHON" -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null ||
            die "torch finds no GPU here (DEVICE=cpu tries the program at tiny sizes)"
        ;;
    *) die "DEVICE=$DEVICE: must be cuda or cpu" ;;
esac
if [[ -n $DATA ]]; then
    has train.en && has train.fr || die "DATA=$DATA has no train.en and train.fr"
fi
mkdir -p "$OUT"

# measure PART: makes it complete, unless it is.
measure() {
    local status=0
    timeout -k 10 540 "$PYTHON" "$HERE/measure.py" "$1" --out "$OUT" --device "$DEVICE" \
        ${DATA:+--data "$DATA"} || status=$?
    if ((status == 124)); then
        echo "error: part $1 has taken nine minutes: run it again to go on" >&2
    elif ((status)); then
        echo "error: part $1 is not complete" >&2
    fi
    return "$status"
}

failed=0
for part in ${1:-"${PARTS[@]}"}; do
    if [[ $part = table ]]; then
        break
    elif [[ $part = multi30k* ]] && ! { [[ -n $DATA ]] && has_multi30k; }; then
        [[ $# = 0 ]] || die "part $part needs DATA, a folder with Multi30k"
        echo "part $part is left out: there is no DATA with Multi30k" >&2
    else
        measure "$part" || failed=1
    fi
done
"$PYTHON" "$HERE/measure.py" table --out "$OUT" --device "$DEVICE"
exit "$failed"
