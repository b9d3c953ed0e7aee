#!/usr/bin/env bash
# Makes tests/frozen.tar.xz: what d09b774 wrote, which later versions must still read.
#
#     bash make_frozen.sh CHECKOUT_OF_D09B774 NEW_FOLDER     with its environment's programs on PATH
#
# training/   data, a checkpoint with optimizer state and EMA in the middle of an epoch ("begun"), and
#             the parameters, EMA and optimizer state that d09b774 reached from there ("ended.pt")
# folders/    one translator as a checkpoint and as a folder of each weight type, and what each
#             translates ("translations.json")
# own_data/   a folder of rnnsearch-train, stopped in its training, and its text
# quickstart/ a folder of recipes/quickstart.sh, stopped when its training began

set -euo pipefail
CHECKOUT=$1 OUT=$2
export PYTHONPATH=$CHECKOUT OMP_NUM_THREADS=1 VENV=none
mkdir -- "$OUT"
cd -- "$OUT"
COMMON=(--user-dir "$CHECKOUT/fairseq_rnnsearch" --task alignment_heatmap)
TRAIN=(--cpu --no-progress-bar --num-workers 0 --arch rnnsearch_tiny --criterion alignment_heatmap
    --no-epoch-checkpoints --heatmap-samples 0)
SIZES=(--encoder-embed-dim 16 --encoder-hidden-size 24 --decoder-embed-dim 16
    --decoder-hidden-size 24 --attention-size 24 --maxout-size 16)

# write_text FOLDER TRAIN VALID TEST: the language of tests/commands.py
write_text() {
    PYTHONPATH=$CHECKOUT/tests:$CHECKOUT python -c "
from pathlib import Path; import sys; from commands import write_text
folder, *sizes = sys.argv[1:]
write_text(Path(folder), **dict(zip(('train', 'valid', 'test'), map(int, sizes))))" "$@"
}

# binarise TEXT DATA
binarise() {
    fairseq-preprocess "${COMMON[@]}" -s en -t fr --trainpref "$1/train" --validpref "$1/valid" \
        --testpref "$1/test" --destdir "$2"
}

# stopped_at TEXT LOG COMMAND...: sends SIGTERM to a command's training once its log has a text
stopped_at() {
    local text=$1 log=$2 command
    setsid "${@:3}" >/dev/null 2>&1 &
    command=$!
    until grep -qs -- "$text" "$log"; do sleep 0.05; done
    kill -TERM -- "-$command"
    wait "$command" || true
}

mkdir training && (
    cd training
    write_text text 103 11 13
    binarise text data
    train() {
        fairseq-train data "${COMMON[@]}" "${TRAIN[@]}" "${SIZES[@]}" --dropout 0.1 --clip-norm 1 \
            --optimizer rnnsearch_adadelta --batch-size 20 --store-ema --ema-decay 0.9 "$@"
    }
    train --max-update 9 --save-dir begun
    cp -r begun more
    train --max-update 20 --save-dir more
    mv more/checkpoint_last.pt ended.pt
    rm -r more begun/checkpoint_best.pt text
    python -c "
import json
lines = open('/proc/cpuinfo').read().splitlines()
names = 'vendor_id', 'cpu family', 'model\t'
made = [next(x.split(':')[1].strip() for x in lines if x.startswith(name)) for name in names]
json.dump(made, open('processor.json', 'w'))"
)

mkdir folders && (
    cd folders
    write_text text 600 50 60
    binarise text data
    fairseq-train data "${COMMON[@]}" "${TRAIN[@]}" "${SIZES[@]}" --cost-scale sentence \
        --clip-norm 1 --optimizer adam --lr 0.02 --lr-scheduler polynomial_decay \
        --total-num-update 600 --batch-size 10 --max-epoch 10 --save-dir model
    mv model/checkpoint_last.pt checkpoint.pt
    for type in float32 float16 int8; do
        rnnsearch-export checkpoint.pt --data data --weights $type --out $type
    done
    python - <<'PY'
import json
from fairseq_rnnsearch import load

sentences = open("text/test.en").read().splitlines()[:3]
found = {}
for place in ("checkpoint.pt", "float32", "float16", "int8"):
    model = load(place, "data" if place.endswith(".pt") else None)
    made = [model.translate(sentence, beam=3) for sentence in sentences]
    found[place] = [
        {"source": s, "text": t.text, "score": t.score, "weights": t.weights.tolist()}
        for s, t in zip(sentences, made)
    ]
json.dump(found, open("translations.json", "w"), indent=1)
PY
    rm -r model text data/{train,valid,test}*
)

mkdir own_data && (
    cd own_data
    write_text text 640 20 20
    stopped_at 'end of epoch 2' work/logs/train.log \
        rnnsearch-train --source text/train.en --target text/train.fr --work work \
        --embedding 16 --hidden 24 --attention 24 --maxout 16 --dropout 0 --label-smoothing 0 \
        --learning-rate 0.01 --warmup 1 --batch-size 20 --vocabulary shortlist --min-count 1 \
        --updates 120 --beam 3 --drawn 2
    rm -r text/{valid,test}.* work/checkpoints/{heatmaps,checkpoint.best*}
)

mkdir quickstart && (
    WORK=$PWD/quickstart/work
    cd quickstart
    export WORK EPOCHS=6 TRAIN_SENTENCES=1500 TEST_SENTENCES=20 LEAST_BLEU=0
    stopped_at 'end of epoch 2' work/logs/train.log bash "$CHECKOUT/recipes/quickstart.sh"
    rm -r work/checkpoints # as after SIGKILL before the first was saved, and smaller by 20 MB
)
tar -cJf frozen.tar.xz training folders own_data quickstart
ls -l frozen.tar.xz
