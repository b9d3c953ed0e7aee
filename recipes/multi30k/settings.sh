# These replace rnnsearch-train's defaults: what LEDGER.md found best for an hour of training.

set -a
: "${MODEL:=rnnsearch}" "${TOKENIZER:=moses}"
if [[ ${VOCABULARY:-bpe} = bpe ]]; then
    : "${BPE_DROPOUT:=0.1}"
    if [[ $BPE_DROPOUT != 0 ]]; then
        : "${BPE_DROPOUT_EPOCHS:=9}" "${BPE_COPIES:=9}"
        [[ $BPE_DROPOUT_EPOCHS = 0 || ${DROPOUT:-} = 0 ]] || : "${RDROP:=3}"
    fi
fi
: "${INITIALIZATION:=uniform}" "${LEARNING_RATE:=0.004}" "${UPDATES:=4719}" "${BEAM:=12}"
set +a
