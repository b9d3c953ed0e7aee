"""--max-batch-memory: batches in parts, refused sentences, and what the estimates are worth."""

import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from commands import (
    LAST_ONLY,
    MODEL,
    PAPER,
    ROOT,
    TASK,
    assert_equal_tensors,
    generate,
    interactive,
    parameters_and_optimizer,
    preprocess,
    run,
    together,
    train,
    write_text,
)
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from models import EOS, PAD, batch_of, padded, previous, random_model, training_task

from fairseq_rnnsearch.criterions import AlignmentHeatmapCriterion
from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.kernels.interface import FIXED
from fairseq_rnnsearch.tasks import memory_limit
from fairseq_rnnsearch.tasks.memory_limit import MemoryLimit, memory_of, narrowed, rows_of

pytest_plugins = ["trained"]

CPU = torch.device("cpu")
OPTIMIZER = SimpleNamespace(backward=torch.Tensor.backward)  # what a task asks of one
SOURCES = [[4, 5, 6, 7, EOS], [8, 9, EOS], [5, EOS], [EOS]]
TARGETS = [[4, EOS], [5, 6, 7, 8, 9, EOS], [7, EOS], [4, 4, EOS]]


def sample(left=False):
    return batch_of(SOURCES, TARGETS, left) | {"id": torch.tensor([3, 17, 170, 0])}


# --- batches in parts -------------------------------------------------------------------------


@pytest.mark.parametrize("left", [False, True])
def test_rows_of_a_batch(left):
    part = rows_of(sample(left), slice(1, 3), PAD)
    assert (part["id"].tolist(), part["nsentences"], part["ntokens"]) == ([17, 170], 2, 8)
    assert part["net_input"]["src_tokens"].tolist() == padded(SOURCES, left)[1:3].tolist()
    assert part["net_input"]["src_lengths"].tolist() == [3, 2]
    narrow = narrowed(part, PAD)
    assert narrow["net_input"]["src_tokens"].tolist() == padded(SOURCES[1:3], left).tolist()
    assert narrow["target"].tolist() == padded(TARGETS[1:3]).tolist()
    assert narrow["net_input"]["prev_output_tokens"].tolist() == (
        padded(previous(TARGETS[1:3])).tolist()
    )
    assert narrow["id"].tolist() == [17, 170]


@pytest.mark.parametrize(
    ("limit", "expected"),
    [(44, [4]), (43, [3, 1]), (33, [3, 1]), (32, [2, 2]), (21, [1, 2, 1]), (10, [1, 1, 2])]
    + [(1, [1, 1, 1, 1])],
)
def test_parts_take_no_more_than_they_may(limit, expected):
    """Sizes of parts from the first row on, each padded to its own longest."""
    lengths = ([len(words) for words in side] for side in (SOURCES, TARGETS))
    parts = MemoryLimit(limit).parts(lambda b, x, y: b * (x + y) * 10**9, CPU, *lengths)
    assert [part.stop - part.start for part in parts] == expected
    assert [row for part in parts for row in range(4)[part]] == list(range(4))


def test_without_a_number_it_is_half_of_what_there_is(monkeypatch):
    assert MemoryLimit(0).bytes(CPU) == float("inf")
    assert MemoryLimit(1.5).bytes(CPU) == 1.5e9
    memory_of.cache_clear()
    monkeypatch.setattr(memory_limit, "_cgroup_limits", lambda: iter([6_000_000]))
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "3")
    assert MemoryLimit(None).bytes(CPU) == 1_000_000
    memory_of.cache_clear()
    monkeypatch.undo()
    total = int(re.search(r"MemTotal: *(\d+)", Path("/proc/meminfo").read_text())[1]) * 1024
    assert 0 < MemoryLimit(None).bytes(CPU) <= total / 2
    for wrong in (-1, float("nan")):
        with pytest.raises(UserError, match="--max-batch-memory"):
            MemoryLimit(wrong)


@pytest.fixture(params=["sum", "sentence", "word", "label_smoothed_cross_entropy"])
def training(request, tmp_path):
    """A function that makes a task with that limit, its model and its criterion."""

    def make(gigabytes):
        task = training_task(tmp_path, max_batch_memory=gigabytes)
        if request.param in ("sum", "sentence", "word"):
            criterion = AlignmentHeatmapCriterion(task, request.param, 0.1)
        else:
            criterion = LabelSmoothedCrossEntropyCriterion(task, False, 0.1)
        return task, random_model(), criterion

    return make


