"""What a user gives wrongly, in options, files or checkpoints, ends a command with one line.

`COMMANDS`, `CALLS` and `OF_A_MODEL` are tables of what is given and what the line says. Nothing is
written by what is refused.
"""

import copy
import re
import shlex
import shutil
from argparse import Namespace

import numpy as np
import pytest
import torch
from commands import (
    LAST_ONLY,
    MODEL,
    PAPER,
    QUIET,
    ROOT,
    SIZES,
    TASK,
    generate,
    hydra_options,
    interactive,
    run_process,
    together,
    train,
    write_text,
)
from fairseq import checkpoint_utils
from fairseq.dataclass.configs import GenerationConfig
from models import build_model, training_task
from omegaconf import OmegaConf

from fairseq_rnnsearch import load
from fairseq_rnnsearch.align.links import read_links
from fairseq_rnnsearch.commands import align, export
from fairseq_rnnsearch.commands.evaluate import main as evaluate
from fairseq_rnnsearch.conformance.__main__ import main as conformance
from fairseq_rnnsearch.errors import UserError, as_text, line_of, reason
from fairseq_rnnsearch.figures import Alignment, parse_formats, save_heatmap
from fairseq_rnnsearch.files import replacing
from fairseq_rnnsearch.living.__main__ import main as living
from fairseq_rnnsearch.models import trained_models
from fairseq_rnnsearch.runs.options import check_options
from fairseq_rnnsearch.train.__main__ import main as training

pytest_plugins = ["trained"]
pytestmark = pytest.mark.usefixtures("patched")


TRAIN = f"{MODEL} {PAPER} {LAST_ONLY} --max-update 1"


# --- the commands -------------------------------------------------------------------------------

FILES = {
    "file": b"",
    "one": b"a\n",
    "two": b"b\nc\n",
    # links of three sentences, and what does not go with them
    "gold": b"1-1 2p1 2-2\n1-1\n\n",
    "fewer": b"0-0\n0-0\n",
    "links": b"\n\n\n",
    "later": b"4 1 1\n",
    "source.tok": b"a\n",
    "alignments.jsonl": b'{"id": 0, "source": ["a"], "target": ["b"], "weights": [[1]]}\n',
    "a.en": b"a\n",
    "b.fr": b"b\n",
}
_TEXT = "fairseq-preprocess -s en -t fr --destdir=@new --trainpref=@longer/train"
_TRAIN = "fairseq-train @data --save-dir=@new @train"
_GENERATE = "fairseq-generate @data --path=@model"
_LINKS_COST = "label_smoothed_cross_entropy_with_alignment"
_ALIGN = "rnnsearch-align x --data=data --out=@new"
_AER = "rnnsearch-evaluate aer --gold=@gold --hypothesis=@links"
_TRAIN_FILES = "rnnsearch-train --source=@here/a.en --target=@here/b.fr"

