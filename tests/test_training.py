"""rnnsearch-train: what it trains by which settings, in which steps, and what it refuses."""

import argparse
import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from itertools import product

import pytest
import torch
from commands import PACKAGE, ROOT, TINY_MODEL, run_process, write_text
from models import SIZES as MODEL_SIZES
from models import build_model

from fairseq_rnnsearch import load
from fairseq_rnnsearch.errors import UserError, option_of
from fairseq_rnnsearch.runs.checkpoint import write_average
from fairseq_rnnsearch.text.plain_text import settings_of, write_settings
from fairseq_rnnsearch.train import progress, stages
from fairseq_rnnsearch.train.__main__ import main
from fairseq_rnnsearch.train.pairs import PARTS
from fairseq_rnnsearch.train.progress import Progress
from fairseq_rnnsearch.train.settings import (
    FIELDS,
    Settings,
    add_options,
    as_argument,
    for_corpus,
    for_settings,
    given_in,
    groups,
    in_environment,
)
from fairseq_rnnsearch.train.stages import Training
from fairseq_rnnsearch.train.steps import Step, Work
from fairseq_rnnsearch.train.subwords import make_subwords

COMMAND = [sys.executable, "-P", "-m", "fairseq_rnnsearch.train"]


def read(given):
    """The settings that options give."""
    parser = argparse.ArgumentParser()
    add_options(parser)
    return given_in(parser.parse_args([f"{option_of(x)}={given[x]}" for x in given]))


def training(folder, **settings):
    return Training(Work(folder), Settings(**settings), ("en", "fr"), folder / "corpus", PACKAGE)


# --- settings -----------------------------------------------------------------------------------

SIZES = [(100, 192, 1500), (19_999, 192, 7499), (29_000, 256, 6162), (200_000, 512, 20_000)]
SIZES += [(2_000_000, 1000, 125_000)]


@pytest.mark.parametrize(("pairs", "hidden", "updates"), SIZES)
def test_sizes_follow_from_the_corpus(pairs, hidden, updates):
    s = for_corpus({}, pairs)
    assert (s.hidden, s.updates, s.longest, s.bleu_tokenizer) == (hidden, updates, 50, "13a")
    assert s.bpe_dropout == (0.1 if pairs < 200_000 else 0)
    assert for_corpus({"hidden": 7, "updates": 9}, pairs).hidden == 7


