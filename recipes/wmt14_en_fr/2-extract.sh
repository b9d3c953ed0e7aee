#!/usr/bin/env bash
# Lays out each corpus, the validation and the test text as text/NAME/text.{en,fr}.

source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

extract() { python "$HERE/extract.py" --out "$PARTIAL" --table "$ARCHIVE_TABLE" "$@"; }

# extract_archives CORPUS...: takes the text from their archives; if that fails, the next run looks
# again at which of them are there.
extract_archives() {
    extract --archives "$ARCHIVES" "$@" || { rm -f -- "$WORK/.done/download" && return 1; }
}

# lay_out NAME OWN_TEXT CORPUS...: makes text/NAME of the files OWN_TEXT, or else of the corpora
lay_out() {
    if [[ -n $2 ]]; then
        run_step "extract $1" "$WORK/text/$1" extract --files $2
    else
        run_step "extract $1" "$WORK/text/$1" extract_archives "${@:3}"
    fi
}

use_environment
mkdir -p -- "$WORK/text"
for part in "${!PARTS[@]}"; do
    lay_out "${PARTS[part]}" "${TRAIN_FILES[part]:-}" "${PARTS[part]}"
done
lay_out valid "$VALID_TEXT" $VALID_SETS
for test in "${!TESTS[@]}"; do
    lay_out "test-${TESTS[test]}" "${TEST_FILES[test]:-}" "${TESTS[test]}"
done
