"""What a user gives wrongly, in options, files or checkpoints, ends a command with one line."""

import copy
import json
import re
import subprocess

import pytest
import torch
from commands import LAST_ONLY, MODEL, PACKAGE, PAPER, QUIET, ROOT, TASK
from fairseq import checkpoint_utils

from fairseq_rnnsearch.devices import usable_device
from fairseq_rnnsearch.errors import UserError, line_of, reason
from fairseq_rnnsearch.inference import align
from fairseq_rnnsearch.runs import mends

pytest_plugins = ["trained"]


@pytest.fixture(autouse=True)
def mended():
    """What is replaced while a checkpoint is read, in commands and in `load`."""
    with mends.reading_as_data():
        yield


TRAIN = f"{MODEL} {PAPER} {LAST_ONLY} --max-update 1"

NO_DEVICES = ("xyz", "meta", "cuda:99", "", "CPU", "xla", None, 5)


@pytest.mark.parametrize("name", NO_DEVICES)
def test_devices_that_are_none(name):
    with pytest.raises(UserError) as caught:
        usable_device(name, "--device")
    assert str(caught.value).startswith(f"--device {str(name)!r}: must be one of cpu")


def test_devices_that_are_there():
    assert usable_device("cpu") == usable_device(torch.device("cpu")) == torch.device("cpu")
    if torch.accelerator.is_available():
        kind = torch.accelerator.current_accelerator().type
        assert usable_device(f"{kind}:0") == torch.device(kind, 0)


def test_align_looks_at_the_device_before_it_reads(tmp_path):
    options = "--path=x.pt --source=x.en --target=x.fr --device=meta --heatmap-dir"
    with pytest.raises(UserError, match=r"^--device .meta.: must be one of cpu"):
        align.main(["data", *options.split(), str(tmp_path / "out")])


# --- the commands -------------------------------------------------------------------------------

UNUSABLE = {  # words for each command, and parts of its one line
    "fairseq-train @data --save-dir=@new --criterion alignment_heatmap --arch rnnsearch_tiny": [
        "Must specify batch size either with --max-tokens or --batch-size",
        "(fairseq_cli/train.py, line ",
    ],
    "fairseq-train @data --save-dir=@new @train --valid-subset nosuch": [
        "no subset 'nosuch' of en-fr data in ", "its subsets: test, train, valid"
    ],
    "fairseq-train @data --save-dir=@new @train --valid-subset valid,v": ["no subset 'v'"],
    "fairseq-train @data --save-dir=@new @train --train-subset /x": ["no subset '/x'"],
    "fairseq-train @data --save-dir=@new @train --dataset-impl raw": [
        "no subset 'valid' of en-fr data that --dataset-impl raw reads in ", "its subsets: none"
    ],
    "fairseq-train @data --save-dir=@new @train --source-lang de": [
        "--source-lang de: the data in ", "are en-fr; name both"
    ],
    "fairseq-train @data --save-dir=@new @train -s de -t fr": [
        "no dictionary dict.de.txt", "dict.en.txt and dict.fr.txt"
    ],
    "fairseq-train @data --save-dir=/proc/nosuch @train": [
        "--save-dir /proc/nosuch cannot be written: No such file or directory"
    ],
    "fairseq-train @data --save-dir=@new @train --seed -1": ["Seed must be between 0 and"],
    "fairseq-train @data --save-dir=@new @train --encoder-hidden-size 1000000": [
        "DefaultCPUAllocator: can't allocate memory: you tried to allocate "
    ],
    "fairseq-train @data --save-dir=@new @train --attention-size 999999999999999999999": [
        "--attention-size 999999999999999999999: must be a whole number from 1 to 1,000,000"
    ],
    "fairseq-train @data --save-dir=@new @train --save-async": ["needs the package iopath"],
    "fairseq-generate @data": ["--path required for generation!"],
    "fairseq-generate @data --path=@model --gen-subset tset": [
        "no subset 'tset'", "its subsets: test, train, valid"
    ],
    "fairseq-interactive @data --path=@model --batch-size 3": ["--batch-size"],
    "fairseq-validate @data --path=@model": ["Must specify batch size"],
    "fairseq-preprocess -s en -t fr --trainpref=@new --destdir=@new": [".en: no such file"],
    "fairseq_rnnsearch.groundhog import": ["the following arguments are required: --params, --out"],
}  # fmt: skip


