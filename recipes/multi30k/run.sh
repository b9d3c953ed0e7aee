#!/usr/bin/env bash
# Trains and scores a translator on Multi30k, English to French: 29,000 sentence pairs.
#
#     bash recipes/multi30k/run.sh
#     MODEL=rnnencdec bash recipes/multi30k/run.sh
#
# settings.sh beside this file has all that can be set. Run again, it goes on where it stopped.

HERE=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(cd -- "$HERE/../.." && pwd)
# shellcheck source=recipes/multi30k/settings.sh
source "$HERE/settings.sh"
# shellcheck source=recipes/steps.sh
source "$ROOT/recipes/steps.sh"

# one_of NAME VALUE...: dies unless the variable NAME has one of the values.
one_of() {
    local name=$1 value
    shift
    for value; do
        [[ ${!name} != "$value" ]] || return 0
    done
    die "$name=${!name}: must be one of $*"
}

one_of MODEL rnnsearch rnnencdec
one_of LOWERCASE 0 1
one_of VOCABULARY shortlist bpe
one_of BPE_JOINT 0 1
one_of VALID_BLEU 0 1
one_of LR_SCHEDULER polynomial_decay fixed
one_of CHECKPOINT best average
one_of UNKNOWN forbid keep replace
[[ $MODEL$UNKNOWN != rnnencdecreplace ]] || die "UNKNOWN=replace needs alignments: MODEL=rnnsearch"

use_work_folder "$ROOT/runs/multi30k-$MODEL"
remember_settings MODEL MULTI30K_DIR LOWERCASE VOCABULARY MIN_COUNT BPE_MERGES BPE_JOINT \
    EMBEDDING HIDDEN ATTENTION MAXOUT DECODER_ORDER DROPOUT LEARNING_RATE LR_SCHEDULER CLIP_NORM \
    LABEL_SMOOTHING BATCH_SIZE BATCH_ORDER UPDATES WARMUP PATIENCE VALID_BLEU AVERAGE SEED \
    TRAIN_OPTIONS
log "working in $WORK"
# shellcheck source=recipes/environment.sh
source "$ROOT/recipes/environment.sh"

PLUGIN=(--user-dir "$ROOT/fairseq_rnnsearch" --task alignment_heatmap)
TEST=test_2016_flickr
SPLITS=(train:train valid:val "test:$TEST") # ours:theirs
if [[ $VOCABULARY = bpe ]]; then
    TEXT=$WORK/subwords
else
    TEXT=$WORK/tokens
fi
BEST=$WORK/checkpoints/checkpoint_best.pt
AVERAGED=$WORK/average-of-$AVERAGE.pt
TRANSLATIONS=$WORK/translations-$CHECKPOINT-beam$BEAM-length$LENGTH_PENALTY-$UNKNOWN

moses() { python "$HERE/moses.py" "$@"; }

# 1. text

lay_out_corpus() {
    local split
    if [[ -n $MULTI30K_DIR ]]; then
        python "$HERE/corpus.py" --out "$PARTIAL" --folder "$MULTI30K_DIR"
    else
        python "$HERE/corpus.py" --out "$PARTIAL"
    fi
    for split in "${SPLITS[@]#*:}"; do
        same_length "$PARTIAL/$split.en" "$PARTIAL/$split.fr"
    done
}

tokenise() {
    local split language
    local -a lowercase=()
    [[ $LOWERCASE = 0 ]] || lowercase=(--lowercase)
    mkdir -- "$PARTIAL"
    for split in "${SPLITS[@]}"; do
        for language in en fr; do
            moses tokenize --language "$language" ${lowercase[@]+"${lowercase[@]}"} \
                <"$WORK/corpus/${split#*:}.$language" >"$PARTIAL/${split%:*}.$language"
        done
    done
}

make_subwords() {
    local split language codes
    mkdir -- "$PARTIAL"
    for language in en fr; do
        codes=$PARTIAL/codes.$language
        if [[ $BPE_JOINT = 1 ]]; then
            cat -- "$WORK/tokens/train.en" "$WORK/tokens/train.fr"
        else
            cat -- "$WORK/tokens/train.$language"
        fi | subword-nmt learn-bpe --symbols "$BPE_MERGES" >"$codes" 2>"$WORK/logs/learn-bpe.log"
        for split in "${SPLITS[@]%:*}"; do
            subword-nmt apply-bpe --codes "$codes" \
                <"$WORK/tokens/$split.$language" >"$PARTIAL/$split.$language"
        done
    done
}

binarise() {
    local -a thresholds=()
    [[ $VOCABULARY = bpe ]] || thresholds=(--thresholdsrc "$MIN_COUNT" --thresholdtgt "$MIN_COUNT")
    logged preprocess fairseq-preprocess "${PLUGIN[@]}" --source-lang en --target-lang fr \
        --trainpref "$TEXT/train" --validpref "$TEXT/valid" --testpref "$TEXT/test" \
        ${thresholds[@]+"${thresholds[@]}"} --workers 2 --destdir "$PARTIAL"
    describe_preprocessing
}

# For load() and align, which take plain text.
describe_preprocessing() {
    local language separator='' lowercase=false codes=null
    [[ $LOWERCASE = 0 ]] || lowercase=true
    {
        printf '{'
        for language in en fr; do
            if [[ $VOCABULARY = bpe ]]; then
                cp -- "$WORK/subwords/codes.$language" "$PARTIAL/"
                codes="\"codes.$language\""
            fi
            printf '%s"%s": {"tokenizer": "moses", "lowercase": %s, "bpe_codes": %s}' \
                "$separator" "$language" "$lowercase" "$codes"
            separator=$',\n '
        done
        printf '}\n'
    } >"$PARTIAL/preprocessing.json"
}

