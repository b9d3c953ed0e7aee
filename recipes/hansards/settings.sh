# Settings of the Hansards recipe. Every one can be given in the environment instead.

: "${WORK:=}" # everything that is made (default: runs/hansards)

# data: a prefix P stands for P.en and P.fr, plain or as .gz; a .zip is a tatoeba archive
: "${TRAIN:=}"        # prefixes and archives, separated by spaces; no default
: "${VALID:=}"        # a prefix; no default
: "${HANSARDS_DIR:=}" # folder with enfr.src-tgt and enfr.gold; no default

# text
: "${LONGEST:=50}" # words of a training pair
: "${BPE_MERGES:=8000}"

# model, the same for both directions
: "${EMBEDDING:=256}" # m
: "${HIDDEN:=256}"    # n
: "${ATTENTION:=256}" # n'
: "${MAXOUT:=256}"    # l
: "${DECODER_ORDER:=program}"
: "${DROPOUT:=0.2}" # embeddings and readout

# training
: "${LEARNING_RATE:=0.0015}"
: "${WARMUP:=300}" # updates
: "${CLIP_NORM:=1}"
: "${LABEL_SMOOTHING:=0.1}"
: "${BATCH_TOKENS:=2000}" # of the longer side, padding counted
: "${UPDATES:=4000}"
: "${SEED:=1}"
: "${DIRECTIONS:=en-fr fr-en}" # to train now; each alone, in two terminals, for both at once

# scoring: may be changed afterwards, in the same WORK
: "${SOURCE_END:=keep}" # column of the source's end symbol on the page; drop or renormalise
: "${RESAMPLES:=1000}"   # of the sentences, for the interval
