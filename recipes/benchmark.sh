#!/usr/bin/env bash
# How fast the model trains on this machine's CPU: with the reference and the fast kernels, with
# bfloat16, beside the time of its matrix products alone, fairseq's lstm and, where it is installed,
# Joey NMT. Writes benchmark.json and prints a table last.
#
#     bash recipes/benchmark.sh [--sizes paper multi30k] [--growth multi30k] [--rounds 7]
#                               [--candidates fast bfloat16 lstm] [--threads 2] [--json FILE]
#
# Let nothing else run meanwhile. Where something must: --threads 1 --cpu-time.

set -euo pipefail

for argument; do # before the environment is made
    case $argument in
        -h | --help)
            sed -n '2,/^$/s/^# \{0,1\}//p' -- "$0"
            exit
            ;;
        --sizes | --growth | --rounds | --candidates | --passes) ;;
        --threads | --cpu-time | --json) ;;
        -*)
            echo "benchmark.sh: error: unknown option $argument (--help shows the options)" >&2
            exit 1
            ;;
    esac
done
# shellcheck source=recipes/environment.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/environment.sh"
exec python "$(dirname -- "${BASH_SOURCE[0]}")/benchmark/main.py" "$@"
