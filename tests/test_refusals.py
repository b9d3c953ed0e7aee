"""What is wrong in options, files or checkpoints is refused before anything is written.

`CALLS` and `COMMANDS` are tables of what is given, and the option or the file that is named.
"""

import re
import shlex
import shutil
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
import torch
from commands import (
    LAST_ONLY,
    MODEL,
    PAPER,
    QUIET,
    ROOT,
    RunsACommand,
    run_process,
    write_text,
)
from fairseq.dataclass.configs import GenerationConfig
from in_process import fairseq, generate
from models import build_model, training_task
from omegaconf import OmegaConf

from fairseq_rnnsearch import load
from fairseq_rnnsearch.align.links import read_links
from fairseq_rnnsearch.commands import align, export
from fairseq_rnnsearch.commands.evaluate import main as evaluate
from fairseq_rnnsearch.errors import UserError, as_text, line_of, reason, shown_in_one_line
from fairseq_rnnsearch.figures import Alignment, parse_formats, save_heatmap
from fairseq_rnnsearch.files import replacing
from fairseq_rnnsearch.living.__main__ import main as living
from fairseq_rnnsearch.models import trained_models
from fairseq_rnnsearch.plugin.criterion import AlignmentHeatmapCriterionConfig
from fairseq_rnnsearch.plugin.model import RNNSearchConfig
from fairseq_rnnsearch.plugin.task_options import AlignmentHeatmapConfig
from fairseq_rnnsearch.runs.options import check_configuration, check_options
from fairseq_rnnsearch.train.__main__ import main as training

# --- calls ----------------------------------------------------------------------------------------

PAIR = Alignment(("a", "b"), ("c",), np.ones((1, 2)))
WORDS = ("a", "b"), ("c",)


def save(name, weights=PAIR.weights):
    return lambda here: save_heatmap(here / name, *WORDS, weights)


def given(**options):
    """Check the options of a training with this package's parts."""
    parts = RNNSearchConfig, AlignmentHeatmapConfig, AlignmentHeatmapCriterionConfig
    return lambda here: check_options({"arch": "x", "cpu": True, **options}, *parts)


def searching(options, model=None, **of_the_task):
    """Build a search as fairseq's commands do, or --eval-bleu."""

    def build(here):
        task = training_task(here, **of_the_task)
        task.datasets["test"] = []
        task.build_generator([model or build_model()], options)

    return build


def searching_as_the_authors(**options):
    return searching(Namespace(**options), authors_search=True)


COMPOSED = OmegaConf.create({"dataset": {"batch_size": 0}})  # by fairseq-hydra-train
ENCDEC = build_model(fixed_context=True)
CALLS = [  # in a folder with a file and a folder; the option or the file that is named
    (given(beam=0), "--beam 0"),
    (given(update_freq=[1, 0]), "--update-freq 0"),
    (given(num_workers=-1), "--num-workers -1"),
    (given(clip_norm=float("nan")), "--clip-norm nan"),
    (given(lr=[-0.1]), "--lr -0.1"),
    (given(batch_order="paper", curriculum=1), "--curriculum"),
    (given(cost_scale="sum", sentence_avg=True), "--sentence-avg"),
    (given(train_subset="valid", valid_subset="valid"), "--train-subset valid"),
    (given(write_checkpoints_asynchronously=True), "--write-checkpoints-asynchronously"),
    (lambda here: check_configuration(COMPOSED), "--batch-size 0"),
    (given(compute_dtype="float32", fp16=True), "--fp16"),
    (searching(Namespace(beam=0)), "--beam 0"),  # or fairseq's ends the process
    (searching(OmegaConf.structured(GenerationConfig(beam=-1))), "--beam -1"),
    (searching(Namespace(diverse_beam_groups=2)), "--diverse-beam-groups"),
    (searching(Namespace(diverse_beam_strength=2)), "--diverse-beam-strength"),
    (searching(Namespace(constraints="ordered")), "--constraints"),
    (searching_as_the_authors(min_len=2), "--min-len 2"),
    (searching_as_the_authors(max_len_a=2.0), "--max-len-a 2.0"),
    (searching_as_the_authors(max_len_b=9), "--max-len-b 9"),
    (searching_as_the_authors(diversity_rate=1.0), "--diversity-rate 1.0"),
    (searching(Namespace(print_alignment="hard"), ENCDEC), "--print-alignment, .*RNNencdec"),
    (searching(Namespace(replace_unk=""), ENCDEC), "--replace-unk .*RNNencdec"),
    (
        searching(OmegaConf.structured(GenerationConfig()), ENCDEC, heatmap_dir="out"),
        "heatmaps .*RNNencdec",
    ),
    (lambda here: parse_formats("png,gif"), "'gif' .*png"),
    (lambda here: trained_models._data_of({"a": torch.ones(1)}, "x.pt", None), "x.pt"),
    (lambda here: trained_models._data_of([], "x.pt", None), "x.pt"),
    (lambda here: replacing(here / "folder").__enter__(), "folder cannot be written"),
    (save("a.png", np.ones((2, 1))), r"shape \(2, 1\).* 1 target and 2 source words"),
    (save("a/a.png"), "a/a.png cannot be written"),
    (lambda here: Alignment(*WORDS, [[1, 0]], probabilities=(1, 1)), "2 probabilities for 1"),
    (lambda here: read_links(here / "latin1"), "latin1, line 2"),
]


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_calls(tmp_path, number):
    call, named = CALLS[number]
    (tmp_path / "latin1").write_bytes(b"0-0\n\xe9\n")
    (tmp_path / "folder").mkdir()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UserError, match=named) as caught:
        call(tmp_path)
    assert "\n" not in str(caught.value)
    assert sorted(tmp_path.rglob("*")) == before


