# Sourced by run.sh and the stages: settings, the work folder, the names of what is made.

HERE=$(CDPATH= cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=recipes/wmt14_en_fr/settings.sh
source "$HERE/settings.sh"
# shellcheck source=recipes/steps.sh
source "$HERE/../steps.sh"

# A stage has no arguments; those of run.sh have been read.
[[ ${0##*/} = run.sh ]] || only_help "$@"

# need COMMAND...: dies unless all are on PATH.
need() {
    local command
    for command; do
        command -v -- "$command" >/dev/null || die "there is no $command on PATH"
    done
}

# use_environment COMMAND...: provides python, fairseq's commands and subword-nmt, and dies unless
# all of COMMAND are there. Python finds this checkout's package, whichever is installed.
use_environment() {
    # shellcheck source=recipes/environment.sh
    source "$ROOT/recipes/environment.sh"
    need python "$@"
    export PYTHONPATH=$ROOT${PYTHONPATH:+:$PYTHONPATH}
    export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
}

one_of CHECK_DISK 0 1
one_of TOKENIZER moses space
one_of LOWERCASE 0 1
one_of VOCABULARY shortlist bpe
PROCESSES=${PROCESSES:-$(getconf _NPROCESSORS_ONLN)}
whole PROCESSES 1
for name in LONGEST LM_ORDER LM_MIN_COUNT SHORTLIST BPE_MERGES DOWNLOAD_TRIES; do
    whole "$name" 1
done
for name in KEEP_WORDS BPE_SAMPLE SEED; do
    whole "$name" 0
done
number LENGTH_RATIO
number DOWNLOAD_WAIT

check_work_folder "$ROOT/runs/wmt14_en_fr"
[[ -n ${DRY_RUN:-} ]] || make_work_folder
ARCHIVES=${ARCHIVES:-$WORK/archives}
[[ $ARCHIVES = /* ]] || ARCHIVES=$PWD/$ARCHIVES
ARCHIVE_TABLE=${ARCHIVE_TABLE:-$HERE/archives.tsv}

# PARTS are the parts of the training text; each is a folder of text/, tokens/ and scores/.
PARTS=() TRAIN_FILES=()
if [[ -n $TRAIN_TEXT ]]; then
    read -r -d '' -a TRAIN_FILES <<<"$TRAIN_TEXT" || true
    for part in "${!TRAIN_FILES[@]}"; do
        PARTS+=("own-$((part + 1))")
    done
else
    read -r -d '' -a PARTS <<<"$CORPORA" || true
fi
# TESTS are the test sets; each has translations and a report of its own.
TESTS=()
TEST_FILES=()
if [[ -n $TEST_TEXT ]]; then
    for pair in $TEST_TEXT; do
        name=own-$((${#TESTS[@]} + 1))
        [[ $pair != *=* ]] || name=${pair%%=*}
        [[ $name =~ ^[A-Za-z0-9._-]+$ && " ${TESTS[*]-} " != *" $name "* ]] ||
            die "TEST_TEXT: $name cannot name a test set: must be letters, digits, '.', '_' and" \
                "'-', once each"
        TESTS+=("$name")
        TEST_FILES+=("${pair#*=}")
    done
else
    read -r -d '' -a TESTS <<<"$TEST_SETS" || true
fi
((${#TESTS[@]})) || die "TEST_SETS and TEST_TEXT are both empty: name a test set"
((${#PARTS[@]})) || die "CORPORA and TRAIN_TEXT are both empty: name training text"

remember_settings CORPORA VALID_SETS TEST_SETS TRAIN_TEXT VALID_TEXT TEST_TEXT TOKENIZER \
    LOWERCASE LONGEST LENGTH_RATIO IN_DOMAIN LM_ORDER LM_MIN_COUNT SEED

# These are what later stages read.
SELECTED=$WORK/selected-$KEEP_WORDS # train.{en,fr}
VALID=$WORK/tokens/valid/text       # .{en,fr}
if [[ $VOCABULARY = shortlist ]]; then
    DATA=$WORK/data-shortlist-$SHORTLIST-$KEEP_WORDS
else
    SUBWORDS=$WORK/subwords-$BPE_MERGES-$KEEP_WORDS # {train,valid,test-NAME}.{en,fr}, codes
    DATA=$WORK/data-bpe-$BPE_MERGES-$KEEP_WORDS
fi
# sample FILE COUNT: prints so many of its lines, evenly spread; all for a count of 0.
sample() {
    local lines
    lines=$(wc -l <"$1")
    awk -v lines="$((lines))" -v count="$(($2 ? $2 : lines))" \
        'int(NR * count / lines) > int((NR - 1) * count / lines)' "$1"
}
# tokens_of TEST: prints where the tokens of a test set are, .{en,fr}; text/test-NAME has it as
# people write it
tokens_of() { echo "$WORK/tokens/test-$1/text"; }