COMMANDS = {  # words of each command, and parts of its one line
    _TEXT: ["train.en has 30 lines", "train.fr has 31 lines"],
    "fairseq-train @uneven --save-dir=@new @train": ["same number"],
    "fairseq-train @nowhere --save-dir=@new @train": ["nowhere"],
    "fairseq-train @data --save-dir=@new --criterion alignment_heatmap --arch rnnsearch_tiny": [
        "Must specify batch size either with --max-tokens or --batch-size",
        "(fairseq_cli/train.py, line ",
    ],
    f"{_TRAIN} --source-lang de": ["--source-lang de: the data in ", "are en-fr; name both"],
    f"{_TRAIN} --seed -1": ["Seed must be between 0 and"],
    f"{_TRAIN} --encoder-hidden-size 1000000": [
        "DefaultCPUAllocator: can't allocate memory: you tried to allocate "
    ],
    f"{_TRAIN} --write-checkpoints-asynchronously": ["before training goes on; leave it out"],
    f"{_GENERATE} --retain-dropout": ["--retain-dropout: this model drops nothing out"],
    f"{_TRAIN} --sentence-avg": ["--sentence-avg: this criterion's own option is --cost-scale"],
    f"{_TRAIN} --train-subset valid": ["--train-subset valid is one of --valid-subset valid"],
    f"{_TRAIN} --curriculum 1": ["--curriculum 1: the paper's batch order has its own"],
    f"{_TRAIN} --load-alignments": ["--load-alignments: the 'train' data has no alignments"],
    f"{_GENERATE} --diverse-beam-groups 2": ["--diverse-beam-groups: fairseq's diverse search"],
    f"{_GENERATE} --diverse-beam-strength 2": ["--diverse-beam-strength: fairseq's diverse search"],
    f"{_GENERATE} --constraints": ["--constraints: binarised data has none; fairseq-interactive"],
    f"{_TRAIN} --max-tokens 100": ["--batch-size", "--max-tokens", "--batch-order fairseq"],
    "fairseq-generate @data": ["--path required for generation!"],
    "fairseq-generate @data --path=@nowhere": ["/nowhere"],
    "fairseq-generate @nowhere --path=@model": ["/nowhere"],
    f"{_GENERATE} --heatmap-dir=@file": ["File exists"],
    "fairseq-interactive @data --path=@model --batch-size 3": ["--batch-size"],
    f"{_GENERATE} --authors-search --min-len 2": ["--min-len 2: --authors-search takes its limits"],
    f"{_GENERATE} --authors-search --max-len-a 2": ["--max-len-a 2.0: --authors-search takes"],
    f"{_GENERATE} --authors-search --max-len-b 9": ["--max-len-b 9: --authors-search takes"],
    f"{_GENERATE} --authors-search --diversity-rate 1": ["--diversity-rate 1.0: --authors-search"],
    f"{_TRAIN} --memory-efficient-fp16": ["--memory-efficient-fp16: this model computes in"],
    f"{_TRAIN} --arch rnnencdec_30 --load-alignments --criterion {_LINKS_COST}": [
        "--load-alignments needs a model with attention; RNNencdec"
    ],
    "fairseq-validate @data --path=@model": ["Must specify batch size"],
    "fairseq-preprocess -s en -t fr --trainpref=@new --destdir=@new": [".en cannot be read: "],
    "fairseq_rnnsearch.groundhog import": ["the following arguments are required: --params, --out"],
    f"{_ALIGN}": ["required: --source, --target"],
    f"{_ALIGN} --source=@one --target=@one --batch-size 0": ["--batch-size: '0' must be"],
    f"{_ALIGN} --source=@one --target=@two": ["1 line"],
    f"{_ALIGN} --source=@one --target=@one --symmetrise union": [
        "--symmetrise union needs --inverse"
    ],
    "rnnsearch-align x --source=@here/source.tok --target=@two --out=@here": [
        "--source @here/source.tok would be overwritten by the results"
    ],
    f"{_AER} --hypothesis=@fewer": ["@fewer has 2 lines, but @gold has 3 sentences; expected"],
    f"{_AER} --hypothesis=@later": ["@later has links of sentence 4, but @gold has 3"],
    f"{_AER} --symmetrise union": ["belong together: give both or neither"],
    "rnnsearch-export en-fr --to-checkpoint=@two": ["@two: is there already; name a new file"],
    "rnnsearch-living en-fr --out=@two": ["@two would be overwritten"],
    f"{_TRAIN_FILES} --beam 0": ["--beam: '0' must be 1 or more"],
    "rnnsearch-check @two": ["@two: expected FILE.py:NAME or FILE.py"],
}  # fmt: skip
IN_PROCESS = {
    "rnnsearch-align": align.main,
    "rnnsearch-check": conformance,
    "rnnsearch-evaluate": evaluate,
    "rnnsearch-export": export.main,
    "rnnsearch-living": living,
    "rnnsearch-train": training,
}


@pytest.fixture
def places(small_corpus, barely_trained, launchpad, tmp_path):
    """What the words with @ stand for."""
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    longer = write_text(tmp_path / "longer", train=30, valid=5)
    with (longer / "train.fr").open("a") as file:
        file.write("maison\n")
    uneven = tmp_path / "uneven"  # which fairseq alone accepts
    prefixes = [f"--{split}pref={longer / split}" for split in ("train", "valid")]
    launchpad.run("fairseq-preprocess", "-s en -t fr", f"--destdir={uneven}", *prefixes).ok()
    sources = tmp_path / "sources"
    sources.mkdir()
    for pattern in ("dict.*", "test.en-fr.en.*"):
        for path in small_corpus.data.glob(pattern):
            shutil.copy(path, sources)
    return {
        "@data": str(small_corpus.data),
        "@model": str(barely_trained.checkpoint),
        "@train": TRAIN,
        "@here": str(tmp_path),
        **{f"@{name}": str(tmp_path / name) for name in (*FILES, "longer", "nowhere", "sources")},
        "@uneven": str(uneven),
    }