def test_arguments(barely_trained):
    model = load(barely_trained.checkpoint, barely_trained.corpus.data)
    for wrong in ({"beam": 0}, {"lenpen": float("nan")}, {"lenpen": 1e300}):
        with pytest.raises(UserError, match=f"^{min(wrong)} .*: must be "):
            model.translate("red house", **wrong)
    with pytest.raises(UserError, match="1 source and 2 target"):
        model.align(["a"], ["b", "c"])
    cfg = OmegaConf.create({"common": {}, "generation": {"retain_dropout": True}})
    with pytest.raises(UserError, match="--retain-dropout"):
        model.models[0].prepare_for_inference_(cfg)


# --- the commands -------------------------------------------------------------------------------

FILES = {
    "one": b"a\n",
    "two": b"b\nc\n",
    # links of three sentences, and what does not go with them
    "gold": b"1-1 2p1 2-2\n1-1\n\n",
    "links": b"\n\n\n",
    "one-link": b"1-1\n",
    "later": b"4 1 1\n",
    "source.tok": b"a\n",
    "a.en": b"a\n",
    "b.fr": b"b\n",
}
_ALIGN = "x --data=data --out=@new --source=@one"
COMMANDS = [  # with @ for the folder
    (align.main, f"{_ALIGN} --target=@two", "1 line"),
    (align.main, f"{_ALIGN} --target=@one --symmetrise union", "--symmetrise union .*--inverse"),
    (align.main, "x --source=@source.tok --target=@two --out=@", "--source .*source.tok"),
    (evaluate, "aer --gold=@gold --hypothesis=@links --hypothesis=@later", "later .*sentence 4"),
    (evaluate, "aer --gold=@gold --hypothesis=@links --symmetrise union", "both or neither"),
    (evaluate, "aer --gold=@gold --hypothesis=@one-link", "link has 1 line, but .*gold has 3 sen"),
    (evaluate, "aer --gold=@one-link --hypothesis=@links", "links has 3 lines, but .*1 sentence"),
    (export.main, "en-fr --to-checkpoint=@two", "two: is there already"),
    (living, "en-fr --out=@two", "two would be overwritten"),
    (training, "--source=@a.en --target=@b.fr --beam 0", "--beam: '0'"),
]


@pytest.mark.parametrize(("main", "options", "named"), COMMANDS)
def test_commands(main, options, named, tmp_path, capsys):
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=named):
        main(options.replace("@", f"{tmp_path}/").split())
    assert capsys.readouterr().out == ""
    assert {path.name for path in tmp_path.iterdir()} - {"new"} == FILES.keys()


TRAIN = f"{QUIET} {MODEL} {PAPER} {LAST_ONLY} --max-update 4"


