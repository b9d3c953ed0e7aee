#!/usr/bin/env bash
# Trains RNNsearch in both directions, force-aligns the 447 Hansards sentence pairs of the NAACL 2003
# task, and prints precision, recall and alignment error rate of each direction and of both joined. With
# eflomal its rows are added, and its links of VALID may choose settings before the human links are read.
#
#     HANSARDS_DIR=... TRAIN="..." VALID=... bash recipes/hansards/run.sh
#
# recipes/hansards/settings.sh lists all settings. Rerun it to resume an interrupted run.

HERE=$(CDPATH= cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
source "$HERE/settings.sh"
source "$HERE/../steps.sh"

only_help "$@"

lay_out_corpus() {
    local -a with_test=()
    list_of TRAIN
    [[ $WITH_TEST = 0 ]] || with_test=(--with-test)
    python "$HERE/corpus.py" --out "$PARTIAL" --train "${WORDS[@]}" --valid "$VALID" \
        --pairs "$HANSARDS_DIR/enfr.src-tgt" --longest "$LONGEST" \
        ${with_test[@]+"${with_test[@]}"}
}

make_subwords() {
    local split language
    mkdir -- "$PARTIAL"
    cat -- "$WORK/corpus/train.en" "$WORK/corpus/train.fr" |
        subword-nmt learn-bpe --symbols "$BPE_MERGES" >"$PARTIAL/codes"
    for split in train valid; do
        for language in en fr; do
            subword-nmt apply-bpe --codes "$PARTIAL/codes" \
                <"$WORK/corpus/$split.$language" >"$PARTIAL/$split.$language"
        done
    done
}

# binarise SUBWORDS OPTION...: makes data of the training text in a folder, and of VALID
binarise() {
    preprocess "${PARTIAL##*/}" en fr --trainpref "$1/train" \
        --validpref "$WORK/subwords/valid" --workers 2 "${@:2}"
    cp -- "$WORK/subwords/codes" "$PARTIAL/codes"
    TOKENIZER=space LOWERCASE=1 describe_preprocessing en:codes fr:codes
}

# align_text SOURCE-TARGET MODEL TEXT FORMATS OPTION...: force-aligns sentences
align_text() {
    python -P -m fairseq_rnnsearch.commands.align "$WORK/checkpoints-$2/checkpoint_best.pt" \
        --user-dir "$HERE/foresight" --data "$WORK/data" \
        --source "$3.${1%-*}" --target "$3.${1#*-}" \
        --out "$PARTIAL" --heatmap-format "$4" --device "$DEVICE" "${@:5}"
}

# align SOURCE-TARGET SPLIT: aligns the test or the validation sentences
align() {
    local -a further=()
    [[ $POSTERIOR != 0 ]] || further+=(--attention)
    align_text "$1" "$1$FORESEES" "$WORK/corpus/$2" pharaoh,jsonl,html \
        --heatmap-source-end "$SOURCE_END" ${further[@]+"${further[@]}"}
}

# find_eflomal: puts eflomal on PATH; fails if there is none.
find_eflomal() {
    [[ -z $EFLOMAL ]] || PATH=$PATH:$EFLOMAL # last: a Python of its own lies there too
    command -v eflomal-align eflomal-makepriors >/dev/null ||
        { log "eflomal is not on PATH: its rows are omitted; EFLOMAL can name its folder" && return 1; }
}

# eflomal_align SPLIT OPTION...: aligns sentences in both directions, and joins their links.
eflomal_align() {
    mkdir -- "$PARTIAL"
    logged "eflomal-$1" eflomal-align -s "$WORK/corpus/$1.en" -t "$WORK/corpus/$1.fr" \
        -f "$PARTIAL/en-fr.pharaoh" -r "$PARTIAL/fr-en.pharaoh" "${@:2}"
    python -P -m fairseq_rnnsearch.commands.evaluate symmetrise --method grow-diag-final-and \
        --forward "$PARTIAL/en-fr.pharaoh" --inverse "$PARTIAL/fr-en.pharaoh" >"$PARTIAL/joined"
}

# eflomal_train: aligns the training text, and keeps the estimates as priors.
eflomal_train() {
    eflomal_align train
    logged eflomal-priors eflomal-makepriors -p "$PARTIAL/priors" \
        -s "$WORK/corpus/train.en" -t "$WORK/corpus/train.fr" \
        -f "$PARTIAL/en-fr.pharaoh" -r "$PARTIAL/fr-en.pharaoh"
}

# turn_links: makes $PARTIAL/fr-en from the links $PARTIAL/en-fr
turn_links() { sed -E 's/([0-9]+)-([0-9]+)/\2-\1/g' "$PARTIAL/en-fr" >"$PARTIAL/fr-en"; }

# make_guidance: makes the links that attention is trained to follow, for each direction.
make_guidance() {
    local links=$GUIDED
    [[ $GUIDED != 1 ]] || links=$WORK/eflomal-train/joined
    mkdir -- "$PARTIAL"
    same_length "$links" "$WORK/corpus/train.en" # a user's file keeps its name
    cp -- "$links" "$PARTIAL/en-fr"
    turn_links
}

# choose_own_text: selects pairs that the models align: the first ones, as training text is shuffled.
choose_own_text() {
    local language
    mkdir -- "$PARTIAL"
    for language in en fr; do
        head -n "$OWN_PAIRS" -- "$WORK/corpus/train.$language" >"$PARTIAL/text.$language"
        [[ $WITH_TEST = 0 ]] || cat -- "$WORK/corpus/test.$language" >>"$PARTIAL/text.$language"
        subword-nmt apply-bpe --codes "$WORK/subwords/codes" \
            <"$PARTIAL/text.$language" >"$PARTIAL/train.$language"
    done
}

# join_own_links: links where the product of both directions' posterior weights agrees
join_own_links() {
    mkdir -- "$PARTIAL"
    python -P -m fairseq_rnnsearch.commands.evaluate symmetrise --agreement product \
        --method intersection --forward "$WORK/own-weights-en-fr/alignments.jsonl" \
        --inverse "$WORK/own-weights-fr-en/alignments.jsonl" >"$PARTIAL/en-fr"
    same_length "$PARTIAL/en-fr" "$WORK/own-text/text.en"
    turn_links
}

# need_both STEP: dies unless the step is done in both directions
need_both() {
    local direction
    for direction in en-fr fr-en; do
        [[ -e "$WORK/.done/$1 $direction" ]] ||
            die "$1 $direction as well (DIRECTIONS), then run again"
    done
}

find_own_links() {
    local direction
    run_step "choose text to align" "$WORK/own-text" choose_own_text
    for direction in $DIRECTIONS; do
        run_step "align training text $direction" "$WORK/own-weights-$direction" \
            align_text "$direction" "$direction" "$WORK/own-text/text" jsonl
    done
    need_both "align training text"
    run_step "join its links" "$WORK/own-links" join_own_links
    run_step "binarise that text" "$WORK/own-data" binarise "$WORK/own-text" \
        --srcdict "$WORK/data/dict.en.txt" --tgtdict "$WORK/data/dict.fr.txt"
}

# follow LINKS WEIGHT: sets GUIDANCE to the options for following a file of links, if any.
follow() {
    GUIDANCE=()
    [[ ! -e $1 || $2 =~ ^0*\.?0*$ ]] ||
        GUIDANCE=(--guided-alignment "$1" --guided-alignment-weight "$2")
}

# train SOURCE-TARGET: trains one direction
train() {
    follow "$WORK/guidance/$1" "$GUIDED_WEIGHT"
    train_direction "$1" "$UPDATES" "$1" data ${GUIDANCE[@]+"${GUIDANCE[@]}"}
}

# train_foresight SOURCE-TARGET DATA LINKS: trains on, with attention that reads the word to be aligned.
# Without links to follow, only the alignment model learns: attention would tell the decoder the word.
train_foresight() {
    local arch=foresight
    follow "$WORK/$3/$1" "$FORESIGHT_GUIDED_WEIGHT"
    [[ -n ${GUIDANCE[*]-} ]] || arch=foresight_alone
    train_direction "$1" "$FORESIGHT_UPDATES" "$1$FORESEES" "$2" \
        --user-dir "$HERE/foresight" --arch "$arch" ${GUIDANCE[@]+"${GUIDANCE[@]}"} \
        --warmup-updates $((FORESIGHT_UPDATES / 10)) \
        --finetune-from-model "$WORK/checkpoints-$1/checkpoint_best.pt"
}

# train_direction SOURCE-TARGET UPDATES NAME DATA OPTION...: trains a model in checkpoints-NAME
train_direction() {
    list_of TRAIN_OPTIONS
    set_sizes
    set_optimization adam "$2"
    train_logged "train-$3" fairseq-train "$WORK/$4" "${PLUGIN[@]}" \
        --source-lang "${1%-*}" --target-lang "${1#*-}" \
        --arch rnnsearch_50 "${SIZES[@]}" --decoder-order "$DECODER_ORDER" --dropout "$DROPOUT" \
        --max-train-words 0 --criterion alignment_heatmap --label-smoothing "$LABEL_SMOOTHING" \
        "${OPTIMIZATION[@]}" --clip-norm "$CLIP_NORM" \
        --max-tokens "$BATCH_TOKENS" --batch-order fairseq \
        --max-update "$2" --seed "$SEED" --num-workers 0 \
        --save-dir "$WORK/checkpoints-$3" --no-epoch-checkpoints --save-interval-updates 500 \
        --keep-interval-updates 1 --best-checkpoint-metric nll_loss \
        --log-format simple --log-interval 50 ${WORDS[@]+"${WORDS[@]}"} "${@:5}"
}

# score GOLD COMMENT OPTION...: prints precision, recall and alignment error rate in a line
score() {
    local gold=$1 comment=$2 file
    shift 2
    file="$WORK/logs/aer-$(basename -- "$gold")-${comment// /-}.log"
    python -P -m fairseq_rnnsearch.commands.evaluate aer --gold "$gold" "$@" \
        --bootstrap "$RESAMPLES" >"$file"
    awk -v comment="$comment" '
        BEGIN { printf "%-28s", comment }
        /^(precision|recall|AER)/ { printf " %s %s ", $1, $2 }
        /^95%/ { printf " 95%% interval of the AER %s to %s\n", $3, $5 }
    ' "$file"
}

# score_both GOLD COMMENT FORWARD INVERSE OPTION...: prints such a line for each way to join links
score_both() {
    local method
    for method in intersection union grow-diag grow-diag-final-and; do
        score "$1" "$2$method" --hypothesis "$3" --hypothesis-inverse "$4" \
            --symmetrise "$method" "${@:5}"
    done
}

# report_split GOLD FORWARD INVERSE: prints the lines of both directions, by folders of alignments
report_split() {
    local links=alignments.pharaoh weights=alignments.jsonl agreement
    score "$1" en-fr --hypothesis "$2/$links"
    score "$1" fr-en --hypothesis "$3/$links" --reverse hypothesis
    score_both "$1" "" "$2/$links" "$3/$links" --reverse inverse
    for agreement in product mean; do
        score_both "$1" "$agreement, " "$2/$weights" "$3/$weights" --agreement "$agreement"
    done
}

report() {
    local gold=$HANSARDS_DIR/enfr.gold eflomal=$WORK/eflomal-test
    if [[ $WITH_EFLOMAL = 1 ]]; then
        echo "against eflomal's links of VALID, joined by grow-diag-final-and:"
        report_split "$WORK/eflomal-valid/joined" "$WORK/valid$KIND"-{en-fr,fr-en}
    fi
    [[ $GOLD = 1 ]] || return 0
    echo "against the human links:"
    report_split "$gold" "$WORK/aligned$KIND"-{en-fr,fr-en}
    if [[ $WITH_EFLOMAL = 1 ]]; then
        score "$gold" "eflomal, en-fr" --hypothesis "$eflomal/en-fr.pharaoh"
        score "$gold" "eflomal, fr-en" --hypothesis "$eflomal/fr-en.pharaoh"
        score_both "$gold" "eflomal, " "$eflomal/en-fr.pharaoh" "$eflomal/fr-en.pharaoh"
    fi
    echo "alignments: $WORK/aligned$KIND-en-fr/index.html"
}

# align_all SPLIT NAME: aligns the sentences in both directions, to the folders NAME-*, and by
# eflomal, to eflomal-SPLIT
align_all() {
    local direction
    for direction in en-fr fr-en; do
        run_step "align $1$KIND $direction" "$WORK/$2$KIND-$direction" align "$direction" "$1"
    done
    if [[ $WITH_EFLOMAL = 1 ]]; then
        run_step "align $1 by eflomal" "$WORK/eflomal-$1" \
            eflomal_align "$1" -p "$WORK/eflomal-train/priors"
    fi
}

prepare_text() {
    run_step "lay out the corpus" "$WORK/corpus" lay_out_corpus
    if [[ $WITH_EFLOMAL = 1 ]]; then
        run_step "align the training text by eflomal" "$WORK/eflomal-train" eflomal_train
    fi
    if [[ $GUIDED != 0 ]]; then
        run_step "make the guidance" "$WORK/guidance" make_guidance
    fi
    run_step "make subwords" "$WORK/subwords" make_subwords
    run_step "binarise it" "$WORK/data" binarise "$WORK/subwords"
}

train_both() {
    local direction
    for direction in $DIRECTIONS; do
        resume_step "train $direction" train "$direction"
        if [[ $FORESIGHT = 1 ]]; then
            resume_step "train foresight $direction" train_foresight "$direction" data guidance
        fi
    done
    need_both train
    [[ $FORESIGHT = 0 ]] || need_both "train foresight"
    ((OWN_PAIRS > 0)) || return 0
    find_own_links
    for direction in $DIRECTIONS; do
        resume_step "follow its own links $direction" train_foresight "$direction" \
            own-data own-links
    done
    need_both "follow its own links"
}

main() {
    local WITH_EFLOMAL=0 FORESEES='' KIND name
    for name in FORESIGHT GOLD WITH_TEST POSTERIOR; do one_of "$name" 0 1; done
    [[ $OWN_PAIRS = 0 || $FORESIGHT$GUIDED = 00 ]] ||
        die "OWN_PAIRS=$OWN_PAIRS: requires FORESIGHT=0 GUIDED=0"
    [[ $GUIDED = [01] || $GUIDED = /* ]] || GUIDED=$PWD/$GUIDED
    [[ $FORESIGHT = 0 ]] || FORESEES=-foresight
    [[ $OWN_PAIRS = 0 ]] || FORESEES=-own
    KIND=$FORESEES$([[ $POSTERIOR = 0 ]] || echo -posterior)
    begin_work "$ROOT/runs/hansards" TRAIN VALID HANSARDS_DIR WITH_TEST LONGEST BPE_MERGES \
        EMBEDDING HIDDEN ATTENTION MAXOUT DECODER_ORDER DROPOUT LEARNING_RATE WARMUP CLIP_NORM \
        LABEL_SMOOTHING BATCH_TOKENS UPDATES SEED FORESIGHT_UPDATES GUIDED GUIDED_WEIGHT \
        FORESIGHT_GUIDED_WEIGHT TRAIN_OPTIONS
    find_eflomal && WITH_EFLOMAL=1
    [[ $GUIDED$WITH_EFLOMAL != 10 ]] ||
        die "GUIDED=1 needs eflomal's links: install eflomal, or set GUIDED to a file of links"
    [[ $GOLD$WITH_EFLOMAL != 00 ]] || die "GOLD=0 needs eflomal's links: install eflomal"
    prepare_text
    train_both
    if [[ $WITH_EFLOMAL = 1 ]]; then align_all valid valid; fi
    if [[ $GOLD = 1 ]]; then align_all test aligned; fi
    report
}

main
exit
