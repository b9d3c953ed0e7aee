#!/usr/bin/env bash
# Runs the tests with several versions of Python and torch, and prints which passed.
#
#     bash tests/versions.sh [what pytest takes]
#     VERSIONS="python3.11:2.6.0 python3.12:2.13.0" bash tests/versions.sh -x
#
# Each version has an environment of its own in runs/versions/. It takes minutes to make where fairseq
# is compiled, and some gigabytes where torch comes with NVIDIA's libraries.

set -euo pipefail

cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
VERSIONS=${VERSIONS:-python3.11:2.6.0 python3.11:2.13.0 python3.12:2.15.0 python3.13:2.15.0}
mkdir -p runs/versions
failed=0 table=
for version in $VERSIONS; do
    name=${version/:/-torch}
    status=0
    echo "== $name"
    VENV=$PWD/runs/versions/$name PYTHON=$(command -v "${version%:*}" || echo "${version%:*}") \
        RNNSEARCH_TORCH=torch==${version#*:} bash tests/run.sh "$@" 2>&1 |
        tee "runs/versions/$name.log" || status=$?
    ((status == 0)) || failed=1
    table+="$name: $(grep -E '^[0-9]+ (passed|failed)|^=+ .*(passed|failed)|error: ' "runs/versions/$name.log" |
        tail -n 1 || echo "no tests ran")"$'\n'
done
printf '\n%s' "$table"
exit "$failed"
