# Settings of the recipes that train a translator. The values are good for some ten thousands of
# pairs; recipes/multi30k/settings.sh has better ones for its corpus. Each can be given in the
# environment instead:
#
#     MODEL=rnnencdec bash recipes/multi30k/run.sh

: "${MODEL:=rnnsearch}" # or rnnencdec, the RNN encoder-decoder without attention
: "${WORK:=}"           # everything that is made (default: a folder in runs/)

# text
: "${TOKENIZER:=moses}" # or reversible: joins to the very text; or space: the text is tokenised
                      # already; or character: each is a token
# TOKENIZER_fr, for example, stands in its place for one language.
: "${LOWERCASE:=0}"          # 1: train and translate in lower case
: "${VOCABULARY:=bpe}" # or shortlist
: "${MIN_COUNT:=3}"          # a shortlist has the words that training text has so often or more
: "${BPE_MERGES:=8000}"
: "${BPE_JOINT:=1}" # 1: both languages share one set of merges
: "${BPE_DROPOUT:=0}" # probability that a merge is left out in training text (Provilkov et al. 2020)
: "${BPE_COPIES:=16}" # ways in which it is then split, one an epoch
: "${BPE_DROPOUT_EPOCHS:=0}" # epochs before words are split as in translation; 0: never

# model
: "${EMBEDDING:=256}" # m
: "${HIDDEN:=256}"    # n
: "${ATTENTION:=256}" # n'
: "${MAXOUT:=256}"    # l
: "${DECODER_ORDER:=program}"
: "${INITIALIZATION:=appendix}" # the paper's; or uniform, as fairseq's lstm
: "${DROPOUT:=0.3}" # of embeddings and readout
: "${RDROP:=0}" # weight of R-Drop (Liang et al. 2021) once there is no BPE-dropout (any more)

# training
: "${LONGEST:=50}" # words or subwords that a side of a training pair may have; 0: any number
: "${OPTIMIZER:=adam}" # or adadelta, the paper's, with its summed cost; it needs far more updates
: "${LEARNING_RATE:=0.0015}"
: "${WARMUP:=300}"        # updates
: "${LR_SCHEDULER:=polynomial_decay}" # falls linearly, almost to zero at UPDATES; or fixed
: "${CLIP_NORM:=1}"
: "${LABEL_SMOOTHING:=0.1}"
: "${BATCH_SIZE:=80}"
: "${BATCH_ORDER:=fairseq}" # it is newly shuffled in every epoch; or paper
: "${UPDATES:=6000}" # 363 are an epoch of Multi30k
: "${PATIENCE:=-1}"   # training stops after so many epochs without improvement; -1: never
: "${VALID_BLEU:=0}"  # 1: the BLEU of greedy translations chooses checkpoints, not the cost
: "${AVERAGE:=5}"     # so many of the best checkpoints are kept, to be averaged
: "${SEED:=1}"
: "${TRAIN_OPTIONS:=}" # further options of fairseq-train, separated by spaces

# translation: may be changed afterwards, in the same WORK
: "${BLEU_TOKENIZER:=13a}" # sacreBLEU's, of text: zh for Chinese, char for what else has no spaces
: "${EVALUATE:=test}" # or valid: settings are chosen on it, and the test set stays unread
: "${CHECKPOINT:=best}" # or average, the mean of the best ones
: "${ENSEMBLE:=}" # other work folders, of other seeds: their models translate together with this one
: "${BEAM:=12}"
: "${LENGTH_PENALTY:=1}"
: "${DRAWN:=50}" # so many alignments are drawn, as pictures and on a page
: "${UNKNOWN:=forbid}" # unknown words; or keep, or replace, by the source word of most weight
