# Sourced by the recipes that train a translator: rnnsearch-train, and what it needs from a recipe.
#
# Each setting that `rnnsearch-train --help` lists may be a variable of the environment here, such as
# HIDDEN for --hidden.

# shellcheck source=recipes/steps.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/steps.sh"

# say_plan WORK COUNT...: checks the settings, and says what a training will take before its text is
# there; train.py lists the counts.
say_plan() {
    check -P "$ROOT/recipes/train.py" plan "$@"
    say_environment
}

# those of Multi30k: pairs, then English and French; German is much alike
MULTI30K_COUNTS=(29000 1000 345020 1772238 81 362021 2045006 99)

# train OPTION...: trains a translator from SOURCE to TARGET on $WORK/corpus, in $WORK.
train() {
    python -P "$ROOT/recipes/train.py" --corpus "$WORK/corpus" --languages "$SOURCE,$TARGET" \
        --work "$WORK" "$@"
}
