# Sourced by the recipes that train a translator from parallel text: stages from tokens to scores.
#
# A recipe sets its languages SOURCE and TARGET, lays out $WORK/corpus/{train,valid,test}.LANGUAGE,
# has the settings of settings.sh, and calls check_settings, prepare_stages and run_stages.

check_settings() {
    one_of MODEL rnnsearch rnnencdec
    one_of TOKENIZER moses space
    one_of LOWERCASE 0 1
    one_of VOCABULARY shortlist bpe
    one_of BPE_JOINT 0 1
    one_of OPTIMIZER adam adadelta
    one_of VALID_BLEU 0 1
    one_of LR_SCHEDULER polynomial_decay fixed
    one_of CHECKPOINT best average
    one_of UNKNOWN forbid keep replace
    [[ $MODEL$UNKNOWN != rnnencdecreplace ]] ||
        die "UNKNOWN=replace needs alignments: MODEL=rnnsearch"
}

# These settings cannot be changed in a work folder.
TRAINING_SETTINGS=(MODEL TOKENIZER LOWERCASE VOCABULARY MIN_COUNT BPE_MERGES BPE_JOINT EMBEDDING
    HIDDEN ATTENTION MAXOUT DECODER_ORDER DROPOUT OPTIMIZER LEARNING_RATE LR_SCHEDULER CLIP_NORM
    LABEL_SMOOTHING BATCH_SIZE BATCH_ORDER UPDATES WARMUP PATIENCE VALID_BLEU AVERAGE SEED
    TRAIN_OPTIONS)

# prepare_stages: sets the names that follow from the settings.
prepare_stages() {
    LANGUAGES=("$SOURCE" "$TARGET")
    TEXT=$WORK/tokens
    [[ $VOCABULARY = shortlist ]] || TEXT=$WORK/subwords
    BEST=$WORK/checkpoints/checkpoint_best.pt
    AVERAGED=$WORK/average-of-$AVERAGE.pt
    TRANSLATIONS=$WORK/translations-$CHECKPOINT-beam$BEAM-length$LENGTH_PENALTY-$UNKNOWN
}

moses() { python "$ROOT/recipes/moses.py" "$1" --tokenizer "$TOKENIZER" "${@:2}"; }

# 1. text

tokenise() {
    local split language
    local -a lowercase=()
    [[ $LOWERCASE = 0 ]] || lowercase=(--lowercase)
    mkdir -- "$PARTIAL"
    for split in train valid test; do
        for language in "${LANGUAGES[@]}"; do
            moses tokenize --language "$language" ${lowercase[@]+"${lowercase[@]}"} \
                <"$WORK/corpus/$split.$language" >"$PARTIAL/$split.$language"
        done
    done
}

make_subwords() {
    local split language codes
    mkdir -- "$PARTIAL"
    for language in "${LANGUAGES[@]}"; do
        codes=$PARTIAL/codes.$language
        if [[ $BPE_JOINT = 1 ]]; then
            cat -- "$WORK/tokens/train.$SOURCE" "$WORK/tokens/train.$TARGET"
        else
            cat -- "$WORK/tokens/train.$language"
        fi | subword-nmt learn-bpe --symbols "$BPE_MERGES" >"$codes" 2>"$WORK/logs/learn-bpe.log"
        for split in train valid test; do
            subword-nmt apply-bpe --codes "$codes" \
                <"$WORK/tokens/$split.$language" >"$PARTIAL/$split.$language"
        done
    done
}

binarise() {
    local -a thresholds=()
    [[ $VOCABULARY = bpe ]] || thresholds=(--thresholdsrc "$MIN_COUNT" --thresholdtgt "$MIN_COUNT")
    preprocess preprocess "$SOURCE" "$TARGET" --workers 2 ${thresholds[@]+"${thresholds[@]}"} \
        --trainpref "$TEXT/train" --validpref "$TEXT/valid" --testpref "$TEXT/test"
    if [[ $VOCABULARY = bpe ]]; then
        cp -- "$WORK/subwords/codes.$SOURCE" "$WORK/subwords/codes.$TARGET" "$PARTIAL/"
        describe_preprocessing "$SOURCE:codes.$SOURCE" "$TARGET:codes.$TARGET"
    else
        describe_preprocessing "$SOURCE" "$TARGET"
    fi
}

