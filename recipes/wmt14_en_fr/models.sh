# Sourced by run.sh and by the stages that work with models: the paper's five, and their settings.

PAPERS_UPDATES="RNNencdec-30:846000 RNNsearch-30:471000 RNNencdec-50:600000 RNNsearch-50:288000"
PAPERS_STARRED_UPDATES=667000 # of RNNsearch-50*, with those of RNNsearch-50

# arch_of MODEL: prints its name in fairseq, which is rnnsearch_50 for RNNsearch-50*
arch_of() {
    local name=${1%\*}
    name=${name,,}
    echo "${name//-/_}"
}

# updates_of MODEL: prints UPDATES, or those of the paper's Table 2
updates_of() {
    local entry
    for entry in $PAPERS_UPDATES; do
        [[ ${entry%:*} != "${1%\*}" ]] || echo "${UPDATES:-${entry#*:}}"
    done
}

# folder_of MODEL: prints its name without a star
folder_of() { echo "${1/\*/-star}"; }

# checkpoint_of MODEL: prints which checkpoint translates: the best one, or, trained as in the
# paper, that after the updates of Table 2
checkpoint_of() {
    local name=checkpoint_best.pt
    [[ $OPTIMIZER != adadelta || $1 = *\* ]] || name=checkpoint_last.pt
    echo "$CHECKPOINTS/$(folder_of "$1")/$name"
}

# without_unknown TEST: prints the folder of its sentences that have no unknown words in this data
without_unknown() { echo "$WORK/no-unk-${DATA##*/data-}/$1"; }

dictionary_of() { echo "$TRAINING/dictionary-$(folder_of "$1")"; }

# training_of MODEL: prints the name of the step that trains it
training_of() { echo "train $1 on ${DATA##*/}"; }

has_attention() { [[ $1 = RNNsearch-* ]]; }

words_of MODELS RNNencdec-30 RNNsearch-30 RNNencdec-50 RNNsearch-50 'RNNsearch-50*'
((${#WORDS[@]})) || die "MODELS is blank: name a model"
CHOSEN=("${WORDS[@]}")
one_of OPTIMIZER adadelta adam
one_of COMPUTE_DTYPE float32 bfloat16
one_of BATCH_ORDER paper fairseq
words_of REPLACE_UNK copy dictionary
whole DICTIONARY_PAIRS 0
[[ -z $UPDATES ]] || whole UPDATES 1
[[ -z $GFLOPS ]] || whole GFLOPS 1
for name in EMBEDDING HIDDEN ATTENTION MAXOUT BATCH_SIZE WORKERS PATIENCE LONGEST_TRAINING \
    SAVE_EVERY BEAM SEARCH_BATCH; do
    whole "$name" 1
done
whole WARMUP 0
number LEARNING_RATE
number DROPOUT 1
number LABEL_SMOOTHING 1
((BATCH_SIZE % WORKERS == 0)) ||
    die "BATCH_SIZE=$BATCH_SIZE cannot be shared by WORKERS=$WORKERS processes evenly"
[[ $LAUNCH != *torchrun* ]] || ((WORKERS > 1)) ||
    die "LAUNCH=$LAUNCH starts several processes: say how many in all as WORKERS"
TRAINING=$WORK/trained-${DATA##*/data-}
CHECKPOINTS=$TRAINING/checkpoints
TRANSLATIONS=$TRAINING/translations-beam$BEAM

# use_training_folder: dies if these settings are not those of the training folder; its data have
# settings of their own.
use_training_folder() {
    mkdir -p -- "$CHECKPOINTS" "$TRANSLATIONS"
    WORK=$TRAINING remember_settings EMBEDDING HIDDEN ATTENTION MAXOUT DROPOUT OPTIMIZER \
        LEARNING_RATE WARMUP LABEL_SMOOTHING BATCH_SIZE BATCH_ORDER UPDATES SEED COMPUTE_DTYPE \
        TRAIN_OPTIONS LONGEST_TRAINING PATIENCE
}
