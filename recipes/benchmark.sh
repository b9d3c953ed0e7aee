#!/usr/bin/env bash
# How fast the model trains on this machine's CPU: with the reference and the fast kernels, with
# bfloat16, beside the time of its matrix products alone and fairseq's lstm. Writes benchmark.json and
# prints a table last.
#
#     bash recipes/benchmark.sh [--sizes paper multi30k] [--rounds 7] [--threads 2] [--json FILE]
#                               [--candidates fast bfloat16 lstm]
#
# Let nothing else run meanwhile. Where something must: --threads 1 --cpu-time.

source "$(dirname -- "${BASH_SOURCE[0]}")/steps.sh"

for argument; do # before the environment is made
    case ${argument%%=*} in
        -h | --help) show_help && exit ;;
        --sizes | --rounds | --candidates | --passes | --threads | --cpu-time | --json) ;;
        -*) die "unknown option $argument (--help shows the options)" ;;
    esac
done
source "$ROOT/recipes/environment.sh"
exec python "$ROOT/recipes/benchmark/main.py" "$@"
