#!/usr/bin/env bash
# Runs the tests, making their environment first (recipes/environment.sh says what can be set).
#
#     bash tests/run.sh [--all] [what pytest takes]      e.g. -m slow, -k elision, -x
#
# Slow tests are left out unless --all or -m asks for them. Three processes share the tests, because
# some of them wait for others much of the time, unless -n (of pytest-xdist), -p or --pdb is given.

set -euo pipefail

cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
export RNNSEARCH_EXTRAS=${RNNSEARCH_EXTRAS:-test}
source recipes/environment.sh
which=(-m "not slow") processes=(-n 3 --dist loadfile --no-loadscope-reorder) arguments=()
for argument; do
    case $argument in
        --all) which=() ;;
        -n* | --numprocesses* | -p* | --pdb) processes=() && arguments+=("$argument") ;;
        *) arguments+=("$argument") ;;
    esac
done
exec python -m pytest ${which[@]+"${which[@]}"} ${processes[@]+"${processes[@]}"} \
    ${arguments[@]+"${arguments[@]}"}
