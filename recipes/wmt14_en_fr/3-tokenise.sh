#!/usr/bin/env bash
# Tokenises text/NAME to tokens/NAME over all cores; training pairs are cleaned.

source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

# tokenise NAME OPTION...: makes tokens/NAME of text/NAME
tokenise() {
    local name=$1
    shift
    [[ $LOWERCASE = 0 ]] || set -- --lowercase "$@"
    python "$HERE/tokenise.py" --text "$WORK/text/$name" --out "$PARTIAL" \
        --tokenizer "$TOKENIZER" --processes "$PROCESSES" "$@"
}

use_environment
mkdir -p -- "$WORK/tokens"
for part in "${PARTS[@]}"; do
    run_step "tokenise $part" "$WORK/tokens/$part" \
        tokenise "$part" --longest "$LONGEST" --ratio "$LENGTH_RATIO"
done
for part in valid "${TESTS[@]/#/test-}"; do
    run_step "tokenise $part" "$WORK/tokens/$part" tokenise "$part" --keep-all
done
