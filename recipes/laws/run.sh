#!/usr/bin/env bash
# The paper's comparison on Canada's laws: RNNencdec and RNNsearch, smaller and trained with Adam.
#
#     LAWS=laws.tsv.gz bash recipes/laws/run.sh [--from STAGE] [--to STAGE]
#
# LAWS has a document, English and French in each line, separated by tabs (from
# github.com/justicecanada/laws-lois-xml). NEWS adds test sets, as TEST_TEXT does in wmt14_en_fr. The
# settings and stages are those of wmt14_en_fr, run in $WORK/experiment. Rerun it to resume.

HERE=$(CDPATH= cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
set -a
: "${SHORTLIST:=20000}" "${KEEP_WORDS:=0}" "${REPLACE_UNK=copy}" "${SEARCH_BATCH:=100}"
: "${EMBEDDING:=320}" "${HIDDEN:=512}" "${ATTENTION:=512}" "${MAXOUT:=256}" "${DROPOUT:=0.2}"
: "${OPTIMIZER:=adam}" "${LEARNING_RATE:=0.0015}" "${WARMUP:=600}" "${LABEL_SMOOTHING:=0.1}"
: "${BATCH_ORDER:=fairseq}" "${BATCH_SIZE:=320}" "${COMPUTE_DTYPE:=bfloat16}" "${SAVE_EVERY:=1000}"
: "${UPDATES:=7500}" "${LONGEST_TRAINING:=12500}" "${TITLE:=Laws of Canada, English to French}"
set +a
source "$HERE/../steps.sh"
[[ ${1-} = --from || ${1-} = --to ]] || only_help "$@"

split_by_document() { python "$HERE/split.py" "$LAWS" --out "$PARTIAL"; }
sides() { echo "$WORK/text/$1.en:$WORK/text/$1.fr"; }

[[ -f ${LAWS:-} ]] || die "LAWS names the text (see --help)"
begin_work "$ROOT/runs/laws" LAWS
run_step "split by document" "$WORK/text" split_by_document
TRAIN_TEXT=$(sides train) VALID_TEXT=$(sides valid) \
    TEST_TEXT="laws=$(sides test) long=$(sides long) ${NEWS:-}" WORK=$WORK/experiment \
    bash "$HERE/../wmt14_en_fr/run.sh" "$@"
exit
