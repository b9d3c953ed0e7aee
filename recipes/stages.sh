# Sourced by the recipes that train a translator from parallel text: stages from tokens to scores.
#
# A recipe sets its languages SOURCE and TARGET, lays out $WORK/corpus/{train,valid,test}.LANGUAGE,
# has the settings of settings.sh, and calls check_settings, prepare_stages and run_stages.

# shellcheck source=recipes/steps.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/steps.sh"

check_settings() {
    one_of MODEL rnnsearch rnnencdec
    one_of LOWERCASE 0 1
    one_of VOCABULARY shortlist bpe
    one_of BPE_JOINT 0 1
    one_of DECODER_ORDER program appendix section3
    one_of INITIALIZATION appendix uniform
    one_of OPTIMIZER adam adadelta
    one_of VALID_BLEU 0 1
    one_of LR_SCHEDULER polynomial_decay fixed
    one_of EVALUATE test valid
    one_of CHECKPOINT best average
    one_of UNKNOWN forbid keep replace
    local name
    for name in TOKENIZER "TOKENIZER_$SOURCE" "TOKENIZER_$TARGET"; do
        [[ -z ${!name:-} ]] || one_of "$name" reversible moses space character
    done
    for name in BPE_MERGES BPE_COPIES EMBEDDING HIDDEN ATTENTION MAXOUT BATCH_SIZE UPDATES AVERAGE \
        BEAM; do
        whole "$name" 1
    done
    [[ $BPE_DROPOUT =~ ^0(\.[0-9]+)?$ ]] ||
        die "BPE_DROPOUT=$BPE_DROPOUT: must be a probability, at least 0 and below 1"
    [[ $BPE_DROPOUT = 0 || $VOCABULARY = bpe ]] ||
        die "BPE_DROPOUT=$BPE_DROPOUT needs subwords: VOCABULARY=bpe"
    for name in BPE_DROPOUT_EPOCHS LONGEST MIN_COUNT WARMUP DRAWN SEED; do
        whole "$name" 0
    done
    [[ $BPE_DROPOUT != 0 || $BPE_DROPOUT_EPOCHS = 0 ]] ||
        die "BPE_DROPOUT_EPOCHS=$BPE_DROPOUT_EPOCHS needs BPE_DROPOUT above 0"
    [[ $RDROP =~ ^(0|[1-9][0-9]*)(\.[0-9]+)?$ ]] ||
        die "RDROP=$RDROP: must be a number of 0 or more"
    [[ $RDROP = 0 || $DROPOUT != 0 ]] || die "RDROP=$RDROP needs DROPOUT above 0"
    [[ $RDROP = 0 || $BPE_DROPOUT = 0 || $BPE_DROPOUT_EPOCHS != 0 ]] ||
        die "RDROP=$RDROP is for epochs without BPE-dropout: give BPE_DROPOUT_EPOCHS"
    [[ $MODEL$UNKNOWN != rnnencdecreplace ]] ||
        die "UNKNOWN=replace needs alignments: MODEL=rnnsearch"
}

TRAINING_SETTINGS=(MODEL TOKENIZER LOWERCASE VOCABULARY MIN_COUNT BPE_MERGES BPE_JOINT BPE_DROPOUT
    BPE_COPIES BPE_DROPOUT_EPOCHS EMBEDDING HIDDEN ATTENTION MAXOUT DECODER_ORDER INITIALIZATION
    DROPOUT RDROP OPTIMIZER LEARNING_RATE LR_SCHEDULER CLIP_NORM LABEL_SMOOTHING LONGEST BATCH_SIZE
    BATCH_ORDER UPDATES WARMUP PATIENCE VALID_BLEU AVERAGE SEED TRAIN_OPTIONS)

# begin_training DEFAULT NAME...: does as begin_work; neither TRAINING_SETTINGS nor how a language is
# tokenised can be changed in the folder.
begin_training() {
    local language
    for language in "$SOURCE" "$TARGET"; do
        printf -v "TOKENIZER_$language" %s "$(tokenizer_of "$language")"
    done
    begin_work "$@" "TOKENIZER_$SOURCE" "TOKENIZER_$TARGET" "${TRAINING_SETTINGS[@]}"
}