@pytest.mark.parametrize(
    "options", ["--curriculum 1", "--source-lang de", "--load-alignments", "--max-tokens 100"]
)
def test_a_training_is_refused_before_it_begins(options, small_corpus, tmp_path):
    with pytest.raises(UserError, match=options.split()[0]):
        fairseq("train", small_corpus.data, TRAIN, options, f"--save-dir={tmp_path}")
    assert not list(tmp_path.rglob("*.pt"))


# --- text -------------------------------------------------------------------------------------


def test_empty_lines_are_sentences_without_words(barely_trained, tmp_path):
    text, data = write_text(tmp_path / "text", test=5), barely_trained.corpus.data
    for language, line in (("en", 1), ("fr", 1), ("en", 2), ("fr", 3)):
        path = text / f"test.{language}"
        lines = path.read_text(encoding="utf-8").splitlines()
        path.write_text("\n".join([*lines[:line], "", *lines[line + 1 :], ""]), encoding="utf-8")
    dictionaries = f"--srcdict={data}/dict.en.txt --tgtdict={data}/dict.fr.txt"
    places = f"--testpref={text}/test --destdir={tmp_path}/data"
    fairseq("preprocess", "-s en -t fr", dictionaries, places)
    options = "--max-len-a 0 --max-len-b 3 --print-alignment hard"
    given = tmp_path / "data", barely_trained.checkpoint, options
    translated, scored = (generate(*given, more) for more in ("--beam 2", "--score-reference"))
    assert sorted(translated.hypotheses()) == list(range(5))
    assert [scored.hypotheses()[i] == [""] for i in range(5)] == [False, True, False, True, False]
    assert translated.lines("A")[1] == [""]  # no word to point at


@pytest.mark.parametrize(
    ("options", "wrong", "named", "written"),
    [
        ("-s en -t fr", {"valid.fr": b"a\nb\n"}, r"valid\.en has 1 line but", "dict.en.txt"),
        # one side without a language, as for a language model
        ("--task language_modeling --only-source", {"train": b"a\rb\n"}, "train", "dict.txt"),
    ],
)
def test_preprocessing_of_text_that_is_refused_can_be_given_again(
    options, wrong, named, written, tmp_path
):
    """Nothing of the refused command is left that would be in the way."""
    data, text = tmp_path / "data", {"train": b"a b\n", "train.en": b"a\n", "train.fr": b"b\n"}
    text |= {"valid": b"b\n", "valid.en": b"a\n", "valid.fr": b"b\n"}

    def preprocess(files):
        for name, content in files.items():
            (tmp_path / name).write_bytes(content)
        prefixes = f"--trainpref={tmp_path}/train --validpref={tmp_path}/valid"
        fairseq("preprocess", f"{options} --destdir={data} {prefixes}")

    with pytest.raises(UserError, match=named):
        preprocess(text | wrong)
    assert not list(data.glob("dict*"))
    preprocess(text)
    assert (data / written).exists()


# --- checkpoints --------------------------------------------------------------------------------


def every_command(data, checkpoint, named):
    """Give a checkpoint to each command that opens one."""
    path, new = f"--path={checkpoint}", f"--save-dir={checkpoint.parent}/new"
    for command, options in (
        ("train", f"{TRAIN} {new}1 --restore-file={checkpoint}"),
        ("train", f"{TRAIN} {new}2 --finetune-from-model={checkpoint}"),
        ("generate", f"{QUIET} {path}"),
        ("validate", f"--cpu --batch-size 8 {path}"),
    ):
        with pytest.raises(Exception, match=f"{re.escape(str(checkpoint))}.*{named}"):
            fairseq(command, data, options)
    assert [path.name for path in checkpoint.parent.rglob("*.pt")] == [checkpoint.name]


def test_a_checkpoint_that_runs_code_is_refused(barely_trained, tmp_path):
    checkpoint, trace = tmp_path / "strange.pt", tmp_path / "trace"
    state = torch.load(barely_trained.checkpoint, weights_only=True)
    torch.save(state | {"extra": RunsACommand(trace)}, checkpoint)
    every_command(barely_trained.corpus.data, checkpoint, "posix.system")
    assert not trace.exists()
    torch.load(checkpoint, weights_only=False)
    assert trace.exists()  # it would have


