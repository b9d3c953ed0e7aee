# Sourced by run.sh and by the stages that work with models: the paper's five, and their settings.

# arch_of MODEL: prints its name in fairseq, which is rnnsearch_50 for RNNsearch-50*
arch_of() { echo "${1%\*}" | tr 'A-Z-' 'a-z_'; }

# updates_of MODEL: prints UPDATES, or those of the paper's Table 2
updates_of() {
    local -A papers=([RNNencdec-30]=846000 [RNNsearch-30]=471000 [RNNencdec-50]=600000
        [RNNsearch-50]=288000)
    echo "${UPDATES:-${papers[${1%\*}]}}"
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

list_of MODELS
CHOSEN=("${WORDS[@]}")
one_of OPTIMIZER adadelta adam
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