# prepare_stages: sets the names that follow from the settings.
prepare_stages() {
    LANGUAGES=("$SOURCE" "$TARGET")
    TEXT=$WORK/tokens
    [[ $VOCABULARY = shortlist ]] || TEXT=$WORK/subwords
    BEST=$WORK/checkpoints/checkpoint_best.pt
    AVERAGED=$WORK/average-of-$AVERAGE.pt
    TRANSLATIONS=translations-$CHECKPOINT-beam$BEAM-length$LENGTH_PENALTY-$UNKNOWN
    [[ $EVALUATE = test ]] || TRANSLATIONS=$EVALUATE-$TRANSLATIONS
    TRANSLATIONS=$WORK/$TRANSLATIONS
    TRAINED=$BEST
    [[ $CHECKPOINT = best ]] || TRAINED=$AVERAGED
    MODELS=$TRAINED
    local other model=${MODELS#"$WORK"}
    read -r -a OTHERS <<<"$ENSEMBLE" || true
    for other in ${OTHERS[@]+"${OTHERS[@]}"}; do
        [[ -e $other$model ]] || die "ENSEMBLE=$ENSEMBLE: there is no $other$model"
        MODELS+=:$other$model
        TRANSLATIONS+=-with-$(basename -- "$other")
    done
}

by_characters() { [[ $(tokenizer_of "$1") = character ]]; }

has_codes() { [[ $VOCABULARY = bpe ]] && ! by_characters "$1"; }

# say_plan: says what is trained, and what time, disk and memory it takes. PAIRS has the number of
# pairs, TRAIN_PAIRS and TEST_PAIRS those of two parts, and SOURCE_WORDS, SOURCE_CHARACTERS and
# SOURCE_DISTINCT (characters) what the training text has, as TARGET_WORDS and so on.
say_plan() {
    local updates=$UPDATES later side
    local -a tokens=() types=()
    if [[ $RDROP != 0 ]]; then # it reads each batch twice
        later=$((UPDATES - BPE_DROPOUT_EPOCHS * TRAIN_PAIRS / BATCH_SIZE))
        ((later <= 0)) || updates=$((updates + later))
    fi
    log "$(counted "$PAIRS" pair): $EMBEDDING/$HIDDEN/$ATTENTION/$MAXOUT units," \
        "$(counted "$BPE_MERGES" merge), dropout $DROPOUT, $(counted "$UPDATES" update) of" \
        "$(counted "$BATCH_SIZE" pair)"
    for side in SOURCE TARGET; do
        count_tokens "$side"
    done
    say_needs --work "$WORK" --pairs "$TRAIN_PAIRS" --test-pairs "$TEST_PAIRS" \
        --tokens "${tokens[@]}" --types "${types[@]}" \
        --sizes "$EMBEDDING" "$HIDDEN" "$ATTENTION" "$MAXOUT" --updates "$updates" \
        --batch-size "$BATCH_SIZE" --beam "$BEAM" --checkpoints $((AVERAGE + 2))
}

# count_tokens SOURCE|TARGET: adds to tokens how many there will be about, and to types how many
# different ones.
count_tokens() {
    local words=$1_WORDS characters=$1_CHARACTERS distinct=$1_DISTINCT
    if by_characters "${!1}"; then
        tokens+=("${!characters}") types+=("${!distinct}")
        return
    fi
    tokens+=($((${!words} * 6 / 5))) # a word is 1.2 subwords in Multi30k
    # and two languages have two thirds of the merges that they share each.
    types+=($((BPE_MERGES * (3 - BPE_JOINT) / 3)))
}

# 1. text

tokenise() {
    local -a lowercase=()
    [[ $LOWERCASE = 0 ]] || lowercase=(--lowercase)
    python -P -m fairseq_rnnsearch.inference.tokenizing --out "$PARTIAL" ${lowercase[@]+"${lowercase[@]}"} \
        --tokenizer-of "$SOURCE=$(tokenizer_of "$SOURCE")" \
        --tokenizer-of "$TARGET=$(tokenizer_of "$TARGET")" \
        "$WORK"/corpus/{train,valid,test}.{"$SOURCE","$TARGET"}
}

# learn_codes LANGUAGE...: prints the merges of their training text.
learn_codes() {
    cat -- "${@/#/$WORK/tokens/train.}" |
        subword-nmt learn-bpe --symbols "$BPE_MERGES" 2>"$WORK/logs/learn-bpe.log"
}

# segment LANGUAGE OPTION...: splits the words of its text into subwords, where it has codes.
# (The command subword-nmt would forget --seed.)
segment() {
    if has_codes "$1"; then
        python -P -m subword_nmt.apply_bpe --codes "$PARTIAL/codes.$1" "${@:2}"
    else
        cat
    fi
}

make_subwords() {
    local split language copy
    local -a with_codes=()
    mkdir -- "$PARTIAL"
    for language in "${LANGUAGES[@]}"; do
        ! has_codes "$language" || with_codes+=("$language")
    done
    for language in "${LANGUAGES[@]}"; do
        if ! has_codes "$language"; then
            :
        elif [[ $BPE_JOINT = 0 ]]; then
            learn_codes "$language" >"$PARTIAL/codes.$language"
        elif [[ $language = "${with_codes[0]}" ]]; then
            learn_codes "${with_codes[@]}" >"$PARTIAL/codes.$language"
        else
            cp -- "$PARTIAL/codes.${with_codes[0]}" "$PARTIAL/codes.$language"
        fi
        for split in train valid test; do
            segment "$language" <"$WORK/tokens/$split.$language" >"$PARTIAL/$split.$language"
        done
        [[ $BPE_DROPOUT != 0 ]] || continue
        mv -- "$PARTIAL/train.$language" "$PARTIAL/train-0.$language" # no merge is left out
        for ((copy = 1; copy <= BPE_COPIES; copy++)); do
            segment "$language" --dropout "$BPE_DROPOUT" --seed "$copy" \
                <"$WORK/tokens/train.$language" >"$PARTIAL/train-$copy.$language"
        done
        cat -- "$PARTIAL"/train-*."$language" >"$PARTIAL/train.$language"
    done
}

# binarise_copies OPTION...: puts each copy of the training text into a folder of its own, the first
# one, with what the options say, into the place of all. The dictionaries keep the pieces of all.
binarise_copies() {
    local data=$PARTIAL copy PARTIAL=$PARTIAL
    local -a options known=(--srcdict "$data/dict.$SOURCE.txt" --tgtdict "$data/dict.$TARGET.txt")
    preprocess dictionaries "$SOURCE" "$TARGET" --dict-only --trainpref "$TEXT/train"
    for ((copy = 0; copy <= BPE_COPIES; copy++)); do
        options=(--trainpref "$TEXT/train-$copy") PARTIAL=$data/copy-$copy
        ((copy != 1)) || options+=("$@") PARTIAL=$data
        preprocess "preprocess-$copy" "$SOURCE" "$TARGET" --workers 2 "${known[@]}" "${options[@]}"
    done
}

binarise() {
    local language
    local -a held_out=(--validpref "$TEXT/valid" --testpref "$TEXT/test") thresholds=() sides=()
    [[ $VOCABULARY = bpe ]] || thresholds=(--thresholdsrc "$MIN_COUNT" --thresholdtgt "$MIN_COUNT")
    if [[ $BPE_DROPOUT = 0 ]]; then
        preprocess preprocess "$SOURCE" "$TARGET" --workers 2 "${held_out[@]}" \
            ${thresholds[@]+"${thresholds[@]}"} --trainpref "$TEXT/train"
    else
        binarise_copies "${held_out[@]}"
    fi
    for language in "${LANGUAGES[@]}"; do
        if has_codes "$language"; then
            cp -- "$WORK/subwords/codes.$language" "$PARTIAL/"
            sides+=("$language:codes.$language")
        else
            sides+=("$language")
        fi
    done
    describe_preprocessing "${sides[@]}"
}

# keep_words: keeps those that the dictionary lacks too, because --replace-unk needs them.
keep_words() {
    preprocess "preprocess-$EVALUATE" "$SOURCE" "$TARGET" --dataset-impl raw \
        "--${EVALUATE}pref" "$TEXT/$EVALUATE" \
        --srcdict "$WORK/data/dict.$SOURCE.txt" --tgtdict "$WORK/data/dict.$TARGET.txt"
}

# 2. training

# set_folders: leaves in FOLDERS what fairseq-train reads, joined by colons: a folder for each epoch,
# and after the last one the first again.
set_folders() {
    local epoch copy pairs with_dropout=$BPE_DROPOUT_EPOCHS
    FOLDERS=$WORK/data
    [[ $BPE_DROPOUT != 0 ]] || return 0
    ((with_dropout > 0)) || with_dropout=$BPE_COPIES
    for ((epoch = 1; epoch < with_dropout; epoch++)); do
        copy=$((epoch % BPE_COPIES + 1))
        FOLDERS+=:$WORK/data
        ((copy == 1)) || FOLDERS+=/copy-$copy
    done
    ((BPE_DROPOUT_EPOCHS > 0)) || return 0
    pairs=$(paste -- "$TEXT/train-0.$SOURCE" "$TEXT/train-0.$TARGET" |
        awk -F '\t' -v longest="$LONGEST" 'longest == 0 { kept++; next }
            split($1, words, " ") <= longest && split($2, words, " ") <= longest { kept++ }
            END { print kept + 0 }')
    ((pairs > 0)) || die "LONGEST=$LONGEST leaves no pair to train on"
    for ((epoch = 0; epoch * pairs <= UPDATES * BATCH_SIZE; epoch++)); do
        FOLDERS+=:$WORK/data/copy-0
    done
}

# train OPTION...: runs fairseq-train with these options too.
train() {
    local -a further=()
    set_folders
    set_sizes
    set_optimization "$OPTIMIZER" "$LR_SCHEDULER" "$UPDATES"
    set_judgement "$([[ $VALID_BLEU = 1 ]] && echo bleu || echo nll_loss)"
    read -r -a further <<<"$TRAIN_OPTIONS" || true
    train_logged train fairseq-train "$FOLDERS" "${PLUGIN[@]}" \
        --arch "${MODEL}_50" "${SIZES[@]}" --decoder-order "$DECODER_ORDER" \
        --initialization "$INITIALIZATION" --dropout "$DROPOUT" \
        --max-train-words "$LONGEST" \
        --criterion alignment_heatmap --label-smoothing "$LABEL_SMOOTHING" \
        "${OPTIMIZATION[@]}" --clip-norm "$CLIP_NORM" \
        --batch-size "$BATCH_SIZE" --batch-order "$BATCH_ORDER" \
        --max-update "$UPDATES" --patience "$PATIENCE" --seed "$SEED" --num-workers 0 \
        --save-dir "$WORK/checkpoints" --no-epoch-checkpoints \
        --keep-best-checkpoints "$AVERAGE" "${JUDGEMENT[@]}" \
        --log-format simple --log-interval 50 ${further[@]+"${further[@]}"} "$@"
}

# train_model: trains in one go or, for R-Drop after BPE-dropout, in two.
train_model() {
    local -a regularisation=()
    if [[ $RDROP != 0 ]]; then
        regularisation=(--rdrop-alpha "$RDROP")
        ((BPE_DROPOUT_EPOCHS == 0)) ||
            resume_step "train with BPE-dropout" train --max-epoch "$BPE_DROPOUT_EPOCHS"
    fi
    resume_step "train" train ${regularisation[@]+"${regularisation[@]}"}
}

average() {
    python "$ROOT/recipes/average.py" --out "$PARTIAL" "$WORK"/checkpoints/checkpoint.best_*.pt
}

# 3. translation

# check_ensemble: dies unless the models of ENSEMBLE know the same words.
check_ensemble() {
    local other language
    for other in ${OTHERS[@]+"${OTHERS[@]}"}; do
        for language in "${LANGUAGES[@]}"; do
            cmp -s -- {"$WORK","$other"}"/data/dict.$language.txt" ||
                die "ENSEMBLE=$ENSEMBLE: $other has another dictionary of $language than $WORK"
        done
    done
}

translate() {
    local -a data=("$WORK/data") words=() draw=()
    check_ensemble
    case $UNKNOWN in
        forbid) words=(--forbid-unk) ;;
        replace)
            data=("$WORK/$EVALUATE-words" --dataset-impl raw
                --source-lang "$SOURCE" --target-lang "$TARGET")
            words=(--replace-unk "")
            ;;
    esac
    [[ $VOCABULARY = shortlist ]] || words+=(--post-process subword_nmt)
    [[ $MODEL = rnnencdec ]] || draw=(--heatmap-dir "$PARTIAL/alignments"
        --heatmap-format html,png --heatmap-samples "$DRAWN")
    logged generate fairseq-generate "${data[@]}" "${PLUGIN[@]}" --path "$MODELS" \
        --gen-subset "$EVALUATE" --batch-size 40 --results-path "$PARTIAL" \
        --beam "$BEAM" --lenpen "$LENGTH_PENALTY" \
        ${words[@]+"${words[@]}"} ${draw[@]+"${draw[@]}"}
    translations "$PARTIAL/generate-$EVALUATE.txt" >"$PARTIAL/tokens.$TARGET"
    same_length "$PARTIAL/tokens.$TARGET" "$WORK/tokens/$EVALUATE.$TARGET"
    python -P -m fairseq_rnnsearch.inference.tokenizing --join --language "$TARGET" \
        --tokenizer "$(tokenizer_of "$TARGET")" <"$PARTIAL/tokens.$TARGET" >"$PARTIAL/text.$TARGET"
}

