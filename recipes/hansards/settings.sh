# Settings of the Hansards recipe. Every one can be given in the environment instead.

: "${WORK:=}" # everything that is made (default: runs/hansards)

# data: a prefix P stands for P.en and P.fr, plain or as .gz; a .zip is a tatoeba archive
: "${TRAIN:=}"        # prefixes and archives, separated by spaces; no default
: "${VALID:=}"        # a prefix; no default
: "${HANSARDS_DIR:=}" # folder with enfr.src-tgt and enfr.gold; no default

# text
: "${LONGEST:=50}" # words that a side of a training pair may have
: "${BPE_MERGES:=8000}"

# model, the same for both directions
: "${EMBEDDING:=256}" # m
: "${HIDDEN:=256}"    # n
: "${ATTENTION:=256}" # n'
: "${MAXOUT:=256}"    # l
: "${DECODER_ORDER:=program}"
: "${DROPOUT:=0.2}" # of embeddings and readout

# training
: "${LEARNING_RATE:=0.0015}"
: "${WARMUP:=300}" # updates
: "${CLIP_NORM:=1}"
: "${LABEL_SMOOTHING:=0.1}"
: "${BATCH_TOKENS:=2000}" # words of a batch's longer side, with its padding
: "${UPDATES:=4000}"
: "${SEED:=1}"
: "${DIRECTIONS:=en-fr fr-en}" # to train now; for both at once, each in a terminal of its own

# scoring: may be changed afterwards, in the same WORK
: "${SOURCE_END:=keep}" # the column of the source's end symbol on the page; or drop, or renormalise
: "${RESAMPLES:=1000}"   # how often the sentences are drawn anew, for the interval
