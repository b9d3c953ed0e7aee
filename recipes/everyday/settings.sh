# These replace rnnsearch-train's defaults: at most 8 million parameters, and three hours on one thread.
# BPE-dropout, then R-Drop, a uniform start and averaged checkpoints helped on Multi30k
# (recipes/multi30k/LEDGER.md).

set -a
: "${BPE_DROPOUT:=0.1}" "${BPE_DROPOUT_EPOCHS:=18}" "${BPE_COPIES:=9}"
: "${INITIALIZATION:=uniform}" "${DROPOUT:=0.2}" "${RDROP:=2}"
: "${LEARNING_RATE:=0.003}" "${WARMUP:=500}" "${BATCH_SIZE:=160}" "${UPDATES:=27000}"
: "${CHECKPOINT:=average}" "${AVERAGE:=5}" "${AVERAGE_START:=0}" "${BEAM:=5}" "${EVALUATE:=test}"
: "${TRAIN_OPTIONS:=--compute-dtype bfloat16}"
set +a
