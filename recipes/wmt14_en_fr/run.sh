#!/usr/bin/env bash
# The paper's experiment on WMT'14 English-French.
#
#     bash recipes/wmt14_en_fr/run.sh [--from STAGE] [--to STAGE]
#
# A stage is a numbered script in this folder; settings.sh has all that can be set. Run again, it
# goes on where it stopped.

HERE=$(CDPATH= cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
source "$HERE/../steps.sh"

STAGES=(download extract tokenise select binarise train translate report)
FROM=download TO=report
while (($#)); do
    case $1 in
        --from) FROM=${2-} && shift ;;
        --to) TO=${2-} && shift ;;
        *) only_help "$1" ;;
    esac
    shift
done
one_of FROM "${STAGES[@]}"
one_of TO "${STAGES[@]}"

begun=
for place in "${!STAGES[@]}"; do
    stage=${STAGES[place]}
    [[ $stage != "$FROM" ]] || begun=1
    if [[ -n $begun ]]; then
        log "== stage $stage"
        bash "$HERE/$((place + 1))-$stage.sh"
    fi
    [[ $stage != "$TO" ]] || break
done
exit
