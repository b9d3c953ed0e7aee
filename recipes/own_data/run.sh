#!/usr/bin/env bash
# From two text files to a trained model, translations, scores and heatmaps.
#
#     bash recipes/own_data/run.sh --source corpus.en --target corpus.fr
#         [--valid PREFIX] [--test PREFIX] [--dry-run]
#
# A line of --source belongs to the same line of --target; the languages are the files' suffixes. A
# PREFIX stands for PREFIX.en and PREFIX.fr; without one, sentences are held out of the corpus. The
# size of the model, the subwords and the length of training follow from the number of pairs (see
# sizes.sh); each can be set in the environment instead (recipes/settings.sh). WORK names the folder
# for everything that is made. Run again, the recipe goes on where it stopped.

HERE=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(cd -- "$HERE/../.." && pwd)
# shellcheck source=recipes/steps.sh
source "$ROOT/recipes/steps.sh"
# shellcheck source=recipes/fairseq.sh
source "$ROOT/recipes/fairseq.sh"
# shellcheck source=recipes/stages.sh
source "$ROOT/recipes/stages.sh"

SOURCE_FILE='' TARGET_FILE='' VALID='' TEST='' DRY_RUN=''

read_options() {
    while (($#)); do
        case $1 in
            --source | --target | --valid | --test)
                (($# > 1)) || die "$1 needs a value"
                case $1 in
                    --source) SOURCE_FILE=$2 ;;
                    --target) TARGET_FILE=$2 ;;
                    --valid) VALID=$2 ;;
                    --test) TEST=$2 ;;
                esac
                shift 2
                ;;
            --dry-run)
                DRY_RUN=yes
                shift
                ;;
            -h | --help)
                sed -n '2,/^$/s/^# \{0,1\}//p' -- "${BASH_SOURCE[0]}"
                exit
                ;;
            *) die "unknown option $1; valid are --source, --target, --valid, --test, --dry-run" ;;
        esac
    done
    [[ -n $SOURCE_FILE && -n $TARGET_FILE ]] || die "--source and --target name the two text files"
    SOURCE=${SOURCE_FILE##*.} TARGET=${TARGET_FILE##*.}
    [[ $SOURCE =~ ^[A-Za-z_]+$ && $TARGET =~ ^[A-Za-z_]+$ && $SOURCE != "$TARGET" ]] ||
        die "the suffixes of $SOURCE_FILE and $TARGET_FILE must be two languages," \
            "such as .en and .fr"
    local file
    for file in "$SOURCE_FILE" "$TARGET_FILE" ${VALID:+"$VALID.$SOURCE" "$VALID.$TARGET"} \
        ${TEST:+"$TEST.$SOURCE" "$TEST.$TARGET"}; do
        [[ -f $file ]] || die "there is no file $file"
    done
}

lay_out_corpus() {
    python "$HERE/split.py" --out "$PARTIAL" --source "$SOURCE_FILE" --target "$TARGET_FILE" \
        ${VALID:+--valid "$VALID"} ${TEST:+--test "$TEST"} --seed "$SEED"
}

main() {
    local pairs
    read_options "$@"
    pairs=$(wc -l <"$SOURCE_FILE")
    # shellcheck source=recipes/own_data/sizes.sh
    source "$HERE/sizes.sh" "$pairs"
    # shellcheck source=recipes/settings.sh
    source "$ROOT/recipes/settings.sh"
    check_settings
    log "$pairs pairs: $EMBEDDING/$HIDDEN/$ATTENTION/$MAXOUT units, $BPE_MERGES merges," \
        "dropout $DROPOUT, $UPDATES updates of $BATCH_SIZE pairs"
    [[ -z $DRY_RUN ]] || exit 0
    use_work_folder "$ROOT/runs/own-$SOURCE-$TARGET-$MODEL"
    remember_settings SOURCE_FILE TARGET_FILE VALID TEST "${TRAINING_SETTINGS[@]}"
    log "working in $WORK"
    # shellcheck source=recipes/environment.sh
    source "$ROOT/recipes/environment.sh"
    prepare_stages
    run_step "lay out the corpus" "$WORK/corpus" lay_out_corpus
    run_stages
    echo "in Python: from fairseq_rnnsearch import load;" \
        "load(\"$BEST\", \"$WORK/data\").translate(\"...\")"
}

main "$@"
exit