# For --replace-unk, which needs the words that the dictionary lacks.
keep_test_words() {
    logged preprocess-test fairseq-preprocess "${PLUGIN[@]}" --source-lang en --target-lang fr \
        --testpref "$TEXT/test" --dataset-impl raw \
        --srcdict "$WORK/data/dict.en.txt" --tgtdict "$WORK/data/dict.fr.txt" --destdir "$PARTIAL"
}

# 2. training

train() {
    local -a schedule=(--lr-scheduler "$LR_SCHEDULER" --warmup-updates "$WARMUP")
    local -a choose=() further=()
    [[ $LR_SCHEDULER = fixed ]] ||
        schedule+=(--total-num-update "$UPDATES" --end-learning-rate 0.00001)
    if [[ $VALID_BLEU = 1 ]]; then
        choose=(--eval-bleu --eval-bleu-args '{"beam": 1}' --best-checkpoint-metric bleu
            --maximize-best-checkpoint-metric)
        [[ $VOCABULARY = shortlist ]] || choose+=(--eval-bleu-remove-bpe)
    else
        choose=(--best-checkpoint-metric nll_loss)
    fi
    read -r -a further <<<"$TRAIN_OPTIONS" || true
    train_logged train fairseq-train "$WORK/data" "${PLUGIN[@]}" \
        --arch "${MODEL}_50" --decoder-order "$DECODER_ORDER" --dropout "$DROPOUT" \
        --encoder-embed-dim "$EMBEDDING" --decoder-embed-dim "$EMBEDDING" \
        --encoder-hidden-size "$HIDDEN" --decoder-hidden-size "$HIDDEN" \
        --attention-size "$ATTENTION" --maxout-size "$MAXOUT" \
        --criterion alignment_heatmap --cost-scale word --label-smoothing "$LABEL_SMOOTHING" \
        --optimizer adam --lr "$LEARNING_RATE" "${schedule[@]}" --clip-norm "$CLIP_NORM" \
        --batch-size "$BATCH_SIZE" --batch-order "$BATCH_ORDER" \
        --max-update "$UPDATES" --patience "$PATIENCE" --seed "$SEED" --num-workers 0 \
        --save-dir "$WORK/checkpoints" --no-epoch-checkpoints \
        --keep-best-checkpoints "$AVERAGE" "${choose[@]}" \
        --log-format simple --log-interval 50 ${further[@]+"${further[@]}"}
}

average() {
    python "$HERE/average.py" --out "$PARTIAL" "$WORK"/checkpoints/checkpoint.best_*.pt
}

# 3. translation

translate() {
    local checkpoint=$BEST
    local -a data=("$WORK/data") words=() draw=()
    [[ $CHECKPOINT = best ]] || checkpoint=$AVERAGED
    case $UNKNOWN in
        forbid) words=(--forbid-unk) ;;
        replace)
            data=("$WORK/test-words" --dataset-impl raw --source-lang en --target-lang fr)
            words=(--replace-unk "")
            ;;
    esac
    [[ $VOCABULARY = shortlist ]] || words+=(--post-process subword_nmt)
    [[ $MODEL = rnnencdec ]] || draw=(--heatmap-dir "$PARTIAL/alignments"
        --heatmap-format html,png --heatmap-samples "$DRAWN")
    logged generate fairseq-generate "${data[@]}" "${PLUGIN[@]}" --path "$checkpoint" \
        --beam "$BEAM" --lenpen "$LENGTH_PENALTY" --batch-size 40 --results-path "$PARTIAL" \
        ${words[@]+"${words[@]}"} ${draw[@]+"${draw[@]}"}
    translations "$PARTIAL/generate-test.txt" >"$PARTIAL/tokens.fr"
    moses detokenize --language fr <"$PARTIAL/tokens.fr" >"$PARTIAL/text.fr"
    moses tokenize --language fr <"$WORK/corpus/$TEST.fr" >"$PARTIAL/reference-tokens.fr"
    same_length "$PARTIAL/tokens.fr" "$PARTIAL/reference-tokens.fr"
}

report() {
    echo "$MODEL on $TEST, in $TRANSLATIONS:"
    echo "lower-cased, tokenised:"
    echo "  $(sacrebleu "$TRANSLATIONS/reference-tokens.fr" --input "$TRANSLATIONS/tokens.fr" \
        --tokenize none --lowercase --force --format text)"
    if [[ $LOWERCASE = 0 ]]; then
        echo "cased, detokenised:"
    else
        echo "detokenised, against a cased reference (LOWERCASE=1):"
    fi
    echo "  $(sacrebleu "$WORK/corpus/$TEST.fr" --input "$TRANSLATIONS/text.fr" --format text)"
    [[ $MODEL = rnnencdec ]] || echo "alignments: $TRANSLATIONS/alignments/index.html"
}

run_step "lay out the corpus" "$WORK/corpus" lay_out_corpus
run_step "tokenise it" "$WORK/tokens" tokenise
if [[ $VOCABULARY = bpe ]]; then
    run_step "make subwords" "$WORK/subwords" make_subwords
fi
run_step "binarise it" "$WORK/data" binarise
resume_step "train" train
if [[ $CHECKPOINT = average ]]; then
    run_step "average $AVERAGE checkpoints" "$AVERAGED" average
fi
if [[ $UNKNOWN = replace ]]; then
    run_step "keep the test set's words" "$WORK/test-words" keep_test_words
fi
run_step "translate to ${TRANSLATIONS##*/}" "$TRANSLATIONS" translate
report