# keep_test_words: keeps those that the dictionary lacks too, because --replace-unk needs them.
keep_test_words() {
    preprocess preprocess-test "$SOURCE" "$TARGET" --testpref "$TEXT/test" --dataset-impl raw \
        --srcdict "$WORK/data/dict.$SOURCE.txt" --tgtdict "$WORK/data/dict.$TARGET.txt"
}

# 2. training

train() {
    local -a further=()
    set_sizes
    set_optimization "$OPTIMIZER" "$LR_SCHEDULER" "$UPDATES"
    set_judgement "$([[ $VALID_BLEU = 1 ]] && echo bleu || echo nll_loss)"
    read -r -a further <<<"$TRAIN_OPTIONS" || true
    train_logged train fairseq-train "$WORK/data" "${PLUGIN[@]}" \
        --arch "${MODEL}_50" "${SIZES[@]}" --decoder-order "$DECODER_ORDER" --dropout "$DROPOUT" \
        --criterion alignment_heatmap --label-smoothing "$LABEL_SMOOTHING" \
        "${OPTIMIZATION[@]}" --clip-norm "$CLIP_NORM" \
        --batch-size "$BATCH_SIZE" --batch-order "$BATCH_ORDER" \
        --max-update "$UPDATES" --patience "$PATIENCE" --seed "$SEED" --num-workers 0 \
        --save-dir "$WORK/checkpoints" --no-epoch-checkpoints \
        --keep-best-checkpoints "$AVERAGE" "${JUDGEMENT[@]}" \
        --log-format simple --log-interval 50 ${further[@]+"${further[@]}"}
}

average() {
    python "$ROOT/recipes/average.py" --out "$PARTIAL" "$WORK"/checkpoints/checkpoint.best_*.pt
}

# 3. translation

translate() {
    local checkpoint=$BEST
    local -a data=("$WORK/data") words=() draw=()
    [[ $CHECKPOINT = best ]] || checkpoint=$AVERAGED
    case $UNKNOWN in
        forbid) words=(--forbid-unk) ;;
        replace)
            data=("$WORK/test-words" --dataset-impl raw
                --source-lang "$SOURCE" --target-lang "$TARGET")
            words=(--replace-unk "")
            ;;
    esac
    [[ $VOCABULARY = shortlist ]] || words+=(--post-process subword_nmt)
    [[ $MODEL = rnnencdec ]] || draw=(--heatmap-dir "$PARTIAL/alignments"
        --heatmap-format html,png --heatmap-samples "$DRAWN")
    logged generate fairseq-generate "${data[@]}" "${PLUGIN[@]}" --path "$checkpoint" \
        --beam "$BEAM" --lenpen "$LENGTH_PENALTY" --batch-size 40 --results-path "$PARTIAL" \
        ${words[@]+"${words[@]}"} ${draw[@]+"${draw[@]}"}
    translations "$PARTIAL/generate-test.txt" >"$PARTIAL/tokens.$TARGET"
    moses detokenize --language "$TARGET" <"$PARTIAL/tokens.$TARGET" >"$PARTIAL/text.$TARGET"
    moses tokenize --language "$TARGET" <"$WORK/corpus/test.$TARGET" \
        >"$PARTIAL/reference-tokens.$TARGET"
    same_length "$PARTIAL/tokens.$TARGET" "$PARTIAL/reference-tokens.$TARGET"
}

report() {
    echo "$MODEL, $SOURCE to $TARGET, in $TRANSLATIONS:"
    echo "lower-cased, tokenised:"
    echo "  $(sacrebleu "$TRANSLATIONS/reference-tokens.$TARGET" \
        --input "$TRANSLATIONS/tokens.$TARGET" --tokenize none --lowercase --force --format text)"
    if [[ $LOWERCASE = 0 ]]; then
        echo "cased, detokenised:"
    else
        echo "detokenised, against a cased reference (LOWERCASE=1):"
    fi
    echo "  $(sacrebleu "$WORK/corpus/test.$TARGET" \
        --input "$TRANSLATIONS/text.$TARGET" --format text)"
    [[ $MODEL = rnnencdec ]] || echo "alignments: $TRANSLATIONS/alignments/index.html"
}

run_stages() {
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
}
