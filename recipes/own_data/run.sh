#!/usr/bin/env bash
# From one's own sentence pairs to a trained model, translations, scores and heatmaps.
#
#     bash recipes/own_data/run.sh --source corpus.en --target corpus.fr
#     bash recipes/own_data/run.sh --pairs corpus.tsv --languages en,fr
#         [--valid PREFIX] [--test PREFIX] [--dry-run]
#
# A line of --source belongs to the same line of --target, and the languages are the files'
# suffixes, unless --languages names them; or a line of --pairs has a source sentence, a tab, and its
# translation. All files may be packed by gzip, bzip2 or xz. A PREFIX stands for PREFIX.en and PREFIX.fr; without one, sentences are held out
# of the corpus. --dry-run checks the files and says what would be done, and what time, disk and
# memory it takes.
#
# The size of the model, the subwords and the length of training follow from the number of pairs
# (see sizes.sh); each can be set in the environment instead (recipes/settings.sh). Text without
# spaces between words, such as Chinese, Japanese and Thai, is trained by characters. WORK names the
# folder for everything that is made. Run again, the recipe goes on where it stopped.

HERE=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=recipes/stages.sh
source "$HERE/../stages.sh"

SOURCE_FILE='' TARGET_FILE='' PAIRS_FILE='' LANGUAGE_PAIR='' VALID='' TEST='' DRY_RUN=''

read_options() {
    while (($#)); do
        case $1 in
            --source | --target | --pairs | --languages | --valid | --test)
                (($# > 1)) || die "$1 needs a value"
                case $1 in
                    --source) SOURCE_FILE=$2 ;;
                    --target) TARGET_FILE=$2 ;;
                    --pairs) PAIRS_FILE=$2 ;;
                    --languages) LANGUAGE_PAIR=$2 ;;
                    --valid) VALID=$2 ;;
                    --test) TEST=$2 ;;
                esac
                shift 2
                ;;
            --dry-run)
                DRY_RUN=yes
                shift
                ;;
            -h | --help) show_help && exit ;;
            *) die "unknown option $1; valid: --source, --target, --pairs, --languages," \
                "--valid, --test, --dry-run and --help" ;;
        esac
    done
    check_options
}

# suffix_of FILE: prints the language in a name like corpus.en, corpus.en.gz or corpus.en.txt
suffix_of() {
    local name=$1
    name=${name%.@(gz|bz2|xz)}
    name=${name%.txt}
    echo "${name##*.}"
}

# has_side PREFIX LANGUAGE: dies unless there is such a file, plain or packed; pt_BR is also pt-BR.
has_side() {
    local name
    for name in "$1.$2" "$1.${2//_/-}"; do
        [[ ! -f $name && ! -f $name.gz ]] || return 0
    done
    die "there is no file $1.$2"
}

check_options() {
    local file names='the suffixes of the files must be'
    if [[ -n $PAIRS_FILE ]]; then
        [[ -z $SOURCE_FILE$TARGET_FILE ]] ||
            die "--pairs stands in the place of --source and --target"
        names='--languages must name'
        SOURCE=${LANGUAGE_PAIR%%,*} TARGET=${LANGUAGE_PAIR#*,}
    else
        [[ -n $SOURCE_FILE && -n $TARGET_FILE ]] ||
            die "--source and --target name the two text files, or --pairs one of two columns"
        SOURCE=$(suffix_of "$SOURCE_FILE") TARGET=$(suffix_of "$TARGET_FILE")
        if [[ -n $LANGUAGE_PAIR ]]; then
            names='--languages must name' SOURCE=${LANGUAGE_PAIR%%,*} TARGET=${LANGUAGE_PAIR#*,}
        fi
    fi
    SOURCE=${SOURCE//-/_} TARGET=${TARGET//-/_} # fairseq takes a hyphen for the end of the source
    [[ $SOURCE =~ ^[A-Za-z][A-Za-z0-9_]*$ && $TARGET =~ ^[A-Za-z][A-Za-z0-9_]*$ &&
        $SOURCE != "$TARGET" ]] || die "$names two languages, such as en and pt-BR"
    for file in "$PAIRS_FILE" "$SOURCE_FILE" "$TARGET_FILE"; do
        [[ -z $file || -f $file ]] || die "there is no file $file"
    done
    for file in ${VALID:+"$VALID"} ${TEST:+"$TEST"}; do
        has_side "$file" "$SOURCE"
        has_side "$file" "$TARGET"
    done
}

# split OPTION...: checks the files; prints facts, or with --out lays the corpus out.
split() {
    check "$HERE/split.py" --languages "$SOURCE,$TARGET" ${SEED:+--seed "$SEED"} \
        ${PAIRS_FILE:+--pairs "$PAIRS_FILE"} \
        ${SOURCE_FILE:+--source "$SOURCE_FILE" --target "$TARGET_FILE"} \
        ${VALID:+--valid "$VALID"} ${TEST:+--test "$TEST"} "$@"
}

lay_out_corpus() { split --out "$PARTIAL"; }

# read_facts: sets the variables that split.py prints, such as PAIRS and TARGET_UNSPACED.
read_facts() {
    local facts name value
    facts=$(split) || exit
    while IFS='=' read -r name value; do
        [[ ! $name =~ ^[A-Z_]+$ || ! $value =~ ^[0-9]+$ ]] || printf -v "$name" %s "$value"
    done <<<"$facts"
}

# choose_tokenizer SOURCE|TARGET: by characters, where a text has no spaces between words.
choose_tokenizer() {
    local name=TOKENIZER_${!1} unspaced=$1_UNSPACED words=$1_WORDS characters=$1_CHARACTERS
    if [[ -z ${!name:-} ]]; then
        printf -v "$name" %s "$TOKENIZER"
        ((!${!unspaced})) || printf -v "$name" character
    fi
    [[ $VOCABULARY = shortlist || ${!name} = character ]] || ((${!unspaced})) ||
        ((5 * ${!characters} > 6 * ${!words})) ||
        die "${!1}: words of single characters have no subwords; give VOCABULARY=shortlist"
    [[ ${!name} = character ]] || ((!${!unspaced})) ||
        die "$name=${!name}: text without spaces between words has whole sentences for words;" \
            "must be character, or cut the text into words"
}

main() {
    read_options "$@"
    [[ -z ${SEED:-} ]] || whole SEED 0
    log "reading ${PAIRS_FILE:-$SOURCE_FILE and $TARGET_FILE}"
    read_facts
    # shellcheck source=recipes/own_data/sizes.sh
    source "$HERE/sizes.sh" "$PAIRS"
    # shellcheck source=recipes/settings.sh
    source "$ROOT/recipes/settings.sh"
    check_settings
    choose_tokenizer SOURCE
    choose_tokenizer TARGET
    WORK=${WORK:-$ROOT/runs/own-$SOURCE-$TARGET-$MODEL}
    say_plan
    end_dry_run
    begin_training "$WORK" SOURCE_FILE TARGET_FILE PAIRS_FILE VALID TEST
    prepare_stages
    run_step "lay out the corpus" "$WORK/corpus" lay_out_corpus
    run_stages
    make_page test --title "$MODEL, $SOURCE to $TARGET"
}

main "$@"
exit
