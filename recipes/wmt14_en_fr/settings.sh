# Settings of the WMT'14 recipe. Every one can be given in the environment instead:
#
#     KEEP_WORDS=100000000 bash recipes/wmt14_en_fr/run.sh

: "${WORK:=}"      # everything that is made (default: runs/wmt14_en_fr)
: "${PROCESSES:=}" # that tokenise, score and binarise, and threads that train and translate on CPUs
                   # where OMP_NUM_THREADS says nothing else (default: one per core)
: "${SEED:=1}"

# archives: those that are in the folder are used as they are, the others are downloaded
: "${ARCHIVES:=}"                      # folder (default: $WORK/archives)
: "${MIRROR:=https://www.statmt.org}" # where paths such as wmt13/training-parallel-un.tgz begin
: "${ARCHIVE_TABLE:=}"                 # their names, sizes, checksums (default: archives.tsv)
: "${DOWNLOAD_TRIES:=5}" "${DOWNLOAD_WAIT:=5}" # counted anew when something has come; seconds
: "${CORPORA:=europarl-v7 news-commentary-v9 un commoncrawl giga-fren}"
: "${VALID_SETS:=newstest2012 newstest2013}"
: "${TEST_SETS:=newstest2014}" # each has a report of its own

# Other text instead of archives: SOURCE:TARGET, several separated by spaces; plain, .gz or .sgm.
# Each of TRAIN_TEXT is a part of its own of the training text; each of TEST_TEXT is a test set,
# which NAME=SOURCE:TARGET names; those of VALID_TEXT follow each other.
: "${TRAIN_TEXT:=}" "${VALID_TEXT:=}" "${TEST_TEXT:=}"

# tokens
: "${TOKENIZER:=moses}" # or space: the text is tokenised already
: "${LOWERCASE:=0}"     # 1: tokens become lower case (the paper's do not)
: "${LONGEST:=100}"     # words that a side of a training pair may have; the models allow fewer
: "${LENGTH_RATIO:=9}"  # how many times as long one side of a training pair may be as the other

# selection
: "${KEEP_WORDS:=348000000}" # French words; 0 keeps all, without scoring. May be changed afterwards
: "${IN_DOMAIN:=valid}"      # the text to resemble: valid, or names of corpora
: "${LM_ORDER:=3}"           # words of the longest n-gram
: "${LM_MIN_COUNT:=2}"       # the models know words that the in-domain text has so often or more

# vocabulary: may be changed afterwards, but BPE_SAMPLE only before its merges are learned
: "${VOCABULARY:=shortlist}" # or bpe
: "${SHORTLIST:=30000}"      # words of each language, beside the special symbols
: "${BPE_MERGES:=32000}"     # one set of merges for both languages
: "${BPE_SAMPLE:=1000000}"   # sentence pairs to learn them from; 0: all

# models; the trainings of a work folder are kept apart by vocabulary and cut only
: "${MODELS:=RNNencdec-30 RNNsearch-30 RNNencdec-50 RNNsearch-50 RNNsearch-50*}"
: "${EMBEDDING:=620}" "${HIDDEN:=1000}" "${ATTENTION:=1000}" "${MAXOUT:=500}" # m, n, n' and l
: "${DROPOUT:=0}"

# training
: "${OPTIMIZER:=adadelta}" # with the summed cost; or adam, with the cost per word
: "${LEARNING_RATE:=0.0015}" # adam's; falls linearly to 0.00001 in the last update
: "${WARMUP:=300}"           # adam's, updates
: "${LABEL_SMOOTHING:=0}"
: "${COMPUTE_DTYPE:=float32}" # or bfloat16, of the operands of matrix products
: "${BATCH_SIZE:=80}"     # of an update, all processes together
: "${BATCH_ORDER:=paper}" # or fairseq
: "${UPDATES:=}"          # how many for each model (default: those of the paper's Table 2)
: "${PATIENCE:=10}"       # RNNsearch-50* stops after so many validations without a better BLEU
: "${LONGEST_TRAINING:=1000000}" # the most updates of RNNsearch-50*, with those of RNNsearch-50
: "${SAVE_EVERY:=5000}"          # updates; each time it validates, too
: "${WORKERS:=1}" # processes that share an update: GPUs here, or all that LAUNCH starts
: "${LAUNCH:=}"   # in front of fairseq-train, such as "torchrun --nproc_per_node 4"
: "${TRAIN_OPTIONS:=}" # further options of fairseq-train, such as "--num-workers 4"

# translation and report: may be changed afterwards, but REPLACE_UNK and DICTIONARY_PAIRS only before
# a model has translated with this BEAM
: "${BEAM:=12}" "${SEARCH_BATCH:=40}"
# With a shortlist, further rows of the report have UNK replaced: by the source word of most weight
# (copy), or by what a dictionary, made of the model's own alignments of training pairs, has for
# that word (dictionary).
: "${REPLACE_UNK=copy dictionary}"
: "${DICTIONARY_PAIRS:=200000}" # training pairs, evenly spread, to learn the dictionary from; 0: all
: "${DEVICE:=}" # that aligns them: cpu or cuda (default: a GPU where there is one)
: "${OTHER_SYSTEMS:=}" # further rows: NAME=FILE or NAME@TEST_SET=FILE, tokenised translations
: "${ALIGNMENT_IDS:=1,2,3,4}" # sentences of Figure 3, from 1
: "${TITLE:=WMT 2014, English to French}"
