#!/usr/bin/env bash
# What each part of the paper is worth: trains RNNsearch with one ingredient changed at a time, on
# Multi30k or on long sentences, and compares the BLEU of several seeds.
#
#     bash recipes/ablations/run.sh
#     CORPUS=long LONG_DIR=FOLDER bash recipes/ablations/run.sh
#
# README.md in this folder lists the arms. With the first seed, each arm is trained with each of
# LEARNING_RATES; the rate with the better BLEU on the validation set serves all its seeds. Rerun it to
# resume, or to add arms, seeds and rates. Once the text is prepared, several runs can share a WORK, with
# different ARMS. Any setting listed by `rnnsearch-train --help` can be an environment variable and
# applies to all arms, except those that define an arm.

HERE=$(CDPATH= cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)

set -a # rnnsearch-train reads them
: "${CORPUS:=multi30k}" # or long: the longest third of the pairs in LONG_DIR
: "${LONG_DIR:=}"       # a folder with {train,val,test}.{en,fr}.gz
: "${MULTI30K_DIR:=}"   # a folder with Multi30k, which saves the download
: "${ARMS:=}"           # default: all, or with CORPUS=long the main ones
: "${SEEDS:=1 2 3}"
: "${LEARNING_RATES:=0.003 0.006}"
# At half the Multi30k recipe's sizes, attention starts to align within a quarter of an hour; at full
# size it does not.
: "${EMBEDDING:=128}" "${HIDDEN:=128}" "${ATTENTION:=128}" "${MAXOUT:=128}"
: "${TOKENIZER:=moses}" "${BPE_MERGES:=4000}" "${UPDATES:=3600}"
[[ $CORPUS = multi30k ]] || : "${LONGEST:=100}" # subwords: 50 would leave out two thirds
: "${KNOWN_RUNS:=}" # a record like WORK/runs.tsv; its runs, made with these settings, are not repeated
: "${TRAIN_OPTIONS:=}"
set +a

source "$HERE/../steps.sh"

SOURCE=en TARGET=fr

MAIN_ARMS=(program appendix section3 rnnencdec)
ALL_ARMS=("${MAIN_ARMS[@]}" forward_encoder general additive_halved dot_halved lstm tanh_readout
    start_from_mean start_from_zero uniform_start reset_after)

only_help "$@"

# options_of ARM: sets ARM_OPTIONS to what defines it, and OPTIONS to fairseq-train's other options.
options_of() {
    ARM_OPTIONS=(--model rnnsearch --decoder-order program --initialization appendix) OPTIONS=()
    local -a halved=(--encoder-hidden-size $((HIDDEN / 2)))
    case $1 in
        program | appendix | section3) ARM_OPTIONS+=(--decoder-order "$1") ;;
        rnnencdec) ARM_OPTIONS+=(--model rnnencdec) ;;
        additive_halved) OPTIONS=("${halved[@]}") ;;
        dot_halved) OPTIONS=("${halved[@]}" --arch dot) ;;
        lstm) OPTIONS=(--arch long_short_term_memory) ;; # fairseq has a model named lstm
        uniform_start) ARM_OPTIONS+=(--initialization uniform) ;;
        *) OPTIONS=(--arch "$1") ;;
    esac
}

check_ablations() {
    local name
    for name in SEED LEARNING_RATE MODEL DECODER_ORDER INITIALIZATION EVALUATE; do
        [[ -z ${!name:-} ]] ||
            die "$name=${!name}: would be ignored; set ARMS, SEEDS and LEARNING_RATES instead"
    done
    one_of CORPUS multi30k long
    [[ $CORPUS = multi30k || -n $LONG_DIR ]] || die "CORPUS=long needs LONG_DIR"
    [[ $CORPUS = multi30k ]] || : "${ARMS:=${MAIN_ARMS[*]}}"
    : "${ARMS:=${ALL_ARMS[*]}}"
    CHOSEN=($ARMS) ALL_SEEDS=($SEEDS) RATES=($LEARNING_RATES)
}

lay_out_corpus() {
    if [[ $CORPUS = long ]]; then
        python "$HERE/longest_third.py" --out "$PARTIAL" --folder "$LONG_DIR"
    else
        python "$ROOT/recipes/multi30k/corpus.py" --out "$PARTIAL" \
            ${MULTI30K_DIR:+--folder "$MULTI30K_DIR"}
    fi
}

# run_arm ARM RATE SEED: trains one model, translates both sets with it, and records its scores. It works
# in its own folder below $ALL, which has the text for all.
run_arm() {
    local arm=$1 part
    log "arm $arm, learning rate $2, seed $3"
    if grep -qs "^$arm"$'\t'"$2"$'\t'"$3"$'\t' -- "$RECORD"; then
        log "already recorded"
        return
    fi
    WORK=$ALL/arms/$arm/rate-$2/seed-$3
    mkdir -p -- "$WORK"
    for part in corpus tokens subwords data; do
        ln -sfn -- "$ALL/$part" "$WORK/$part"
    done
    cp -R -- "$ALL/.done" "$WORK"
    options_of "$arm"
    for part in valid test; do
        train_translator "${ARM_OPTIONS[@]}" --learning-rate "$2" --seed "$3" --evaluate "$part" \
            --train-options="$TRAIN_OPTIONS ${OPTIONS[*]}" --user-dir "$HERE/arms" \
            --stop-after translation
    done
    record add --arm "$arm" --rate "$2" --seed "$3" --run "$WORK" --references "$ALL/tokens"
    WORK=$ALL
}

# record COMMAND ARGUMENT...: see runs.py.
record() { python "$HERE/runs.py" "$1" "$RECORD" --updates "$UPDATES" "${@:2}"; }

compare() { python "$HERE/table.py" "$RECORD" "$@"; }

main() {
    local arm rate seed best
    check_ablations
    begin_work "$ROOT/runs/ablations-$CORPUS" CORPUS LONG_DIR MULTI30K_DIR
    ALL=$WORK RECORD=$WORK/runs.tsv
    if [[ -n $KNOWN_RUNS ]]; then record merge "$KNOWN_RUNS"; fi
    run_step "lay out the corpus" "$WORK/corpus" lay_out_corpus
    train_translator --stop-after text
    for seed in "${ALL_SEEDS[@]}"; do
        for arm in "${CHOSEN[@]}"; do
            if [[ $seed = "${ALL_SEEDS[0]}" ]]; then
                for rate in "${RATES[@]}"; do run_arm "$arm" "$rate" "$seed"; done
            else
                best=$(compare --arms "$arm" --best-rate --seeds "${ALL_SEEDS[0]}")
                run_arm "$arm" "$best" "$seed"
            fi
        done
    done
    compare --arms "${CHOSEN[@]}" --seeds "${ALL_SEEDS[@]}" --out "$WORK/ablations"
}

main
exit
