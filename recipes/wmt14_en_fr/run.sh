#!/usr/bin/env bash
# The paper's experiment on WMT'14 English-French.
#
#     bash recipes/wmt14_en_fr/run.sh [--from STAGE] [--to STAGE] [--dry-run]
#
# A stage is a numbered script in this folder; settings.sh has all that can be set. Run again, it
# goes on where it stopped.

HERE=$(CDPATH= cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=recipes/steps.sh
source "$HERE/../steps.sh"

STAGES=()
for script in "$HERE"/[0-9]-*.sh; do
    script=${script##*/[0-9]-}
    STAGES+=("${script%.sh}")
done

# place_of STAGE: its place in STAGES.
place_of() {
    local place
    for place in "${!STAGES[@]}"; do
        [[ ${STAGES[place]} != "$1" ]] || { echo "$place" && return; }
    done
    return 1
}

FROM=0 TO=$((${#STAGES[@]} - 1)) DRY_RUN=

read_options() {
    local option place
    while (($#)); do
        option=$1
        case $option in
            --from | --to)
                (($# > 1)) || die "$option needs a stage: ${STAGES[*]}"
                place=$(place_of "$2") || die "$option $2: no stage; valid: ${STAGES[*]}"
                [[ $option = --to ]] || FROM=$place
                [[ $option = --from ]] || TO=$place
                shift
                ;;
            --dry-run) DRY_RUN=yes ;;
            -h | --help)
                show_help
                echo "Stages: ${STAGES[*]}"
                exit
                ;;
            *) die "$option: must be --from STAGE, --to STAGE, --dry-run or --help" ;;
        esac
        shift
    done
    ((FROM <= TO)) || die "--from ${STAGES[FROM]} comes after --to ${STAGES[TO]}"
}

# stamp_of STAGE: prints the name of its stamp, with the settings that may be changed in a work folder.
stamp_of() {
    local with=
    case $1 in
        select) with=" $KEEP_WORDS" ;;
        binarise) with=" ${DATA##*/}" ;;
        train) with=" on ${DATA##*/}" ;;
        translate | report) with=" ${CHOSEN[*]} on ${DATA##*/}, beam $BEAM" ;;
    esac
    echo "stage $1$with"
}

# is_done STAGE: tells whether nothing of it is left to do.
is_done() {
    local model
    if [[ $1 != train ]]; then
        [[ -e $WORK/.done/$(stamp_of "$1") ]]
        return
    fi
    for model in "${CHOSEN[@]}"; do # each has a stamp of its own
        [[ -e $WORK/.done/$(training_of "$model") ]] || return 1
    done
}

# print_estimates STAGE...: fails if the disk is too small for those that have not begun, and for what
# is still to be downloaded; a dry run says so and goes on.
print_estimates() (
    TRAININGS='' TEST_COUNT=${#TESTS[@]} BEGUN='' DONE=''
    for stage; do
        [[ $stage = download || ! -e $WORK/.done/.begun-$(stamp_of "$stage") ]] || BEGUN+="$stage "
        ! is_done "$stage" || DONE+="$stage "
    done
    for model in "${CHOSEN[@]}"; do
        TRAININGS+="$model:$(updates_of "$model") "
    done
    export ARCHIVES ARCHIVE_TABLE ATTENTION BATCH_SIZE BEAM BEGUN BPE_MERGES CHECK_DISK CORPORA \
        DICTIONARY_PAIRS DONE DRY_RUN EMBEDDING GFLOPS HIDDEN KEEP_WORDS LONGEST_TRAINING MAXOUT \
        PAPERS_STARRED_UPDATES PROCESSES REPLACE_UNK SHORTLIST TEST_COUNT TRAININGS TRAIN_TEXT \
        VOCABULARY WORK
    check "$HERE/estimates.py" "$@"
)

main() {
    local place stamp
    log "working in $WORK"
    print_estimates "${STAGES[@]:FROM:TO-FROM+1}"
    if [[ -n $DRY_RUN ]]; then
        log "nothing was done (--dry-run)"
        return
    fi
    for ((place = FROM; place <= TO; place++)); do
        log "== stage ${STAGES[place]}"
        stamp=$(stamp_of "${STAGES[place]}")
        touch -- "$WORK/.done/.begun-$stamp"
        bash "$HERE/$((place + 1))-${STAGES[place]}.sh" || exit
        touch -- "$WORK/.done/$stamp"
    done
}

read_options "$@" # before the files below make a work folder
# shellcheck source=recipes/wmt14_en_fr/common.sh
source "$HERE/common.sh"
# shellcheck source=recipes/wmt14_en_fr/models.sh
source "$HERE/models.sh"
main
exit