def test_dictionaries_that_do_not_fit_the_checkpoint(barely_trained, tmp_path):
    text = write_text(tmp_path / "text", train=30, valid=5, test=5)
    prefixes = [f"--{split}pref={text / split}" for split in ("train", "valid", "test")]
    fairseq("preprocess", f"-s en -t fr --nwordssrc 9 --destdir={tmp_path}/data", *prefixes)
    checkpoint = Path(shutil.copy(barely_trained.checkpoint, tmp_path / "x.pt"))
    every_command(tmp_path / "data", checkpoint, "source dictionary has 13 symbols.* 17")


def test_an_option_that_runs_code_is_refused(barely_trained, tmp_path):
    data, path, trace = barely_trained.corpus.data, barely_trained.checkpoint, tmp_path / "trace"
    code = f"[__import__('os').system('touch {trace}')]"
    training = f"{TRAIN} --save-dir {tmp_path}/a --restore-file={path} --optimizer adam"
    for command, options in (
        ("generate", f'{QUIET} --path={path} --model-overrides "{code}"'),
        ("validate", f'--cpu --batch-size 8 --path={path} --model-overrides "{code}"'),
        ("train", f'{training} --adam-betas "{code}"'),
        ("train", f'{training} --optimizer-overrides "{code}"'),
    ):
        with pytest.raises(UserError, match=r"is not a value|must be a dictionary"):
            fairseq(command, data, options)
    assert not trace.exists() and not list(tmp_path.rglob("*.pt"))
    eval(code)
    assert trace.exists()  # it would run


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda state: state["cfg"]["model"].update(decoder_order="section3"), "--decoder-order"),
        (lambda state: state["extra_state"].update(train_iterator=[]), "does not fit"),
    ],
)
def test_a_state_that_no_training_can_go_on_from(change, named, barely_trained, tmp_path):
    state = torch.load(barely_trained.checkpoint, weights_only=True)
    change(state)
    torch.save(state, path := tmp_path / "altered.pt")
    before, folders = path.read_bytes(), f"--save-dir={tmp_path / 'new'} --restore-file={path}"
    with pytest.raises(UserError, match=f"^checkpoint {path}.*{named}"):
        fairseq("train", barely_trained.corpus.data, TRAIN, folders)
    assert path.read_bytes() == before and not list(tmp_path.glob("new/**/*.pt"))


# --- recipes --------------------------------------------------------------------------------------


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
def test_the_reason_is_what_the_exception_says(said):
    assert reason(raised(REASONS[said])) == said


FOREIGN = "it holds \x1b]0;name\x07 \x9b2J\u202e"  # a name in a refused checkpoint
SHOWN = "it holds \ufffd]0;name\ufffd \ufffd2J\ufffd"
IN_ANOTHER_PROCESS = (
    "\n-- Process 1 terminated with the following error:\nTraceback (most recent call last):"
    '\n  File "/x/fairseq_cli/train.py", line 5, in main\n    load()\n'
    "fairseq_rnnsearch.errors.UserError: no data folder 'x'\n"
)
# a mistake of the program is shown with its place
PLACE = r" \(tests/test_refusals\.py, line \d+; RNNSEARCH_TRACEBACK=1 shows .*\)"


@pytest.mark.parametrize(
    ("problem", "line"),
    [
        (RuntimeError(IN_ANOTHER_PROCESS), "no data folder 'x'"),
        (KeyError("x"), f"KeyError: 'x'{PLACE}"),
        (UserError("a\nb"), "a b"),
        (KeyboardInterrupt(), "interrupted"),
        (UserError(FOREIGN), re.escape(SHOWN)),
        (RuntimeError(FOREIGN), re.escape(SHOWN) + PLACE),
    ],
)
def test_every_exception_is_one_line(problem, line):
    assert re.fullmatch(line, line_of(raised(problem)))


def test_foreign_text_is_shown_as_text():
    assert as_text("Où est-il\u202f?\tن\u200cم\n") == "Où est-il\u202f? ن\u200cم "
    assert as_text("\x7fab\ud800", 3) == "\ufffda…"


def test_a_traceback_where_it_is_asked_for(monkeypatch):
    shown = []
    monkeypatch.setenv("RNNSEARCH_TRACEBACK", "1")
    shown_in_one_line(lambda *error: shown.append(error))(UserError, UserError("a"), None)
    assert len(shown) == 1
