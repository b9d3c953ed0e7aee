#!/usr/bin/env bash
# Fetches the archives that are not in the folder ARCHIVES yet.

source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

download() {
    local -a wanted=()
    [[ -n $TRAIN_TEXT ]] || wanted+=($CORPORA)
    [[ -n $VALID_TEXT ]] || wanted+=($VALID_SETS)
    [[ -n $TEST_TEXT ]] || wanted+=($TEST_SETS)
    ((${#wanted[@]})) || return 0
    python "$HERE/download.py" --out "$ARCHIVES" --mirror "$MIRROR" --table "$ARCHIVE_TABLE" \
        --tries "$DOWNLOAD_TRIES" --wait "$DOWNLOAD_WAIT" "${wanted[@]}"
}

use_environment
resume_step "download" download
