# Settings of the Hansards recipe. Every one can be given in the environment instead.

: "${WORK:=}" # everything that is made (default: runs/hansards)

# data: a prefix P stands for P.en and P.fr, plain or as .gz; a .zip is a tatoeba archive
: "${TRAIN:=}"        # prefixes and archives, separated by spaces; no default
: "${VALID:=}"        # a prefix; no default
: "${HANSARDS_DIR:=}" # folder with enfr.src-tgt and enfr.gold; no default
: "${WITH_TEST:=0}" # 1: the text of the 447 pairs, never their links, is in training too, as it is
                   # for published rows of aligners

# text
: "${LONGEST:=50}" # words that a side of a training pair may have
: "${BPE_MERGES:=8000}"

# model, the same for both directions
: "${EMBEDDING:=256}" "${HIDDEN:=256}" "${ATTENTION:=256}" "${MAXOUT:=256}" # m, n, n' and l
: "${DECODER_ORDER:=program}"
: "${DROPOUT:=0.2}" # of embeddings and readout

# guided alignment: attention is trained to follow links of the training text
: "${GUIDED:=0}" # 1: eflomal's; or a file of links i-j, English first, a line for each pair of
                 # $WORK/corpus/train.en and train.fr
: "${GUIDED_WEIGHT:=0.1}" # of following them, beside the cost of the translation; 0: the translator
                         # does not, and only what FORESIGHT trains does
: "${FORESIGHT_GUIDED_WEIGHT:=3}" # the same for what FORESIGHT trains

# target foresight: a copy of the model is trained on, whose attention reads the word that is being
# aligned: all of it where there are links to follow, else its alignment model alone
: "${FORESIGHT:=0}" # 1: the tables are of this model; may be changed afterwards
: "${FORESIGHT_UPDATES:=800}"

# a second round: a copy of the model with target foresight follows the links that the models of both
# directions find by themselves, with posterior weights
: "${OWN_PAIRS:=0}" # so many training pairs are aligned for it, at some 50 a second; 0: no such round;
                   # may be set afterwards, in the same WORK, once

# eflomal, another aligner: its links are rows of the table, and what GUIDED=1 follows
: "${EFLOMAL:=}" # folder with its programs (default: where PATH has them)

# training
: "${LEARNING_RATE:=0.0015}" "${WARMUP:=300}" # updates
: "${CLIP_NORM:=1}" "${LABEL_SMOOTHING:=0.1}"
: "${BATCH_TOKENS:=2000}" # words of a batch's longer side, with its padding
: "${UPDATES:=4000}" "${SEED:=1}"
: "${TRAIN_OPTIONS:=}" # further options of fairseq-train, separated by spaces
: "${DIRECTIONS:=en-fr fr-en}" # to train now; for both at once, each in a terminal of its own
: "${DEVICE:=cpu}" # that aligns: cpu or cuda; training takes a GPU where there is one

# scoring: may be changed afterwards, in the same WORK, but SOURCE_END only before the page is made
: "${POSTERIOR:=0}" # 1: weights that know the target word, rnnsearch-align's default; 0: attention's
: "${SOURCE_END:=keep}" # the column of the source's end symbol on the page; or drop, or renormalise
: "${GOLD:=1}" # 0: settings are being chosen, by agreement with eflomal on VALID; no gold is read
: "${RESAMPLES:=1000}"   # how often the sentences are drawn anew, for the interval
