#!/usr/bin/env bash
# Trains a model on your own sentence pairs, translates with it, and writes scores and heatmaps.
#
#     bash recipes/own_data/run.sh --source corpus.en --target corpus.fr
#     bash recipes/own_data/run.sh --pairs corpus.tsv --languages en,fr
#         [--valid PREFIX] [--test PREFIX] [--dry-run]
#
# This makes the Python environment and runs rnnsearch-train in it. Any setting listed by
# `rnnsearch-train --help` can be an environment variable here, such as HIDDEN for --hidden, or
# TOKENIZER_fr for the tokenizer of one language. WORK names the folder for all output. Rerun it to
# resume an interrupted run.

source "$(dirname -- "${BASH_SOURCE[0]}")/../steps.sh"

for argument; do # before spending minutes on the environment
    case ${argument%%=*} in
        -h | --help) show_help && exit ;;
        --source | --target | --pairs | --languages | --valid | --test) ;;
        --dry-run) PYTHONPATH=$ROOT exec "${PYTHON:-python3}" -P "$ROOT/recipes/train.py" "$@" ;;
        -*) die "unknown option $argument; --help shows the options" ;;
    esac
done
source "$ROOT/recipes/environment.sh"
exec python -P "$ROOT/recipes/train.py" "$@"