def test_the_help_has_the_settings_that_100_000_pairs_get(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")  # a hyphen would end a line
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = " ".join(capsys.readouterr().out.split())
    chosen = for_corpus({}, 100_000)
    for name, field in FIELDS.items():
        found = re.search(re.escape(field.metadata["help"]) + r"(?: \(default: (.*?)\))?", shown)
        default, _, fixed = (found[1] or "").partition("; with --corpus ")
        assert default == as_argument(getattr(chosen, name)), name
        assert (fixed or default) == as_argument(field.default), name


def test_the_manual_has_the_settings_of_every_number_of_pairs():
    manual = (PACKAGE / "manual" / "train.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (?:below ([\d,]+)|more) \| (\d.*) \|$", manual, re.M)
    assert len(rows) == 4
    for least, row in rows:
        pairs = int(least.replace(",", "")) - 1 if least else 2_000_000
        s = for_corpus({}, pairs)
        units, merges, dropout, of_bpe, rdrop, epochs, rate = row.split(" | ")
        assert units == f"{s.embedding}, {s.hidden}, {s.attention}, {s.maxout}"
        assert (merges, dropout, rate) == (
            f"{s.bpe_merges:,}", as_argument(s.dropout), as_argument(s.learning_rate)
        )  # fmt: skip
        copies = f"{s.bpe_dropout_epochs}, with {s.bpe_copies} copies"
        assert of_bpe == (copies if s.bpe_dropout else "none")
        assert rdrop == (as_argument(s.rdrop) if s.rdrop else "none")
        assert s.updates == pairs * int(epochs) // s.batch_size


def test_smaller_batches_take_more_updates():
    s = for_corpus({"batch_size": 40}, 29_000)
    assert s.updates == 29_000 * 17 // 40


SUBWORDS = {  # what goes with so many pairs, unless it is set otherwise
    (9000, ""): (0.1, 20, 3, 0.003, "average"),
    (9000, "bpe_dropout=0"): (0, 0, 0, 0.003, "average"),
    (9000, "dropout=0"): (0, 0, 0, 0.0015, "best"),
    (9000, "vocabulary=shortlist"): (0, 0, 0, 0.0015, "best"),
    (9000, "optimizer=adadelta"): (0.1, 20, 3, 0.0015, "average"),
    (9000, "rdrop=0 checkpoint=best"): (0.1, 20, 0, 0.003, "best"),
    (9000, "bpe_dropout_epochs=0"): (0.1, 0, 0, 0.003, "average"),
    (199_999, ""): (0.1, 11, 2, 0.003, "average"),
    (199_999, "bpe_dropout=0"): (0, 0, 0, 0.003, "average"),
    (200_000, ""): (0, 0, 0, 0.0007, "best"),
}


@pytest.mark.parametrize(("pairs", "given"), SUBWORDS)
def test_settings_of_subwords(pairs, given):
    chosen = read(dict(x.split("=") for x in given.split()))
    s = for_corpus(chosen, pairs)
    found = (s.bpe_dropout, s.bpe_dropout_epochs, s.rdrop, s.learning_rate, s.checkpoint)
    assert found == SUBWORDS[pairs, given]


REFUSED = ["target_tokenizer=words", "hidden=0", "hidden=1e3", "dropout=nan", "bpe_dropout=1"]
REFUSED += ["learning_rate=fast", "lowercase=2", "length_penalty=long"]


@pytest.mark.parametrize("given", REFUSED)
def test_settings_that_cannot_be_are_named(given, capsys):
    with pytest.raises(SystemExit):
        read(dict([given.split("=")]))
    name, value = given.split("=")
    said = capsys.readouterr().err
    assert f"argument {option_of(name)}: " in said and value in said


def test_a_recipe_s_variables_are_settings():
    given = {"BLEU_TOKENIZER": "zh", "TOKENIZER_fr": "moses", "HIDDEN": "", "HOME": "/root"}
    found = in_environment(given, ("en", "fr"))
    assert sorted(found) == ["--bleu-tokenizer=zh", "--target-tokenizer=moses"]


# --- what it takes ------------------------------------------------------------------------------


def planned(folder, given):
    """What is said before 29,000 pairs are trained on."""
    text = progress.Text(300_000, 1_400_000, distinct=90)
    chosen = read(dict(x.split("=", 1) for x in given.split()))
    s = for_corpus(chosen, 29_000)
    return list(progress.plan(folder / "work", s, (text, text), 29_000, 27_000, 1000))


@pytest.mark.parametrize("fixed_context", [False, True])
def test_the_parameters_are_those_of_the_model(fixed_context):
    m, n, a, l = sizes = (5, 7, 0 if fixed_context else 4, 3)
    own = m, n, m, n, a or MODEL_SIZES["attention_size"], l
    model = build_model(fixed_context=fixed_context, **dict(zip(MODEL_SIZES, own, strict=True)))
    known = sum(p.numel() for name, p in model.named_parameters() if not name.endswith("bias"))
    vector = 0 if fixed_context else a  # v_a, which is as small as a bias
    assert progress.parameters_of(sizes, (14, 13)) == known - vector


def test_what_is_said_fits_the_settings(tmp_path, monkeypatch):
    def numbers(given):
        _, of_model, of_disk = planned(tmp_path, given)
        found = re.findall(r"about ([\d.]+) (?:million|min|h)| and ([\d.]+) GB", of_model)
        found += re.findall(r"work takes ([\d.]+) (G)B of disk", of_disk)
        return [float(one or other) for one, other in found]

    free, there = 1e12, 1e12
    monkeypatch.setattr(progress, "free_at", lambda path: free)
    monkeypatch.setattr(progress, "memory_of_machine", lambda: there)
    parameters, minutes, memory, disk = numbers("rdrop=0")
    assert disk == pytest.approx(12 * (5 + 2) * parameters / 1000, abs=0.1)
    assert numbers("rdrop=0 average=50")[3] == pytest.approx(12 * 52 * parameters / 1000, abs=0.1)
    # of 17 epochs, the 6 after BPE-dropout read each batch twice
    assert numbers("")[1] == pytest.approx(minutes * (17 + 6) / 17, rel=0.05)
    assert "256/256/0/256 units" in planned(tmp_path, "model=rnnencdec")[0]
    by_letters = numbers("tokenizer=character")[0]
    assert by_letters == round(progress.parameters_of([256] * 4, (90, 90)) / 1e6, 1)
    free = 1000
    assert planned(tmp_path, "")[3:] == ["warning: the disk is too small"]
    free, there = 1e12, (memory + 0.1) * 1e9
    assert planned(tmp_path, "")[3:] == []
    there = 0.3e9
    assert planned(tmp_path, "")[3:] == ["warning: this machine has 0.3 GB of memory"]


# --- the command --------------------------------------------------------------------------------

MISTAKES = {
    "": "name the two text files",
    "--source @/a.en": "name the two text files",
    "--source @/a.en --target @/b.en": "must name two languages",
    "--source @/a.txt --target @/a.en": "must name two languages",
    "--source @/a --target @/a.en": "must name two languages",
    "--pairs @/a.en": "must name two languages",
    "--pairs @/a.en --languages en": "must name two languages",
    "--pairs @/a.en --source @/a.en --target @/a.fr": "name the two text files",
    "--source @/a.en --target @/a.fr --test @/x": "there is no file",
    "--corpus @ --languages en,fr": "train.en cannot be read: No such file",
    "--corpus @ --languages en,fr --test @/x": "--valid and --test go without --corpus",
    "--source @/a.en --target @/a.fr --hidden x": "argument --hidden: invalid number value: 'x'",
    "--source @/a.en --target @/a.fr": "a.en: only 1 usable pair for train; at least 20 needed",
    "--source @/a.en --target @/a.fr --work @": "has other things in it (a) and is no work folder",
    "--source @/empty.en --target @/a.fr": "empty.en has 0 lines but @/a.fr has 1 line",
    "--source @/a.en --target @/long.fr": "a.en has 1 line but @/long.fr has 99 lines; each line",
    "--source @/a.en --target @/a.fr --languages en,": "must name two languages",
    "--corpus @/corpus --languages en,fr": "valid.en has 1 line but @/corpus/valid.fr has 2 lines",
    "--source @/a.en --target @/a.fr --bleu-tokenizer x": "--bleu-tokenizer: invalid choice: 'x'",
    "--sauce": "unrecognized arguments: --sauce",
}


@pytest.mark.parametrize("given", MISTAKES)
def test_mistakes_make_nothing(tmp_path, given, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for file in ("a.en", "a.fr", "b.en", "a"):
        (tmp_path / file).write_text(f"{file}\n")
    for file in ("long.en", "long.fr"):
        (tmp_path / file).write_text("".join(f"{file} {n}\n" for n in range(99)))
    (tmp_path / "empty.en").touch()
    (tmp_path / "corpus").mkdir()
    for part, (language, end) in product(("train", "valid", "test"), (("en", ""), ("fr", "\nb"))):
        lines = "a" + end * (part == "valid")
        (tmp_path / "corpus" / f"{part}.{language}").write_text(f"{lines}\n")
    before = sorted(tmp_path.iterdir())
    message = MISTAKES[given].replace("@", str(tmp_path))
    with pytest.raises(UserError, match=re.escape(message)):
        main(["--drawn", "1", *given.replace("@", str(tmp_path)).split()])
    assert sorted(tmp_path.iterdir()) == before


def test_a_dry_run_needs_python_alone(tmp_path):
    """The recipes check what they are given before they install anything."""
    write_text(tmp_path, train=60)
    files = ["--source", tmp_path / "train.en", "--target", tmp_path / "train.fr"]
    ended = run_process(
        [sys.executable, "-S", *COMMAND[1:], *files, "--dry-run"],  # -S: without site-packages
        env={"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]},
        cwd=tmp_path,
    )
    assert ended.returncode == 0 and not ended.stdout, ended.stderr
    assert ended.stderr.endswith("nothing was done (--dry-run)\n")
    assert len(list(tmp_path.iterdir())) == 2


# --- steps --------------------------------------------------------------------------------------


def test_a_step_is_done_once_and_appears_whole(tmp_path, capsys):
    work, made = Work(tmp_path / "work"), []

    def make(out):
        out.write_text("half")
        made.append(out)
        if len(made) == 1:
            raise KeyboardInterrupt
        out.write_text("whole")

    output = work.folder / "file"
    step = Step("make it", make, output)
    with work.locked(), pytest.raises(SystemExit) as ended:
        work.do(step)
    assert ended.value.code == 130 and not output.exists()
    assert 'step "make it" is unfinished; run again to go on' in capsys.readouterr().err
    work.do(step)
    work.do(step)
    assert output.read_text() == "whole" and len(made) == 2
    assert sorted(path.name for path in work.folder.iterdir()) == [".done", "file", "logs"]
    output.unlink()
    work.do(step)
    assert output.exists() and len(made) == 3


def test_what_a_killed_run_left_is_made_anew(tmp_path):
    def make(out):
        out.mkdir()
        (out / "new").touch()

    left = f".{'0' * 32}.unfinished"
    work, output = Work(tmp_path / "work"), tmp_path / "work" / "made"
    for name in ("made", left):
        (work.folder / name).mkdir(parents=True)
        (work.folder / name / "old").touch()
    with work.locked():
        work.do(Step("make", make, output))
    assert {path.name for path in output.iterdir()} == {"new"}
    assert {path.name for path in work.folder.iterdir()} == {".done", "logs", "made"}


def test_a_program_that_fails_ends_the_step_with_its_log(tmp_path, capsys):
    work = Work(tmp_path)
    fails = "print('\\033[2J why'); raise SystemExit(3)"
    with (
        work.locked(),
        pytest.raises(UserError, match=r"x failed with status 3; the end of .*x.log is above"),
    ):
        work.run("x", ["-c", fails])
    assert capsys.readouterr().err == "\ufffd[2J why\n"


def test_lines_that_are_shown_extend_the_log(tmp_path):
    work, shown = Work(tmp_path), []
    code = ["-c", "import os; print(os.environ['RNNSEARCH_WHOLE_LOG'])"]
    with work.locked():
        for _ in range(2):
            work.run("x", code, shown.append)
        assert shown == ["1", "1"] and (tmp_path / "logs/x.log").read_text() == "1\n1\n"
        work.run("x", code)
    assert (tmp_path / "logs/x.log").read_text() == "1\n"


def test_a_reader_that_has_gone_is_no_full_disk(tmp_path):
    def make(out):
        raise BrokenPipeError  # of standard output, such as `| head`

    work = Work(tmp_path)
    with work.locked(), pytest.raises(BrokenPipeError):
        work.do(Step("make", make, tmp_path / "made"))


@pytest.mark.parametrize(
    ("code", "status"),
    [("raise SystemExit(130)", 130), ("print('Stopped by SIGUSR1 @ 7 updates; the')", 138)],
)
def test_a_program_that_somebody_interrupts_leaves_the_step_unfinished(
    tmp_path, capsys, code, status
):
    work = Work(tmp_path)
    step = Step("train", lambda out: (work.run("x", ["-c", code]), out.touch()), tmp_path / "a")
    with work.locked(), pytest.raises(SystemExit) as ended:
        work.do(step)
    assert ended.value.code == status
    assert 'step "train" is unfinished; run again to go on' in capsys.readouterr().err


@pytest.mark.parametrize("handler", [signal.SIG_DFL, signal.SIG_IGN])
def test_a_signal_is_passed_on_unless_it_is_ignored(tmp_path, capsys, handler):
    code = "import os, signal, time; os.kill(os.getppid(), signal.SIGHUP); time.sleep(1)"
    work, before = Work(tmp_path), signal.signal(signal.SIGHUP, handler)
    step = Step("train", lambda out: (work.run("x", ["-c", code]), out.touch()), tmp_path / "a")
    try:
        with work.locked(), contextlib.suppress(SystemExit):
            work.do(step)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert (tmp_path / "a").exists() == (handler == signal.SIG_IGN)
    assert ("train: done in" in capsys.readouterr().err) == (handler == signal.SIG_IGN)


def test_a_program_ends_with_a_training_that_is_killed(tmp_path):
    ended = tmp_path / "ended"
    step = (
        "import os, signal, time; from pathlib import Path;"
        f"signal.signal(signal.SIGTERM, lambda *_: (Path({str(ended)!r}).touch(), exit()));"
        "os.kill(os.getppid(), signal.SIGKILL); time.sleep(60)"
    )
    code = (
        "from pathlib import Path; from fairseq_rnnsearch.train.steps import Work\n"
        f"work = Work(Path({str(tmp_path / 'work')!r}))\n"
        f"with work.locked():\n    work.run('x', ['-c', {step!r}])\n"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == -signal.SIGKILL
    latest = time.monotonic() + 50
    while not ended.exists() and time.monotonic() < latest:
        time.sleep(0.1)
    assert ended.exists()


def test_a_text_that_was_changed_meanwhile_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(Training, "prepare_text", lambda _: [])
    write_text(tmp_path, train=60, valid=9, test=9)
    files = [f"--source={tmp_path}/train.en", f"--target={tmp_path}/train.fr"]
    corpus = [f"--corpus={tmp_path}", "--languages=en,fr"]
    for number, given in enumerate((files, corpus)):
        again = [*given, f"--work={tmp_path}/work{number}", "--stop-after=text"]
        main(again)
        main(again)
        (moved := tmp_path / f"moved{number}").symlink_to(tmp_path)
        main([one.replace(str(tmp_path), str(moved)) for one in again])
        text = (tmp_path / "train.en").read_text()
        (tmp_path / "train.en").write_text(text.replace("red", "blue"))
        with pytest.raises(UserError, match="other settings, now digest of the text="):
            main(again)
        (tmp_path / "train.en").write_text(text)


def test_what_a_work_folder_may_be(tmp_path):
    work = Work(tmp_path / "new")
    assert not work.folder.exists()  # until it is used
    in_use = pytest.raises(UserError, match="new is in use by another training")
    with work.locked(), in_use, Work(tmp_path / "new").locked():
        pass
    work.remember({"HIDDEN": "24", "SEED": "1"})
    work.remember({"HIDDEN": "24", "SEED": "1"})
    work.check({"HIDDEN": "24", "SEED": "1", "NEWER": "1"})
    with pytest.raises(UserError, match="settings, now HIDDEN=25 instead of 24: name another"):
        work.check({"HIDDEN": "25", "SEED": "1"})


def test_a_step_that_fills_the_disk_is_named(tmp_path):
    def fill(unfinished):
        unfinished.touch()
        with open("/dev/full", "w") as full:
            full.write("text")

    work, message = Work(tmp_path), "made cannot be written: No space left on device"
    with work.locked(), pytest.raises(UserError, match=message):
        work.do(Step("fill", fill, tmp_path / "made"))
    assert not (tmp_path / "made").exists()


def test_a_link_to_a_work_folder_may_be_changed_meanwhile(tmp_path):
    first, second = (Work(tmp_path / name) for name in ("first", "second"))
    first.folder.mkdir()
    (tmp_path / "link").symlink_to(first.folder)
    with second.locked(), (work := Work(tmp_path / "link")).locked():
        (tmp_path / "link").unlink()
        (tmp_path / "link").symlink_to(second.folder)
        work.remember({"SEED": "1"})
        work.link("made", work.folder / "logs")
    assert (first.folder / "made").resolve() == first.folder / "logs"
    assert not (first.folder / "made").readlink().is_absolute()  # the folder may be moved
    assert sorted(path.name for path in second.folder.iterdir()) == [".done", "logs"]


def test_how_each_language_is_tokenised_cannot_be_changed(tmp_path, monkeypatch):
    monkeypatch.setattr(Work, "do", lambda self, step: None)
    for part in ("train", "valid", "test"):
        for language in ("en", "fr"):
            (tmp_path / f"{part}.{language}").write_text("a\n")
    corpus = f"--corpus {tmp_path} --languages en,fr --work {tmp_path}/work --stop-after text"
    main(corpus.split())
    main([*corpus.split(), "--target-tokenizer", "reversible", "--beam", "1"])
    for dry in ([], ["--dry-run"]):
        with pytest.raises(UserError, match="now TOKENIZER_fr=space instead of reversible"):
            main([*corpus.split(), "--target-tokenizer", "space", *dry])


TRAININGS = {  # the steps, and what is particular to the command of each, by settings
    "": {"train": []},
    "rdrop=3": {"train": ["--rdrop-alpha 3.0"]},
    "rdrop=0.5 bpe_dropout=0.1 bpe_dropout_epochs=5 checkpoint=average": {
        "train with BPE-dropout": ["--max-epoch 5"],
        "train": ["--rdrop-alpha 0.5"],
        "average 5 checkpoints": [],
    },
    "bpe_dropout=0.1 bpe_dropout_epochs=5": {"train": []},
}


@pytest.mark.parametrize("given", TRAININGS)
def test_r_drop_comes_after_bpe_dropout(tmp_path, given, monkeypatch, capsys):
    commands = []
    monkeypatch.setattr(
        Work, "run", lambda self, name, command, show=None: commands.append(command)
    )
    monkeypatch.setattr(Training, "folders", lambda self: [])
    chosen = read(dict(x.split("=") for x in given.split()))
    steps = training(tmp_path, **chosen).train()
    for step in steps:
        step.make(*filter(None, [step.output]))
    is_said = "for 5 epochs; then R-Drop goes on to update" in capsys.readouterr().err
    assert is_said == ("train with BPE-dropout" in TRAININGS[given])
    found = [re.findall("--(?:rdrop|max-e)[a-z-]* [^ ]+", " ".join(map(str, x))) for x in commands]
    assert dict(zip((s.name for s in steps), found, strict=True)) == TRAININGS[given]


def test_each_setting_of_a_training_reaches_fairseq():
    def options(**given):
        return for_settings(Settings(**read(given)), ["data"], "saved")

    of_training = groups()["model"] + groups()["training"]
    of_training.remove("rdrop")  # which begins later
    for name in of_training:
        about, usual = FIELDS[name].metadata, as_argument(FIELDS[name].default)
        others = {"N": ["7"], "X": ["0.25"]}.get(about.get("metavar"), ["--no-save"])
        others = map(str, about.get("choices", others))
        assert options(**{name: next(x for x in others if x != usual)}) != options(), name


OPTIMIZED = {  # the cost, how the learning rate falls, and what tells which model is the best
    "": "--cost-scale word --optimizer adam --total-num-update 6000"
    " --best-checkpoint-metric nll_loss",
    "lr_scheduler=fixed": "--cost-scale word --optimizer adam --best-checkpoint-metric nll_loss",
    "optimizer=adadelta": (
        "--cost-scale sum --optimizer rnnsearch_adadelta --best-checkpoint-metric nll_loss"
    ),
    "optimizer=adadelta valid_bleu=1": "--cost-scale sum --optimizer rnnsearch_adadelta"
    " --best-checkpoint-metric bleu --maximize-best-checkpoint-metric --eval-bleu"
    " --eval-bleu-remove-bpe",
    "optimizer=adadelta valid_bleu=1 vocabulary=shortlist": "--cost-scale sum"
    " --optimizer rnnsearch_adadelta --best-checkpoint-metric bleu"
    " --maximize-best-checkpoint-metric --eval-bleu",
}


@pytest.mark.parametrize("given", OPTIMIZED)
def test_cost_and_judgement_go_with_the_optimizer(given):
    chosen = read(dict(x.split("=") for x in given.split()))
    told = " ".join(map(str, for_settings(Settings(**chosen), ["data"], "saved")))
    names = r"cost-scale|optimizer|total\S+|\S*best-checkpoint-metric|eval-bleu(?!-args)\S*"
    assert " ".join(re.findall(rf"--(?:{names})(?: [^-]\S*)?", told)) == OPTIMIZED[given]


NAMED = {  # what translates, and where to
    "": "checkpoints/checkpoint_best.pt translations-best-beam12-length1-forbid",
    "evaluate=valid checkpoint=average length_penalty=0.6": (
        "average-of-5.pt valid-translations-average-beam12-length0.6-forbid"
    ),
}


@pytest.mark.parametrize("given", NAMED)
def test_translations_are_named_by_their_settings(tmp_path, given):
    found = training(tmp_path, **read(dict(x.split("=") for x in given.split())))
    model, translations = (tmp_path / name for name in NAMED[given].split())
    assert (found.models(), found.translations) == (str(model), translations)


def test_an_ensemble_names_its_models_and_knows_one_dictionary(tmp_path):
    for name, word in (("a", "x"), ("b", "x"), ("c", "y")):
        for file in ("checkpoints/checkpoint_best.pt", "data/dict.en.txt", "data/dict.fr.txt"):
            (path := tmp_path / name / file).parent.mkdir(parents=True, exist_ok=True)
            path.write_text(word)
        (tmp_path / name / ".done").mkdir()
    a, b, c = (tmp_path / name for name in "abc")
    together = training(a, ensemble=str(b))
    best = "checkpoints/checkpoint_best.pt"
    assert together.models() == f"{a}/{best}:{b}/{best}"
    name = together.translations.name
    assert re.fullmatch("translations-best-beam12-length1-forbid-with-b-[0-9a-f]{8}", name)
    (b / best).write_text("trained anew")
    assert training(a, ensemble=str(b)).translations.name != name
    with pytest.raises(FileNotFoundError, match="other"):
        training(c, ensemble="other").models()


def test_an_average_is_the_mean_of_each_parameter(tmp_path):
    paths = [tmp_path / f"{number}.pt" for number in range(3)]
    for path, numbers in zip(paths, ([1.0, 4.0], [2.0, 8.0], [6.0, 0.0]), strict=True):
        saved = {"model": {"w": torch.tensor(numbers)}, "last_optimizer_state": {"a": 1}}
        torch.save(saved, path)
    write_average(paths, tmp_path / "mean.pt")
    mean = torch.load(tmp_path / "mean.pt", weights_only=True)
    assert torch.equal(mean["model"]["w"], torch.tensor([3.0, 4.0]))
    assert mean["model"]["w"].dtype == torch.float32
    assert mean["last_optimizer_state"] is None


def test_the_best_checkpoints_are_averaged_and_no_other(tmp_path, monkeypatch):
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / ".done").mkdir()
    names = ["checkpoint.best_nll_loss_2.1.pt", "checkpoint.best_nll_loss_2.2.pt"]
    for name in (*names, "checkpoint_best.pt", "checkpoint_last.pt"):
        (tmp_path / "checkpoints" / name).touch()
    called = []
    monkeypatch.setattr(Work, "run", lambda self, name, command: called.extend(command))
    training(tmp_path)._average(tmp_path / "out")
    assert called[2:] == [tmp_path / "out", *(tmp_path / "checkpoints" / name for name in names)]


def test_translations_stand_in_the_order_of_the_text(tmp_path):
    lines = [f"{kind}-{n}\t-0.5\tt{n}\n" for n in (10, 2, 0) for kind in "SHD"]
    (tmp_path / "generated").write_text("".join(lines))
    assert stages._translations(tmp_path / "generated") == ["t0", "t2", "t10"]


def commands_of(monkeypatch):
    """The programs that steps would run."""
    commands = []
    monkeypatch.setattr(
        Work, "run", lambda self, name, command, show=None: commands.append(command)
    )
    return commands


PREPARED = {  # the options of fairseq-preprocess for the data, and for the words that are evaluated
    "": ([], ["--dataset-impl raw", "--testpref"]),
    "vocabulary=shortlist min_count=2 evaluate=valid": (
        ["--thresholdsrc 2", "--thresholdtgt 2"],
        ["--dataset-impl raw", "--validpref"],
    ),
}


@pytest.mark.parametrize("given", PREPARED)
def test_a_shortlist_leaves_rare_words_out_and_the_text_keeps_them(tmp_path, given, monkeypatch):
    commands = commands_of(monkeypatch)
    found = training(tmp_path, **read(dict(x.split("=") for x in given.split())))
    found._binarise(tmp_path / "data")
    found._keep_words(tmp_path / "words")
    data, words = (" ".join(map(str, command)) for command in commands)
    assert re.findall(r"--threshold\w+ \d|--data\S+ \w+", data) == PREPARED[given][0]
    assert re.findall(r"--data\S+ \w+|--\w+pref", words) == PREPARED[given][1]


TRANSLATED = {  # what fairseq-generate is told, by settings
    "": "--gen-subset test --beam 12 --lenpen 1 --forbid-unk --post-process subword_nmt"
    " --heatmap-samples 50",
    "unknown=replace vocabulary=shortlist beam=3 length_penalty=0.6 drawn=2": (
        "--dataset-impl raw --gen-subset test --beam 3 --lenpen 0.6 --replace-unk"
        " --heatmap-samples 2"
    ),
    "unknown=keep model=rnnencdec evaluate=valid": (
        "--gen-subset valid --beam 12 --lenpen 1 --post-process subword_nmt"
    ),
}


@pytest.mark.parametrize("given", TRANSLATED)
def test_settings_of_translation_reach_fairseq(tmp_path, given, monkeypatch):
    commands = commands_of(monkeypatch)
    monkeypatch.setattr(stages, "_translations", lambda _: [])
    monkeypatch.setattr(Training, "_write_text", lambda *_: None)
    chosen = read(dict(x.split("=") for x in given.split()))
    training(tmp_path, **chosen)._translate(tmp_path / "out")
    told = " ".join(map(str, commands[0]))
    names = r"beam|lenpen|\w+-unk|post-process|dataset-impl|gen-subset|heatmap-samples"
    found = re.findall(rf"--(?:{names})(?: [^ -]\S*)?", told)
    assert " ".join(found) == TRANSLATED[given]


def test_translations_become_text_by_the_target_s_rules(tmp_path):
    found = training(tmp_path, tokenizer="space", target_tokenizer="moses")
    (tmp_path / "tokens").mkdir()
    (tmp_path / "tokens" / "test.fr").write_text("a\nb\n")
    found._write_text(tmp_path, ["l' eau .", "b"])
    assert (tmp_path / "text.fr").read_text() == "l'eau.\nb\n"
    assert (tmp_path / "tokens.fr").read_text() == "l' eau .\nb\n"
    with pytest.raises(UserError, match="has 1 translation of 2 sentences"):
        found._write_text(tmp_path, ["a"])


REPORTED = {  # which scores and pictures are named, by settings
    "": ["lower-cased, tokenised:", "tokens", "cased, detokenised:", "text", "alignments:"],
    "target_tokenizer=character": ["cased, detokenised:", "text", "alignments:"],
    "lowercase=1 model=rnnencdec": [
        *("lower-cased, tokenised:", "tokens"),
        *("detokenised, against a cased reference:", "text"),
    ],
}


@pytest.mark.parametrize("given", REPORTED)
def test_the_report_says_what_is_scored(tmp_path, given, monkeypatch, capsys):
    monkeypatch.setattr(Training, "_score", lambda _, name, *options: print(name))
    found = training(tmp_path, **read(dict(x.split("=") for x in given.split())))
    corpus, translations = found.corpus, found.translations
    for path in (corpus / "test.en", corpus / "test.fr", translations / "text.fr"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{path.parent.name}\n")
    found.report()
    said = capsys.readouterr().out.splitlines()
    assert said[4].endswith(f", en to fr, in {translations}:")
    index = f" {translations}/alignments/index.html"
    assert [line.removesuffix(index) for line in said[5:-2]] == REPORTED[given]


def test_a_page_offers_the_first_sentences_and_the_longest(tmp_path, monkeypatch):
    commands = commands_of(monkeypatch)
    found = training(tmp_path)
    found.corpus.mkdir()
    (found.corpus / "test.en").write_text("a\nb\nc c\nd d d\ne\n")
    found.make_page("title", "licence").make(tmp_path / "page.html")
    assert commands[0][-3:] == ["--example=a", "--example=b", "--example=d d d"]
    assert commands[0][-7:-3] == ["--title", "title", "--licence", "licence"]


EPOCHS = {  # the folder that each epoch reads, by settings: 60 updates of two, of four pairs
    "": [""],
    "bpe_dropout=0.1": ["", "copy-2", "copy-3"],
    "bpe_dropout=0.1 bpe_dropout_epochs=1": ["", *["copy-0"] * 31],
    "bpe_dropout=0.1 bpe_dropout_epochs=5": (
        ["", "copy-2", "copy-3", "", "copy-2", *["copy-0"] * 31]
    ),
    "bpe_dropout=0.1 bpe_dropout_epochs=1 longest=2": ["", *["copy-0"] * 61],
    "bpe_dropout=0.1 bpe_dropout_epochs=1 longest=0": ["", *["copy-0"] * 31],
}


@pytest.mark.parametrize("given", EPOCHS)
def test_each_epoch_reads_its_copy_and_the_last_ones_every_merge(tmp_path, given):
    """However many pairs are too long, no later epoch has BPE-dropout again."""
    settings = read(dict(x.split("=") for x in given.split()))
    found = training(tmp_path, bpe_copies=3, updates=60, batch_size=2, **settings)
    (tmp_path / "subwords").mkdir()
    (tmp_path / "subwords/train-0.en").write_text("a\nb b\nc c c\nd d\n")
    (tmp_path / "subwords/train-0.fr").write_text("A\nB B\nC C\nD D D\n")
    data = tmp_path / "data"
    assert found.folders() == [data / copy if copy else data for copy in EPOCHS[given]]


def test_bpe_dropout_splits_training_text_alone_and_in_another_way_each_time(tmp_path, capsys):
    lines = [f"{word} {word[::-1]}" for word in ("station", "nation", "ratio", "notation")] * 20
    text = "\n".join(lines) + "\n"
    (tmp_path / "corpus").mkdir()
    for name in ("train", "valid", "test"):
        for language in ("en", "fr"):
            (tmp_path / "corpus" / f"{name}.{language}").write_text(text)
    options = ["--bpe-merges", "60", "--bpe-dropout", "0.3", "--bpe-copies", "2"]
    corpus = ["--corpus", str(tmp_path / "corpus"), "--languages", "en,fr"]
    work = tmp_path / "work"
    main([*corpus, "--work", str(work), *options, "--stop-after", "text"])
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "  merges learned" and said[-4:-3] == ["  2 of 2 copies in fr"]
    assert said[-3:] == [f"  {n} of 3 texts" for n in (1, 2, 3)]
    assert [path.name for path in (work / "logs").iterdir()] == ["preprocess.log"]  # of one process
    made = work / "subwords"
    again = run_process(
        [sys.executable, "-m", "subword_nmt.apply_bpe", "--codes", made / "codes.en"]
        + ["--dropout", "0.3", "--seed", "2", "--input", work / "tokens" / "train.en"]
    )
    assert again.stdout == (made / "train-2.en").read_text()
    for language in ("en", "fr"):
        one, two, whole, all_ways, valid = (
            (made / f"{name}.{language}").read_text()
            for name in ("train-1", "train-2", "train-0", "train", "valid")
        )
        assert all_ways == whole + one + two and one != two and whole == valid
        assert {x.replace("@@ ", "") for x in (one, two, whole)} == {text}
        assert len(set(whole.splitlines())) == 4  # each line's own; with BPE-dropout there are more
        assert len(set(one.splitlines())) > 20 < len(set(two.splitlines()))
        known = dict(map(str.split, (work / f"data/dict.{language}.txt").open()))
        counted = {piece: str(count) for piece, count in Counter(all_ways.split()).items()}
        assert {piece: known[piece] for piece in counted} == counted
    binarised = {path.stem for path in (work / "data").glob("*.idx")}
    assert binarised == {f"{x}.en-fr.{y}" for x in ("train", "valid", "test") for y in ("en", "fr")}
    for copy in ("copy-2", "copy-0"):
        further = {path.stem for path in (work / "data" / copy).glob("*.idx")}
        assert further == {"train.en-fr.en", "train.en-fr.fr"}


def test_a_side_of_characters_has_no_merges(tmp_path, monkeypatch):
    with_codes = []
    monkeypatch.setattr(stages, "make_subwords", lambda *given: with_codes.extend(given[3]))
    training(tmp_path, target_tokenizer="character")._make_subwords(tmp_path / "subwords")
    assert with_codes == ["en"]


@pytest.mark.parametrize("joint", [True, False])
def test_languages_share_merges_or_have_their_own(tmp_path, joint):
    tokens, out = tmp_path / "tokens", tmp_path / "subwords"
    tokens.mkdir()
    write_settings(tokens, {language: {"tokenizer": "space"} for language in ("en", "fr")})
    for part, (language, word) in product(PARTS, (("en", "nation"), ("fr", "maison"))):
        (tokens / f"{part}.{language}").write_text(f"{word}\n" * 9)
    s = Settings(bpe_merges=4, bpe_joint=joint)
    make_subwords(tokens, out, ("en", "fr"), ("en", "fr"), s)
    english, french = ((out / f"codes.{language}").read_text() for language in ("en", "fr"))
    assert (english == french) == joint
    assert settings_of(out)["fr"]["bpe_codes"] == "codes.fr"


# --- how it goes --------------------------------------------------------------------------------

# fairseq's wall stays 0 after a resume
REPORT = (
    "| INFO | train_inner | epoch {}:     {} / 50 loss=1, ppl={}, wps=1, num_updates={}, wall=0"
)


def test_progress_is_a_line_for_each_report(capsys):
    progress = Progress(900, 0)
    for line in (
        "31 of 31 training pairs have at most 60 tokens",
        "29 of 31 training pairs have at most 50 tokens",
        "2026 | INFO | fairseq.trainer | Loaded checkpoint c/x.pt (epoch 1 @ 20 updates)",
        REPORT.format("001", 25, "7.5", 25),
        "29 of 31 training pairs have at most 50 tokens",
        "something else",
        "| valid | epoch 001 | valid on 'valid' subset | loss 2 | nll_loss 3 | x | ppl 8 | y",
        "| WARNING | \x1b[2J a sentence is long",
    ):
        progress.show(line)
    assert capsys.readouterr().out.splitlines() == [
        "  left out of training: 2 of 31 pairs, of more than 50 words or pieces",
        "  goes on after update 20, in epoch 1",
        "  update 25 of 900, epoch 1: training perplexity 7.5, 0 seconds so far",
        "  epoch 1: validation perplexity 8",
        "  | WARNING | \ufffd[2J a sentence is long",
    ]


@pytest.mark.parametrize(
    ("updates", "epochs", "total"), [(900, 0, 900), (900, 3, 150), (0, 3, 150)]
)
def test_the_end_of_a_training_is_the_nearer_one(capsys, monkeypatch, updates, epochs, total):
    times = iter((100, 103, 230))
    monkeypatch.setattr(time, "monotonic", lambda: next(times))
    progress = Progress(updates, epochs)
    for update in (25, 50):
        progress.show(REPORT.format("001", update, "7.5", update))
    left = f"{(total - 50) * 127 / 25 / 60:.0f} minutes left"
    assert capsys.readouterr().out.splitlines() == [
        f"  update 25 of {total}, epoch 1: training perplexity 7.5, 3 seconds so far",
        f"  update 50 of {total}, epoch 1: training perplexity 7.5, 2 minutes so far, {left}",
    ]


# --- a whole training ---------------------------------------------------------------------------


@pytest.mark.slow
def test_a_training_that_is_stopped_goes_on_to_a_translator(tmp_path):
    """With both of its phases; meanwhile the folder is locked."""
    write_text(tmp_path, train=640)
    options = {name.lower().replace("_", "-"): value for name, value in TINY_MODEL.items()}
    options |= {"dropout": "0.1", "bpe-merges": "20", "bpe-dropout": "0.1", "bpe-copies": "2"}
    options |= {"bpe-dropout-epochs": "10", "rdrop": "1", "warmup": "1", "batch-size": "20"}
    options |= {"learning-rate": "0.01", "updates": "1100", "beam": "3", "drawn": "2"}
    options |= {"work": str(tmp_path / "work")}
    command = [*COMMAND, "--source", tmp_path / "train.en", "--target", tmp_path / "train.fr"]
    command += [f"--{name}={value}" for name, value in options.items()]
    given = {"env": {**os.environ, "OMP_NUM_THREADS": "1"}, "text": True, "cwd": tmp_path}
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **given, **piped) as first:
        while not first.stdout.readline().startswith("  update"):
            assert first.poll() is None, first.stderr.read()
        other = subprocess.run(command, **given, **piped)
        assert other.returncode == 1 and "is in use by another training" in other.stderr
        first.send_signal(signal.SIGTERM)
        _, said = first.communicate()
    assert first.returncode == 143
    assert said.endswith('step "train with BPE-dropout" is unfinished; run again to go on\n')
    again = subprocess.run(command, **given, **piped)
    assert again.returncode == 0, again.stderr
    assert again.stderr.count("done before") == 4
    scores = [float(x) for x in re.findall(r"version:[\d.]+ = ([\d.]+) ", again.stdout)]
    assert len(scores) == 2 and min(scores) > 80
    work = tmp_path / "work"
    assert (work / "living-average.html").stat().st_size > 100_000
    assert load(work).translate("red house").text == "maison rouge"
    assert not list(work.rglob("*.partial")) and not list(work.rglob("*.unfinished"))
    assert (work / "checkpoint_best.pt").resolve() == work / "average-of-5.pt"
    assert len((work / "translations" / "text.fr").read_text().splitlines()) > 20