def test_in_parts_it_is_the_same(training):
    found = []
    for gigabytes in (0, 0.120008):  # of which 0.12 are there for any batch
        task, model, criterion = training(gigabytes)
        assert len(task._parts(sample(), model, criterion)) == (1 if gigabytes == 0 else 3)
        model.train()
        cost, size, logged = task.train_step(sample(), model, criterion, OPTIMIZER, 0)
        gradients = {name: p.grad for name, p in model.named_parameters()}
        model.eval()
        valid = task.valid_step(sample(), model, criterion)
        alignments = task._validation_alignments.take()
        found.append((cost, size, logged, gradients, valid, alignments))
    whole, parts = found
    assert parts[1] == whole[1] and parts[4][1] == whole[4][1]
    for i in (0, 2, 3):
        torch.testing.assert_close(parts[i], whole[i])
    torch.testing.assert_close(parts[4][2], whole[4][2])
    for one, other in zip(parts[5], whole[5], strict=True):
        assert (one.source, one.target, one.id) == (other.source, other.target, other.id)
        assert abs(one.weights - other.weights).max() < 1e-7


# --- the commands -----------------------------------------------------------------------------

OPTIONS = f"{MODEL} {PAPER} {LAST_ONLY} --max-epoch 2 --seed 2 --max-train-words 0"
SMALL = 0.1202  # GB: ten short sentences


@pytest.fixture(scope="module")
def long_pair(barely_trained, tmp_path_factory):
    """A corpus with one pair of 1,000 words a side, the third, in another's dictionaries."""
    text = write_text(tmp_path_factory.mktemp("long") / "text", train=39, valid=5, test=5)
    for name, word in (("train.en", "house"), ("train.fr", "maison"), ("test.en", "red")):
        lines = (text / name).read_text().splitlines()
        lines.insert(2, " ".join([word] * 1000))
        (text / name).write_text("\n".join(lines) + "\n")
    (text / "test.fr").write_text("maison\n" * 6)
    words = barely_trained.corpus.data
    dictionaries = f"--srcdict={words}/dict.en.txt", f"--tgtdict={words}/dict.fr.txt"
    preprocess(text, text / "data", *dictionaries).ok()
    return text / "data"


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_training_in_parts(launchpad, long_pair, tmp_path, processes):
    for name, limit in (("whole", 0), ("parts", 0.2)):
        ended = launchpad.train_together(
            processes,
            long_pair,
            f"{OPTIONS} --max-epoch 1 --save-dir={tmp_path / name} --max-batch-memory {limit}",
        )
        logs = [process.ok().out for process in ended]
        said = "the longest of 1,001 source and 1,001 target" in logs[0]
        assert processes == 2 or said == (name == "parts")  # only the first process has a log
    assert_equal_tensors(
        parameters_and_optimizer(tmp_path / "parts" / "checkpoint_last.pt"),
        parameters_and_optimizer(tmp_path / "whole" / "checkpoint_last.pt"),
        relative=1e-4,  # sums of 1,000 words round
        floor=1e-12,  # the energy's weights start from zero and are still there
    )


def test_what_alone_needs_too_much_is_refused_before_it_begins(barely_trained, long_pair, tmp_path):
    checkpoint = barely_trained.checkpoint
    limit = f"--max-batch-memory {SMALL}"
    refused = together(
        lambda: train(long_pair, tmp_path / "a", OPTIONS, limit),
        lambda: generate(long_pair, checkpoint, "--beam 2", limit),
        lambda: generate(long_pair, checkpoint, "--score-reference", limit),
        lambda: run(
            "fairseq-validate",
            long_pair,
            f"{TASK} --valid-subset test --cpu --batch-size 4 {limit}",
            f"--path={checkpoint}",
        ),
        lambda: interactive(
            barely_trained.corpus.data, checkpoint, limit, stdin="red\n" + "red " * 9000
        ),
    )
    names = ["sentence 2 of the 'train' data, counted from 0, has 1,001 source and up to 1,001"]
    names += ["sentence 2 of the 'test' data, counted from 0, has 1,001 source"] * 3
    names += ["sentence 1 has 9,001 source and up to 201 target"]
    for finished, name in zip(refused, names, strict=True):
        message = finished.error()
        assert message.startswith(name) and "--max-batch-memory allows 0.12 GB" in message, message
    assert not list(tmp_path.rglob("*.pt")) and not refused[1].hypotheses()
    left_out = train(long_pair, tmp_path / "b", OPTIONS, limit, "--max-train-words 50").ok()
    assert "39 of 40 training pairs have at most 50 words" in left_out.out