def test_one_line_for_whatever_fairseq_asserts(launchpad, barely_trained, tmp_path):
    stands_for = {
        "@data": str(barely_trained.corpus.data),
        "@model": str(barely_trained.checkpoint),
        "@new": str(tmp_path / "new"),
        "@train": TRAIN,
    }
    for words, parts in UNUSABLE.items():
        command, *arguments = words.split(" ")
        if command.startswith("fairseq-"):
            arguments[:0] = [TASK] if command == "fairseq-preprocess" else [TASK, QUIET]
        for name, value in stands_for.items():
            arguments = [argument.replace(name, value) for argument in arguments]
        if command == "fairseq-interactive":
            arguments.remove(QUIET)
        message = launchpad.run(command, *arguments).error()
        assert all(part in message for part in parts), f"{words}: {message}"
        assert len(message) < 800, message
    assert not list(tmp_path.rglob("*.pt"))


COMPOSED = {
    "dataset.batch_size=0": "--batch-size 0: must be 1 or more",
    "optimization.lr=[nan]": "--lr nan: must be 0 or more",
    "+model.decoder_order=x": "expected one of [program, appendix, section3]",
    "+task.nosuch=4": "Key 'nosuch' not in 'AlignmentHeatmapConfig'",
    "+model.encoder_hidden_size=-1": "--encoder-hidden-size -1",
    "checkpoint.save_dir=/proc/nosuch": "/proc/nosuch cannot be written: No such file or",
    "criterion._name=nosuch": "KeyError: 'nosuch' (fairseq/registry.py, line",
}


def test_one_line_for_a_configuration(launchpad, small_corpus, tmp_path):
    config = {
        "common": {"user_dir": str(PACKAGE), "cpu": True},
        "task": {"_name": "alignment_heatmap", "data": str(small_corpus.data)},
        "model": {"_name": "rnnsearch_tiny"},
        "criterion": {"_name": "alignment_heatmap"},
        "optimizer": {"_name": "rnnsearch_adadelta"},
        "dataset": {"batch_size": 20, "num_workers": 0},
        "checkpoint": {"save_dir": str(tmp_path / "new")},
    }
    (tmp_path / "small.yaml").write_text(json.dumps(config))  # every JSON is YAML
    options = ["--config-name=small", f"--config-dir={tmp_path}", f"hydra.run.dir={tmp_path}/out"]
    for override, part in COMPOSED.items():
        # OC_CAUSE=1, like a debugger, makes omegaconf's exceptions their own causes
        message = launchpad.run("fairseq-hydra-train", *options, override, OC_CAUSE="1").error()
        assert part in message, f"{override}: {message}"


def test_a_traceback_where_it_is_asked_for(launchpad, small_corpus):
    finished = launchpad.run("fairseq-generate", small_corpus.data, TASK, RNNSEARCH_TRACEBACK="1")
    assert finished.rc == 1 and "Traceback (most recent call last)" in finished.err
    assert finished.err.endswith("AssertionError: --path required for generation!\n")


def test_steps_of_recipes_that_fail_or_are_interrupted(tmp_path):
    """Running again helps where something has interrupted the step."""
    (tmp_path / ".done").mkdir()
    steps = f'. {ROOT / "recipes" / "steps.sh"}; WORK={tmp_path}; f() {{ "$@"; }}; run_step s x f '
    said = {}
    for command in ("false", "bash -c 'kill -9 $$'", "true"):
        finished = subprocess.run(["bash", "-c", steps + command], capture_output=True, text=True)
        assert finished.returncode
        said[command] = finished.stderr.splitlines()[-1]
    assert said["false"].endswith('step "s" failed: mend what is said above')
    assert said["bash -c 'kill -9 $$'"].endswith('step "s" is unfinished; run again to go on')
    assert said["true"].endswith("error: s made nothing")


# --- checkpoints --------------------------------------------------------------------------------

NAN = float("nan")
# of a state: a field, what it is instead, and what the one line says
RESUMED = (
    ("last_optimizer_state.state.0.square_avg", torch.zeros(3, 5), "has the shape (3, 5)"),
    ("extra_state.train_iterator", [], "does not fit the model, the options or the data"),
)
TRANSLATED = {
    "cfg.model.compute_dtype": [("float8", "--compute-dtype float8: must be one of float32, tf")],
    "cfg.model.output_layer": [(None, "--output-layer None: must be one of single, factorised")],
    "cfg.model.decoder_order": [(7, "--decoder-order 7: must be one of program, appendix, sect")],
    "cfg.model.kernels": [("tpu", "--kernels tpu: must be one of auto, ")],
    "cfg.model.encoder_hidden_size": [
        (size, f"size {size}: must be a whole number from 1") for size in (0, None, True)
    ],
    "cfg.model.fixed_context": [(None, "--fixed-context None: must be true or false")],
    "cfg.model.dropout": [(NAN, "--dropout nan: must be at least 0 and below 1")],
    "cfg.task._name": [("x", "Could not infer task type")],
}