def test_commands(launchpad, places, tmp_path, capsys):
    numbers = {words: str(number) for number, words in enumerate(COMMANDS)}

    def filled(text, words):
        own = places | {"@new": f"{tmp_path}/new/{numbers[words]}"}
        return re.sub(r"@\w+", lambda name: own[name[0]], text)

    def refused(words):
        command, *arguments = filled(words, words).split(" ")
        if command in IN_PROCESS:
            with pytest.raises(UserError) as caught:
                IN_PROCESS[command](arguments)
            return str(caught.value)
        if command == "fairseq-preprocess":
            arguments[:0] = [TASK]
        elif command.startswith("fairseq-"):
            arguments[:0] = [TASK, "--cpu" if command == "fairseq-interactive" else QUIET]
        finished = launchpad.run(command, *arguments)
        assert not finished.hypotheses()
        return finished.error()

    inside = [words for words in COMMANDS if words.split()[0] in IN_PROCESS]
    outside = [words for words in COMMANDS if words not in inside]
    said = [refused(words) for words in inside]
    assert capsys.readouterr().out == ""
    said += together(*(lambda words=words: refused(words) for words in outside))
    for words, message in zip(inside + outside, said, strict=True):
        parts = [filled(part, words) for part in COMMANDS[words]]
        assert all(part in message for part in parts), f"{words}: {message}"
        assert len(message.splitlines()) == 1 and len(message) < 800, message
    left = [path.name for path in (tmp_path / "new").rglob("*") if path.is_file()]
    assert {*left} <= {"preprocess.log"}


def test_alignments_of_a_model_that_has_none(small_corpus, tmp_path):
    options = f"--arch rnnencdec_30 {SIZES} {PAPER} --max-update 1 --heatmap-dir {tmp_path}/out"
    train(small_corpus.data, tmp_path, options).ok()
    model = small_corpus.data, tmp_path / "checkpoint_last.pt"
    for finished in together(
        lambda: generate(*model, "--print-alignment hard"),
        lambda: generate(*model, f"--heatmap-dir={tmp_path}/out"),
        lambda: interactive(*model, "--print-alignment soft", stdin="red\n"),
        lambda: interactive(*model, "--replace-unk ''", stdin="red\n"),
    ):
        assert "RNNencdec reads its source through one vector and has no" in finished.error()
        assert not finished.hypotheses()
    assert not (tmp_path / "out").exists()


COMPOSED = {
    "dataset.batch_size=0": "--batch-size 0: must be 1 or more",
    "+model.decoder_order=x": "expected one of [program, appendix, section3]",
    "+task.nosuch=4": "Key 'nosuch' not in 'AlignmentHeatmapConfig'",
    "criterion._name=nosuch": "KeyError: 'nosuch' (fairseq/registry.py, line",
}


def test_one_line_for_a_configuration(launchpad, small_corpus, tmp_path):
    options = hydra_options(tmp_path, small_corpus.data)
    for override, part in COMPOSED.items():
        # OC_CAUSE=1, like a debugger, makes omegaconf's exceptions their own causes
        message = launchpad.run("fairseq-hydra-train", options, override, OC_CAUSE="1").error()
        assert part in message, f"{override}: {message}"


def test_a_traceback_where_it_is_asked_for(launchpad, small_corpus):
    finished = launchpad.run("fairseq-generate", small_corpus.data, TASK, RNNSEARCH_TRACEBACK="1")
    assert finished.rc == 1 and "Traceback (most recent call last)" in finished.err
    assert finished.err.endswith("AssertionError: --path required for generation!\n")


def test_steps_of_recipes_that_fail_or_are_interrupted(tmp_path):
    """Running again helps where something has interrupted the step."""
    for folder in (".done", "logs"):
        (tmp_path / folder).mkdir()
    steps = f'. {ROOT / "recipes" / "steps.sh"}; WORK={tmp_path}; f() {{ "$@"; }}; run_step s x f '
    for command in ("false", "bash -c 'kill -9 $$'", "logged l bash -c 'exit 130'", "true"):
        finished = run_process(["bash", "-c", steps + command])
        assert finished.returncode
        last = finished.stderr.splitlines()[-1]
        assert last.endswith('step "s" is unfinished; run again to go on')
    again = f"bash -c {shlex.quote(steps + 'true')} || touch x.partial"  # within the step
    within = run_process(["bash", "-c", steps + f"bash -c {shlex.quote(again)}"], cwd=tmp_path)
    assert "s: another run is at it in " in within.stderr and within.returncode == 0
    # after the step nobody is kept out
    steps = steps.replace("run_step s x f ", "resume_step s true; ")
    after = run_process(["bash", "-c", steps + f"bash -c {shlex.quote(steps)}"])
    assert "s: done before" in after.stderr and after.returncode == 0


def test_settings_of_a_work_folder_hold_from_its_first_step(tmp_path):
    (tmp_path / ".done").mkdir()
    steps = f". {ROOT / 'recipes' / 'steps.sh'}; WORK={tmp_path}; "
    for value, done, status in ((1, False, 0), (2, False, 0), (2, True, 0), (3, True, 1)):
        if done:
            (tmp_path / ".done" / "first").touch()
        finished = run_process(["bash", "-c", f"{steps} A={value}; remember_settings A"])
        assert finished.returncode == status, (value, finished.stderr)
    assert "was made with other settings, now A=3" in finished.stderr


# --- checkpoints --------------------------------------------------------------------------------