# show_translations: prints the first three with their sources and references.
show_translations() {
    local corpus=$WORK/corpus/$EVALUATE
    paste -- "$corpus.$SOURCE" "$TRANSLATIONS/text.$TARGET" "$corpus.$TARGET" |
        awk -F '\t' 'NR <= 3 {
            printf "\nsource       %s\ntranslation  %s\nreference    %s\n", $1, $2, $3 }'
}

# score FILE OPTION...: prints scores of a file of translations with their signatures.
score() { sacrebleu "${@:2}" --input "$TRANSLATIONS/$1" --format text | sed 's/^ */  /'; }

report() {
    local alignments=$TRANSLATIONS/alignments picture
    show_translations
    echo
    echo "$MODEL, $SOURCE to $TARGET, in $TRANSLATIONS:"
    if ! by_characters "$TARGET"; then
        echo "lower-cased, tokenised:"
        score "tokens.$TARGET" "$WORK/tokens/$EVALUATE.$TARGET" --tokenize none --lowercase --force
    fi
    if [[ $LOWERCASE = 0 ]]; then
        echo "cased, detokenised:"
    else
        echo "detokenised, against a cased reference (LOWERCASE=1):"
    fi
    score "text.$TARGET" "$WORK/corpus/$EVALUATE.$TARGET" --metrics bleu chrf \
        --tokenize "$BLEU_TOKENIZER"
    if [[ $MODEL != rnnencdec ]]; then
        echo "alignments: $alignments/index.html"
        for picture in "$alignments"/*.png; do
            [[ ! -e $picture ]] || echo "  and as pictures, such as $picture"
            break
        done
        grep -o -m 1 'no installed font can draw.*' "$WORK/logs/generate.log" || true
        picture=$WORK/checkpoints/heatmaps/emerging.gif
        [[ ! -e $picture ]] || echo "  how they emerged in training: $picture"
    fi
    echo "to translate more:"
    echo " $(printf ' %q' "$(command -v python)" -m fairseq_rnnsearch.inference.translate "$WORK")"
}

# make_page SPLIT OPTION...: makes a page that translates, with examples of a part of the corpus.
make_page() {
    run_step "write a page that translates ($CHECKPOINT)" "$WORK/living-$CHECKPOINT.html" \
        living_page "$TRAINED" "$WORK/corpus/$1.$SOURCE" "${@:2}"
    echo "a page that translates, for any browser: $WORK/living-$CHECKPOINT.html"
}

# prepare_text: makes data for fairseq of the corpus.
prepare_text() {
    run_step "tokenise it" "$WORK/tokens" tokenise
    if [[ $VOCABULARY = bpe ]]; then
        run_step "make subwords" "$WORK/subwords" make_subwords
    fi
    run_step "binarise it" "$WORK/data" binarise
}

run_stages() {
    prepare_text
    train_model
    if [[ $CHECKPOINT = average ]]; then
        run_step "average $AVERAGE checkpoints" "$AVERAGED" average
    fi
    if [[ $UNKNOWN = replace ]]; then
        run_step "keep the words of $EVALUATE" "$WORK/$EVALUATE-words" keep_words
    fi
    run_step "translate to ${TRANSLATIONS##*/}" "$TRANSLATIONS" translate
    report
}