def with_field(state: dict, place: str, value: object) -> dict:
    state = copy.deepcopy(state)
    inner, (*parents, last) = state, place.split(".")
    for key in parents:
        key = int(key) if key.isdigit() else key
        if isinstance(inner[key], tuple):
            inner[key] = list(inner[key])
        inner = inner[key]
    inner[int(last) if last.isdigit() else last] = value
    return state


def test_a_state_that_no_training_can_go_on_from(launchpad, barely_trained, tmp_path):
    options = [f"{MODEL} {PAPER} {LAST_ONLY} --max-update 4", f"--save-dir={tmp_path / 'new'}"]
    state = torch.load(barely_trained.checkpoint, weights_only=True)
    path = tmp_path / "altered.pt"
    for place, value, said in RESUMED:
        torch.save(with_field(state, place, value), path)
        before = path.read_bytes()
        message = launchpad.train(
            barely_trained.corpus.data, *options, f"--restore-file={path}"
        ).error()
        assert message.startswith(f"checkpoint {path}"), message
        assert said in message, f"{place}: {message}"
        assert path.read_bytes() == before and not list(tmp_path.glob("new/**/*.pt"))
    torch.save(state, path)
    launchpad.train(barely_trained.corpus.data, *options, f"--restore-file={path}").ok()


def test_adams_state_of_other_shapes(launchpad, small_corpus, tmp_path):
    adam = f"{MODEL} --criterion alignment_heatmap --optimizer adam --lr 0.001 --batch-size 20"
    options = [adam, LAST_ONLY, f"--save-dir={tmp_path / 'new'}"]
    launchpad.train(small_corpus.data, *options, "--max-update 1").ok()
    path = tmp_path / "new" / "checkpoint_last.pt"
    state = torch.load(path, weights_only=True)
    for value, said in ((torch.zeros(2), "(2,)"), (torch.zeros(3, 4), "(3, 4)")):
        torch.save(with_field(state, "last_optimizer_state.state.0.exp_avg", value), path)
        before = path.read_bytes()
        message = launchpad.train(small_corpus.data, *options, "--max-update 2").error()
        assert f"exp_avg of the optimizer's parameter 0 has the shape {said}" in message
        assert path.read_bytes() == before
    torch.save(state, path)
    launchpad.train(small_corpus.data, *options, "--max-update 2").ok()


def test_a_configuration_that_no_model_can_have(barely_trained, tmp_path):
    state = torch.load(barely_trained.checkpoint, weights_only=True)
    path = tmp_path / "altered.pt"
    for place, values in TRANSLATED.items():
        for value, said in values:
            torch.save(with_field(state, place, value), path)
            with pytest.raises(UserError) as caught:
                checkpoint_utils.load_model_ensemble_and_task([str(path)])
            message = str(caught.value)
            assert str(path) in message and said in message, f"{place}: {message}"


# --- what an exception says -----------------------------------------------------------------------


def raised(error: BaseException) -> BaseException:
    """The exception, with where it was raised."""
    try:
        raise error
    except BaseException as problem:
        return problem


REASONS = {
    "KeyError: 'best'": KeyError("best"),
    "FileNotFoundError: /x/y": FileNotFoundError("/x/y"),
    "/x and /y: Not a directory": OSError(20, "Not a directory", "/x", None, "/y"),
    "AssertionError": AssertionError("  "),
    "RuntimeError: 0": RuntimeError("0"),
    "AttributeError: a.b": AttributeError("a.b"),
    "DefaultCPUAllocator: can't allocate": RuntimeError(
        "[enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate"
    ),
    "too large": TypeError("too large\nException raised from f at g.h:79\nframe #0: c10::Error"),
    "two lines": ValueError("two\n  lines\n"),
    "KeyError: 'x'": ValueError(
        "Caught KeyError.\nTraceback (most recent call last):\n  File...\nKeyError: 'x'\n"
    ),
}


@pytest.mark.parametrize("said", REASONS)
def test_reasons_are_sentences(said):
    assert reason(raised(REASONS[said])) == said


def test_the_mistake_of_another_process():
    text = (
        "\n-- Process 1 terminated with the following error:\nTraceback (most recent call last):"
        '\n  File "/x/fairseq_cli/train.py", line 5, in main\n    load()\n'
        "fairseq_rnnsearch.errors.UserError: no data folder 'x'\n"
    )
    assert line_of(raised(RuntimeError(text))) == "no data folder 'x'"


def test_every_exception_is_one_line_with_its_place():
    assert re.fullmatch(
        r"KeyError: 'x' \(tests/test_refusals\.py, line \d+; RNNSEARCH_TRACEBACK=1 shows .*\)",
        line_of(raised(KeyError("x"))),
    )
    assert line_of(raised(UserError("a\nb"))) == "a b"
    assert line_of(raised(KeyboardInterrupt())) == "interrupted"
