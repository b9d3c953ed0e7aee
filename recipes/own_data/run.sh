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

# shellcheck source=recipes/steps.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../steps.sh"

DRY_RUN=''

read_options() {
    while (($#)); do
        case $1 in
            --source | --target | --pairs | --languages | --valid | --test)
                (($# > 1)) || die "$1 needs a value"
                shift 2
                ;;
            --source=* | --target=* | --pairs=* | --languages=* | --valid=* | --test=*) shift ;;
            --dry-run)
                DRY_RUN=yes
                shift
                ;;
            -h | --help) show_help && exit ;;
            *) die "unknown option $1; valid: --source, --target, --pairs, --languages," \
                "--valid, --test, --dry-run and --help" ;;
        esac
    done
}

read_options "$@"
if [[ -n $DRY_RUN ]] || ! has_environment; then # mistakes come before the minutes that it takes
    say_environment
    check -P "$ROOT/recipes/train.py" --dry-run "$@"
    [[ -z $DRY_RUN ]] || exit 0
fi
# shellcheck source=recipes/environment.sh
source "$ROOT/recipes/environment.sh"
exec python -P "$ROOT/recipes/train.py" "$@"
