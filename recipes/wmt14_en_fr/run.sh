#!/usr/bin/env bash
# The paper's experiment on WMT'14 English-French.
#
#     bash recipes/wmt14_en_fr/run.sh [--from STAGE] [--to STAGE] [--dry-run]
#
# A stage is a numbered script in this folder; settings.sh has all that can be set. Run again, it
# goes on where it stopped.

# shellcheck source=recipes/wmt14_en_fr/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=recipes/wmt14_en_fr/models.sh
source "$HERE/models.sh"
# shellcheck source=recipes/wmt14_en_fr/estimates.sh
source "$HERE/estimates.sh"

STAGES=()
for script in "$HERE"/[0-9]-*.sh; do
    script=${script##*/[0-9]-}
    STAGES+=("${script%.sh}")
done

usage() {
    sed -n '2,/^$/s/^# \{0,1\}//p' "$HERE/run.sh"
    echo "Stages: ${STAGES[*]}"
}

# place_of STAGE: its place in STAGES.
place_of() {
    local place
    for place in "${!STAGES[@]}"; do
        [[ ${STAGES[place]} != "$1" ]] || { echo "$place" && return; }
    done
    return 1
}

main() {
    local from=0 to=$((${#STAGES[@]} - 1)) dry_run= option place
    while (($#)); do
        option=$1
        case $option in
            --from | --to)
                (($# > 1)) || die "$option needs a stage: ${STAGES[*]}"
                place=$(place_of "$2") || die "$option $2: no stage; valid are ${STAGES[*]}"
                [[ $option = --to ]] || from=$place
                [[ $option = --from ]] || to=$place
                shift
                ;;
            --dry-run) dry_run=yes ;;
            -h | --help) usage && exit ;;
            *) die "$option: must be --from STAGE, --to STAGE, --dry-run or --help" ;;
        esac
        shift
    done
    ((from <= to)) || die "--from ${STAGES[from]} comes after --to ${STAGES[to]}"
    log "working in $WORK"
    print_estimates "${STAGES[@]:from:to-from+1}"
    if [[ -n $dry_run ]]; then
        log "nothing was done (--dry-run)"
        return
    fi
    for ((place = from; place <= to; place++)); do
        log "== stage ${STAGES[place]}"
        bash "$HERE/$((place + 1))-${STAGES[place]}.sh" || exit
        touch -- "$WORK/.done/stage ${STAGES[place]}"
    done
}

main "$@"
exit