NAN = float("nan")
# of a state: a field, what it is instead, and what the one line says
RESUMED = (
    ("cfg.model.decoder_order", "section3", "--decoder-order program: it was trained with sec"),
    ("extra_state.train_iterator", [], "does not fit the model, the options or the data"),
)
TRANSLATED = {
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


# --- calls ----------------------------------------------------------------------------------------

PAIR = Alignment(("a", "b"), ("c",), np.ones((1, 2)))
WORDS = ("a", "b"), ("c",)


def save(name, weights=PAIR.weights, **options):
    return lambda here: save_heatmap(here / name, *WORDS, weights, **options)


def given(**options):
    """Check an option of fairseq's own, which has no limits for it."""
    return lambda here: check_options({"arch": "x", "cpu": True, **options})


def searching(options):
    """Build a search as fairseq's hub does, or --eval-bleu."""
    return lambda here: training_task(here).build_generator([build_model()], options)


CALLS = [  # in a folder with a file and a folder, and parts of what is said
    (given(beam=0), "--beam 0"),
    (searching(Namespace(beam=0)), "--beam 0: must be 1 or more"),  # or fairseq's ends the process
    (searching(OmegaConf.structured(GenerationConfig(beam=-1))), "--beam -1: must be 1 or more"),
    (given(update_freq=[1, 0]), "--update-freq", "0"),
    (given(num_workers=-1), "--num-workers -1"),
    (given(clip_norm=float("nan")), "--clip-norm nan"),
    (given(lr=[-0.1]), "--lr", "-0.1"),
    *(
        (lambda here, text=text: parse_formats(text), "heatmap format", "choose from png")
        for text in ("gif", "png,gif")
    ),
    *(
        (
            lambda here, state=state: trained_models._data_of(state, "x.pt"),
            "x.pt holds no options of a",
        )
        for state in ({"a": torch.ones(1)}, [], torch.ones(1))
    ),
    (lambda here: replacing(here / "folder").__enter__(), "folder cannot be written: Is a dir"),
    *(
        (save("a.png", np.ones(shape)), f"have shape {shape}", "1 target and 2 source words")
        for shape in ((2, 1), (1, 3), (2,), (1, 1, 2))
    ),
    (lambda here: Alignment(*WORDS, [[1, 0]], probabilities=(1, 1)), "2 probabilities for 1"),
    (save("a/a.png"), "a/a.png cannot be written: No such file or directory"),
    (lambda here: read_links(here / "latin1"), "latin1, line 2: is not UTF-8"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_calls(tmp_path, number):
    call, *parts = CALLS[number]
    (tmp_path / "file").touch()
    (tmp_path / "latin1").write_bytes(b"0-0\n\xe9\n")
    for name in ("folder", "folder.png"):
        (tmp_path / name).mkdir()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UserError) as caught:
        call(tmp_path)
    message = str(caught.value)
    assert all(part in message for part in parts) and "\n" not in message, message
    assert sorted(tmp_path.rglob("*")) == before


def test_arguments(barely_trained):
    model = load(barely_trained.checkpoint, barely_trained.corpus.data)
    for given in ({"beam": 0}, {"beam": -1}, {"lenpen": float("nan")}, {"lenpen": 1e300}):
        with pytest.raises(UserError, match=f"^{min(given)} .*: must be "):
            model.translate("red house", **given)
    with pytest.raises(UserError, match="1 source and 2 target"):
        model.align(["a"], ["b", "c"])


# --- what an exception says -----------------------------------------------------------------------


def raised(error: BaseException) -> BaseException:
    """The exception, with where it was raised."""
    try:
        raise error
    except BaseException as problem:
        return problem


REASONS = {
    "KeyError: 'best'": KeyError("best"),
    "/x and /y: Not a directory": OSError(20, "Not a directory", "/x", None, "/y"),
    "AssertionError": AssertionError("  "),
    "DefaultCPUAllocator: can't allocate": RuntimeError(
        "[enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate"
    ),
    "too large": TypeError("too large\nException raised from f at g.h:79\nframe #0: c10::Error"),
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
    foreign = "it holds \x1b]0;name\x07 \x9b2J\u202e"  # a name in a refused checkpoint
    for problem in (UserError(foreign), RuntimeError(foreign)):
        shown = line_of(raised(problem))
        assert shown.startswith("it holds \ufffd]0;name\ufffd \ufffd2J\ufffd")


def test_foreign_text_is_shown_as_text():
    assert as_text("Où est-il\u202f?\tن\u200cم\n") == "Où est-il\u202f? ن\u200cم "
    assert as_text("\x7fab\ud800", 3) == "\ufffda…"


def test_an_interrupted_program_says_so():
    assert line_of(raised(KeyboardInterrupt())) == "interrupted"