def test_translating_in_parts(barely_trained):
    data, checkpoint = barely_trained.corpus.data, barely_trained.checkpoint
    options = "--beam 3 --max-len-b 20 --batch-size 13 --print-alignment soft"
    whole, parts, typed, typed_in_parts = together(
        lambda: generate(data, checkpoint, options),
        lambda: generate(data, checkpoint, options, "--max-batch-memory 0.12003"),
        *(
            lambda limit=limit: interactive(
                data,
                checkpoint,
                f"--beam 3 --buffer-size 4 --batch-size 4 --print-alignment hard {limit}",
                stdin="red house\ncalm bird tree\nlamp\nvast boat key\n",
            )
            for limit in ("", "--max-batch-memory 0.12003")
        ),
    )
    for one, other in ((whole, parts), (typed, typed_in_parts)):
        for kind in "HA":
            assert other.ok().lines(kind) == one.ok().lines(kind) != {}
    assert re.search(r"it is computed in \d+ parts", parts.out + parts.err)


# --- what the estimates are worth ---------------------------------------------------------------

PEAK = """
import json, sys
import torch
from models import build_model

from fairseq_rnnsearch.criterions.alignment_heatmap import attention_statistics
from fairseq_rnnsearch.criterions.rdrop import rdrop_cost, twice

torch.set_num_threads(1)
kind, (sentences, source, target), sizes = json.loads(sys.argv[1])
model = build_model(2000, 2000, kernels="reference" if kind == "reference" else "fast", **sizes)


def status(name):
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


def run(sentences, source, target):
    words = torch.randint(4, 2000, (sentences, source + target))
    x, y = words.split((source, target), 1)
    previous = torch.nn.functional.pad(y[:, :-1], (1, 0), value=2)
    lengths = torch.full((sentences,), source)
    if kind == "search":
        with torch.no_grad():
            return model.decoder.begin(model.encoder(x, lengths))
    if kind == "logits":
        logits, _ = model(x, lengths, previous)
        lprobs = torch.log_softmax(logits, dim=-1).flatten(0, 1)
        cost = torch.nn.functional.nll_loss(lprobs, y.flatten(), reduction="sum")
    elif kind == "rdrop":  # of which sentences make two
        x, y, lengths, previous = (part[::2] for part in (x, y, lengths, previous))
        logits, _ = model(twice(x), twice(lengths), twice(previous))
        cost, *_ = rdrop_cost(logits, y, y.ne(1), 0.1, 3.0)
    else:
        (cost, _), extra = model(x, lengths, previous, target=y)
        attention_statistics(extra["attn"][0].detach(), y.ne(1), x.eq(2))
    cost.backward()


run(2, 3, 3)  # gradients and libraries are there
before = status("VmRSS")
open("/proc/self/clear_refs", "w").write("5")
run(sentences, source, target)
all_logits = kind in ("logits", "rdrop")
estimate = model.search_memory(1) if kind == "search" else model.training_memory(all_logits)
print(json.dumps((status("VmHWM") - before, estimate(sentences, source, target))))
"""
SIZES = {"encoder_hidden_size": 256, "decoder_hidden_size": 256, "attention_size": 256}
CASES = {
    "fast, a batch": ("fast", (80, 50, 50), {}),
    "fast, a long pair": ("fast", (1, 2000, 2000), {}),
    "fast, foresight": ("fast", (80, 50, 50), {"target_foresight": True, "attention_size": 1024}),
    "fast, much attention": ("fast", (20, 150, 150), {"attention_size": 1024}),
    "reference, a batch": ("reference", (80, 30, 30), {}),
    "all logits": ("logits", (80, 5, 50), {}),
    "R-Drop": ("rdrop", (80, 50, 50), {}),
    "search": ("search", (1, 8000, 1), {}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_estimates_are_above_what_is_taken_and_not_far(name):
    kind, shape, sizes = CASES[name]
    ran = subprocess.run(
        [sys.executable, "-c", PEAK, json.dumps((kind, shape, SIZES | sizes))],
        capture_output=True,
        text=True,
        cwd=ROOT / "tests",
        check=True,
    )
    taken, estimate = json.loads(ran.stdout.splitlines()[-1])
    assert 0.9 * taken < estimate < 1.5 * taken + FIXED
