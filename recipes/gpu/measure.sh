#!/usr/bin/env bash
# Measures this plugin on a GPU, part by part.
#
#     bash recipes/gpu/measure.sh [PART]     one part, or all that are not complete yet
#     bash recipes/gpu/measure.sh table      what there is, as a table
#
# The parts are correctness, waits, profile, search and memory; README.md says what they measure.
# Each part takes less than nine minutes and leaves OUT/PART.json, whole after each measurement: what
# is in it is not measured again (remove the file to repeat it), and what failed is tried again.
#
# PYTHON  the Python that has this package installed (default: python3)
# OUT     where results go, one folder for each machine (default: runs/gpu)
# DEVICE  cuda, or cpu to try the program at tiny sizes

set -euo pipefail

HERE=$(CDPATH= cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
: "${PYTHON:=python3}" "${OUT:=runs/gpu}" "${DEVICE:=cuda}"
PARTS=(correctness waits profile search memory)
export PYTHONPATH=$HERE/../..${PYTHONPATH:+:$PYTHONPATH}

case ${1:-} in
    -h | --help) sed -n '2,/^$/s/^# \{0,1\}//p' -- "$0" && exit ;;
    -*) echo "error: unknown option $1" >&2 && exit 2 ;;
esac
[[ $DEVICE != cpu ]] || export CUDA_VISIBLE_DEVICES=''
mkdir -p "$OUT"

failed=0
for part in ${1:-"${PARTS[@]}"}; do
    [[ $part != table ]] || break
    timeout -k 10 540 "$PYTHON" "$HERE/measure.py" "$part" --out "$OUT" --device "$DEVICE" ||
        { failed=1 && echo "error: part $part is not complete: run it again to go on" >&2; }
done
"$PYTHON" "$HERE/measure.py" table --out "$OUT" --device "$DEVICE"
exit "$failed"
