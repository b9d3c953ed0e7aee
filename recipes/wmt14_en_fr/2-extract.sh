#!/usr/bin/env bash
# Lays out each corpus, the validation and the test text as text/NAME/text.{en,fr}.

# shellcheck source=recipes/wmt14_en_fr/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

extract() { python "$HERE/extract.py" --out "$PARTIAL" --table "$ARCHIVE_TABLE" "$@"; }

# extract_archives CORPUS...: takes the text from their archives; if that fails, the next run looks
# again at which of them are there.
extract_archives() {
    local status=0
    extract --archives "$ARCHIVES" "$@" || status=$?
    ((status == 0)) || rm -f -- "$WORK"/.done/{,stage\ }download
    return "$status"
}

# extract_files SOURCE:TARGET...: takes it from files
extract_files() { extract --files "$@"; }

# lay_out NAME OWN_TEXT CORPUS...: makes text/NAME of the files OWN_TEXT, or else of the corpora
lay_out() {
    local name=$1 own
    read -r -d '' -a own <<<"$2" || true
    shift 2
    if ((${#own[@]})); then
        run_step "extract $name" "$WORK/text/$name" extract_files "${own[@]}"
    else
        run_step "extract $name" "$WORK/text/$name" extract_archives "$@"
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
