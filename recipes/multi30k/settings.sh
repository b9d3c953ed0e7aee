# Sourced before recipes/settings.sh, whose values these take the place of: what LEDGER.md found
# best for a training of an hour.

if [[ ${VOCABULARY:-bpe} = bpe ]]; then
    : "${BPE_DROPOUT:=0.1}"
    [[ $BPE_DROPOUT = 0 ]] || : "${BPE_DROPOUT_EPOCHS:=9}" "${BPE_COPIES:=9}"
fi
: "${BPE_MERGES:=4000}" "${LEARNING_RATE:=0.003}" "${UPDATES:=5200}"
