#!/usr/bin/env bash
# Scores all training pairs by their resemblance to IN_DOMAIN and keeps the best KEEP_WORDS French
# words of them (Axelrod et al. 2011). For another KEEP_WORDS nothing is scored again.

source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

estimate() {
    list_of IN_DOMAIN
    python "$HERE/score.py" estimate --out "$PARTIAL" --inside "${WORDS[@]/#/$WORK/tokens/}" \
        --pool "${PARTS[@]/#/$WORK/tokens/}" --order "$LM_ORDER" --min-count "$LM_MIN_COUNT" \
        --seed "$SEED"
}

# score NAME: scores all pairs of a part
score() {
    python "$HERE/score.py" score --models "$WORK/scores/models" --text "$WORK/tokens/$1" \
        --out "$PARTIAL" --processes "$PROCESSES"
}

keep() {
    python "$HERE/cut.py" --tokens "$WORK/tokens" --scores "$WORK/scores" --words "$KEEP_WORDS" \
        --out "$PARTIAL" "${PARTS[@]}"
}

use_environment
if ((KEEP_WORDS)); then
    mkdir -p -- "$WORK/scores"
    run_step "estimate language models" "$WORK/scores/models" estimate
    for part in "${PARTS[@]}"; do
        run_step "score $part" "$WORK/scores/$part" score "$part"
    done
fi
run_step "select $KEEP_WORDS" "$SELECTED" keep
