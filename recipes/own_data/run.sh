#!/usr/bin/env bash
# From one's own sentence pairs to a trained model, translations, scores and heatmaps.
#
#     bash recipes/own_data/run.sh --source corpus.en --target corpus.fr
#     bash recipes/own_data/run.sh --pairs corpus.tsv --languages en,fr
#         [--valid PREFIX] [--test PREFIX] [--dry-run]
#
# This makes the Python environment and runs rnnsearch-train in it. Each setting that
# `rnnsearch-train --help` lists may be a variable of the environment here, such as HIDDEN for
# --hidden, or TOKENIZER_fr for the tokenizer of one language. WORK names the folder for everything
# that is made. Run again, the recipe goes on where it stopped.

source "$(dirname -- "${BASH_SOURCE[0]}")/../steps.sh"

for argument; do # before the minutes that the environment takes
    case ${argument%%=*} in
        -h | --help) show_help && exit ;;
        --source | --target | --pairs | --languages | --valid | --test) ;;
        --dry-run) PYTHONPATH=$ROOT exec "${PYTHON:-python3}" -P "$ROOT/recipes/train.py" "$@" ;;
        -*) die "unknown option $argument; --help shows the options" ;;
    esac
done
source "$ROOT/recipes/environment.sh"
exec python -P "$ROOT/recipes/train.py" "$@"
