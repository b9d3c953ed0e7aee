# source sizes.sh PAIRS: settings for a corpus of so many pairs, unless they are set already, and
# for text without spaces between words, of which SOURCE_UNSPACED, TARGET_UNSPACED and
# TARGET_CHINESE say 0 or 1.
#
# For less than 20,000 they were measured on 10,000 pairs of Tatoeba, and from 20,000 to 200,000 they
# are those of settings.sh, which were measured on Multi30k (RESULTS.md). For more the model grows
# towards the paper's; that was not measured.

if (($1 < 20000)); then
    : "${EMBEDDING:=128}" "${HIDDEN:=192}" "${ATTENTION:=128}" "${MAXOUT:=128}" "${DROPOUT:=0.4}"
    : "${BPE_MERGES:=3000}"
    if [[ ${VOCABULARY:-bpe} = bpe && $DROPOUT != 0 ]]; then # what paid on Multi30k, and here more
        : "${BPE_DROPOUT:=0.1}" "${INITIALIZATION:=uniform}" "${CHECKPOINT:=average}"
        [[ $BPE_DROPOUT = 0 ]] || : "${BPE_DROPOUT_EPOCHS:=20}" "${BPE_COPIES:=10}" "${RDROP:=3}"
        [[ ${OPTIMIZER:-adam} != adam ]] || : "${LEARNING_RATE:=0.003}"
    fi
    epochs=30
elif (($1 < 200000)); then
    : "${BPE_MERGES:=8000}"
    epochs=17
elif (($1 < 2000000)); then
    : "${EMBEDDING:=512}" "${HIDDEN:=512}" "${ATTENTION:=512}" "${MAXOUT:=512}" "${DROPOUT:=0.2}"
    : "${BPE_MERGES:=16000}" "${LEARNING_RATE:=0.0007}"
    epochs=8
else
    : "${EMBEDDING:=620}" "${HIDDEN:=1000}" "${ATTENTION:=1000}" "${MAXOUT:=500}" "${DROPOUT:=0}"
    : "${BPE_MERGES:=30000}" "${LEARNING_RATE:=0.0004}" "${WARMUP:=4000}"
    epochs=5
fi
: "${TOKENIZER:=reversible}" # text comes back as it was
: "${BATCH_SIZE:=80}"
whole BATCH_SIZE 1
if [[ -z ${UPDATES:-} ]]; then
    UPDATES=$(($1 * epochs / BATCH_SIZE))
    ((UPDATES >= 1500)) || UPDATES=1500 # fewer may end before the alignment has been learned
fi
unset epochs
# A sentence has more characters than words.
((SOURCE_UNSPACED + TARGET_UNSPACED == 0)) || : "${LONGEST:=150}"
# Chinese is scored by characters also where it was cut into words.
((!TARGET_CHINESE)) || : "${BLEU_TOKENIZER:=zh}"
((!TARGET_UNSPACED)) || : "${BLEU_TOKENIZER:=char}"
