# Sourced by run.sh and the stages: settings, the work folder, the names of what is made.

HERE=$(CDPATH= cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
source "$HERE/settings.sh"
source "$HERE/../steps.sh"

# A stage has no arguments; those of run.sh have been read.
[[ ${0##*/} = run.sh ]] || only_help "$@"

# use_environment: provides python, fairseq's commands and subword-nmt. Python finds this checkout's
# package, whichever is installed.
use_environment() {
    source "$ROOT/recipes/environment.sh"
    export PYTHONPATH=$ROOT${PYTHONPATH:+:$PYTHONPATH} OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
}

one_of LOWERCASE 0 1
one_of VOCABULARY shortlist bpe
PROCESSES=${PROCESSES:-$(getconf _NPROCESSORS_ONLN)}
check_work_folder "$ROOT/runs/wmt14_en_fr"
ARCHIVES=${ARCHIVES:-$WORK/archives}
[[ $ARCHIVES = /* ]] || ARCHIVES=$PWD/$ARCHIVES
ARCHIVE_TABLE=${ARCHIVE_TABLE:-$HERE/archives.tsv}

# PARTS are the parts of the training text; each is a folder of text/, tokens/ and scores/.
list_of CORPORA
PARTS=("${WORDS[@]}") TRAIN_FILES=()
if [[ -n $TRAIN_TEXT ]]; then
    list_of TRAIN_TEXT
    TRAIN_FILES=("${WORDS[@]}") PARTS=()
    for part in "${!WORDS[@]}"; do PARTS+=("own-$((part + 1))"); done
fi
# TESTS are the test sets; each has translations and a report of its own.
list_of TEST_SETS
TESTS=("${WORDS[@]}") TEST_FILES=()
if [[ -n $TEST_TEXT ]]; then
    TESTS=()
    for pair in $TEST_TEXT; do
        [[ $pair = *=* ]] || pair=own-$((${#TESTS[@]} + 1))=$pair
        TESTS+=("${pair%%=*}") TEST_FILES+=("${pair#*=}")
    done
fi

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
