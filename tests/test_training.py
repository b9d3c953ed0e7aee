"""rnnsearch-train: what it trains by which settings, in which steps, and what it refuses."""

import argparse
import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from itertools import product

import pytest
import torch
from commands import NOUNS, PACKAGE, ROOT, TINY_MODEL, run_process, write_text

from fairseq_rnnsearch import load
from fairseq_rnnsearch.commands.tokenizing import learn_codes
from fairseq_rnnsearch.errors import UserError, option_of
from fairseq_rnnsearch.models import quality
from fairseq_rnnsearch.models.conversion import to_folder
from fairseq_rnnsearch.models.quality import saved_updates, validation_of
from fairseq_rnnsearch.runs.checkpoint import write_average
from fairseq_rnnsearch.text.plain_text import settings_of, write_settings
from fairseq_rnnsearch.train import stages
from fairseq_rnnsearch.train.__main__ import main
from fairseq_rnnsearch.train.pairs import PARTS
from fairseq_rnnsearch.train.progress import too_long
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

pytest_plugins = ("trained",)
COMMAND = [sys.executable, "-P", "-m", "fairseq_rnnsearch.train"]


def read(given):
    """The settings that options give, in a dictionary or as name=value."""
    given = dict(x.split("=") for x in given.split()) if isinstance(given, str) else given
    parser = argparse.ArgumentParser()
    add_options(parser)
    return given_in(parser.parse_args([f"{option_of(x)}={given[x]}" for x in given]))


def training(folder, **settings):
    return Training(Work(folder), Settings(**settings), ("en", "fr"), folder / "corpus", PACKAGE)


# --- settings -----------------------------------------------------------------------------------


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
    s = for_corpus(read(given), pairs)
    found = (s.bpe_dropout, s.bpe_dropout_epochs, s.rdrop, s.learning_rate, s.checkpoint)
    assert found == SUBWORDS[pairs, given]


def test_a_recipe_s_variables_are_settings():
    given = {"BLEU_TOKENIZER": "zh", "TOKENIZER_fr": "moses", "HIDDEN": "", "HOME": "/root"}
    found = in_environment(given, ("en", "fr"))
    assert sorted(found) == ["--bleu-tokenizer=zh", "--target-tokenizer=moses"]


# --- the command --------------------------------------------------------------------------------

MISTAKES = {
    "--source @/a.en": "name the two text files",
    "--source @/a.en --target @/b.en": "must name two languages",
    "--pairs @/a.en": "must name two languages",
    "--source @/a.en --target @/a.fr --test @/x": "there is no file",
    "--corpus @ --languages en,fr": "train.en cannot be read",
    "--corpus @ --languages en,fr --mix @/x": "--mix go without --corpus",
    "--source @/a.en --target @/a.fr": "a.en: only 1 usable pair for train",
    "--source @/a.en --target @/a.fr --work @": "has other things in it (a)",
    "--source @/empty.en --target @/a.fr": "empty.en has 0 lines but @/a.fr has 1 line",
    "--finish --source @/twenty.en --target @/twenty.fr": "has no training with a checkpoint",
    "--corpus @/corpus --languages en,fr": "valid.en has 1 line but @/corpus/valid.fr has 2 lines",
    "--from @/a --pairs @/a.en": "--from @/a is a checkpoint",
    "--from en-fr --pairs @/a.en --languages fr,en": "--from en-fr translates en to fr",
    "--from en-fr --source @/twenty.en --target @/twenty.fr --hidden 8": "--from has 256",
    "--sauce": "unrecognized arguments: --sauce",
}


@pytest.mark.parametrize("given", MISTAKES)
def test_mistakes_make_nothing(tmp_path, given, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for file in ("a.en", "a.fr", "b.en", "a"):
        (tmp_path / file).write_text(f"{file}\n")
    for language in ("en", "fr"):
        (tmp_path / f"twenty.{language}").write_text("".join(f"line {n}\n" for n in range(25)))
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


def test_a_step_is_done_once_and_appears_whole(tmp_path):
    work, made = Work(tmp_path / "work"), []

    def make(out):
        out.write_text("half")
        made.append(out)
        if len(made) == 1:
            raise KeyboardInterrupt
        out.write_text("whole")

    output = work.folder / "file"
    step = Step("make it", make, output)
    with work.locked(), pytest.raises(SystemExit):
        work.do(step)
    assert not output.exists()
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


ENDS = {  # how a program ends, and the status of the training
    "raise SystemExit(3)": None,  # a UserError, which names the log
    "raise SystemExit(130)": 130,
    "print('Stopped by SIGUSR1 @ 7 updates; the')": 138,
    "import os, signal, time; os.kill(os.getppid(), signal.SIGTERM); time.sleep(60)": 143,
}


@pytest.mark.parametrize("code", ENDS)
def test_a_program_that_fails_or_is_interrupted_leaves_the_step_unfinished(tmp_path, code):
    work = Work(tmp_path)
    step = Step("train", lambda out: (work.run("x", ["-c", code]), out.touch()), tmp_path / "a")
    with work.locked(), pytest.raises((UserError, SystemExit)) as ended:
        work.do(step)
    assert getattr(ended.value, "code", None) == ENDS[code] and not (tmp_path / "a").exists()


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


@pytest.mark.parametrize("is_split", [True, False])
def test_a_folder_goes_on_with_its_own_text_and_tokens_alone(
    tmp_path, monkeypatch, is_split, capsys
):
    """The same pairs, of which one has moved to another part, are another text."""
    monkeypatch.setattr(Training, "prepare_text", lambda _: [])
    write_text(tmp_path, train=60, valid=9, test=9)
    files = f"--source={tmp_path}/train.en --target={tmp_path}/train.fr"
    files += f" --valid={tmp_path}/valid --test={tmp_path}/test"
    given = f"--corpus={tmp_path} --languages=en,fr" if is_split else files
    again = [*given.split(), f"--work={tmp_path}/work", "--stop-after=text"]
    main(again)
    main([*again, "--target-tokenizer=reversible", "--beam=1"])
    main([*again[:-1], "--dry-run"])
    assert "; left to do: train" in capsys.readouterr().err
    remembered = tmp_path / "work" / "training-settings"
    remembered.write_text(remembered.read_text().replace("LONGEST=50", "LONGEST=40"))
    main([*again, "--dry-run"])  # as with another default of an older version
    with pytest.raises(UserError, match="now --target-tokenizer space instead of reversible"):
        main([*again, "--target-tokenizer=space", "--dry-run"])
    with pytest.raises(UserError, match="now TOKENIZER_fr=space instead of reversible"):
        main([*again, "--dry-run"], {"TOKENIZER_fr": "space"})
    train = tmp_path / "train.en"
    train.write_text(train.read_text().replace("red", "blue"))
    with pytest.raises(UserError, match="other settings, now text with the digest "):
        main(again)
    write_text(tmp_path, train=60)
    for language in ("en", "fr"):
        train, valid = (tmp_path / f"{part}.{language}" for part in ("train", "valid"))
        *pairs, last = train.read_text().splitlines(keepends=True)
        train.write_text("".join(pairs))
        valid.write_text(last + valid.read_text())
    with pytest.raises(UserError, match="other settings, now"):
        main(again)


def test_what_a_work_folder_may_be(tmp_path):
    work = Work(tmp_path / "new")
    assert not work.folder.exists()  # until it is used
    in_use = pytest.raises(UserError, match="new is in use by another training")
    with work.locked(), in_use, Work(tmp_path / "new").locked():
        pass
    work.remember({"HIDDEN": "24"})
    work.check({"HIDDEN": "24", "NEWER": "1"})


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
def test_r_drop_comes_after_bpe_dropout(tmp_path, given, monkeypatch):
    commands = commands_of(monkeypatch)
    monkeypatch.setattr(Training, "folders", lambda self: [])
    monkeypatch.setattr(Training, "_lengths_of_training", lambda self: [99])
    steps = training(tmp_path, **read(given)).train()
    for step in steps:
        step.make(*filter(None, [step.output]))
    found = [re.findall("--(?:rdrop|max-e)[a-z-]* [^ ]+", " ".join(map(str, x))) for x in commands]
    assert dict(zip((s.name for s in steps), found, strict=True)) == TRAININGS[given]


def test_each_setting_of_a_training_reaches_fairseq():
    def options(**given):
        return for_settings(Settings(**read(given)), ["data"], "saved")

    of_training = {*groups()["model"], *groups()["training"]}
    # R-Drop begins later, and the start joins the mean after the training
    for name in of_training - {"rdrop", "average_start"}:
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
    told = " ".join(map(str, for_settings(Settings(**read(given)), ["data"], "saved")))
    names = r"cost-scale|optimizer|total\S+|\S*best-checkpoint-metric|eval-bleu(?!-args)\S*"
    assert " ".join(re.findall(rf"--(?:{names})(?: [^-]\S*)?", told)) == OPTIMIZED[given]


NAMED = {  # what translates, and where to
    "": "checkpoints/checkpoint_best.pt translations-best-beam5-length1-forbid",
    "evaluate=valid checkpoint=average length_penalty=0.6": (
        "average-of-5.pt valid-translations-average-beam5-length0.6-forbid"
    ),
}


@pytest.mark.parametrize("given", NAMED)
def test_translations_are_named_by_their_settings(tmp_path, given):
    found = training(tmp_path, **read(given))
    model, translations = (tmp_path / name for name in NAMED[given].split())
    assert (found.models(), found.translations) == (str(model), translations)


def test_an_ensemble_names_its_models(tmp_path):
    a, b, best = tmp_path / "a", tmp_path / "b", "checkpoints/checkpoint_best.pt"
    for folder in (a, b):
        for name in (".done", "checkpoints"):
            (folder / name).mkdir(parents=True)
        (folder / best).touch()
    together = training(a, ensemble=str(b))
    assert together.models() == f"{a}/{best}:{b}/{best}"
    name = together.translations.name
    assert re.fullmatch("translations-best-beam5-length1-forbid-with-b-[0-9a-f]{8}", name)
    (b / best).write_text("trained anew")
    assert training(a, ensemble=str(b)).translations.name != name


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
    commands = commands_of(monkeypatch)
    training(tmp_path)._average(tmp_path / "out")
    assert commands[0][2:] == [
        tmp_path / "out",
        *(tmp_path / "checkpoints" / name for name in names),
    ]


def test_a_begun_training_is_finished_with_the_checkpoints_that_it_has(tmp_path, monkeypatch):
    """Also one that was stopped before its first validation; its model says that it was."""
    commands = commands_of(monkeypatch)
    saved = f"Saved checkpoint {tmp_path}/checkpoint_last.pt (epoch 1 @ {{}} updates, score None)\n"
    for folder in ("checkpoints", "logs", ".done"):
        (tmp_path / folder).mkdir()
    (tmp_path / "logs/train.log").write_text(saved.format(40) + saved.format(90))
    best, last = (tmp_path / f"checkpoints/checkpoint_{name}.pt" for name in ("best", "last"))
    assert not saved_updates(tmp_path)  # the checkpoint was removed
    last.touch()
    assert validation_of(last) == {}  # another program's
    stopped = {"updates": 90, "planned": 500}
    begun = training(tmp_path, updates=500, bpe_dropout_epochs=1, rdrop=1, checkpoint="average")
    begun.work.remember({"UPDATES": "500"})
    assert validation_of(last) == stopped
    first, second, average = begun.train(finish=True)
    for step in (first, second):
        begun.work.do(step)
    average.make(tmp_path / "average")
    assert [command[3:] for command in commands] == [[best]] and best.resolve() == last
    quality.keep(tmp_path, {"BLEU": 8.0})
    assert validation_of(best) == {**stopped, "BLEU": 8.0}
    (tmp_path / "validation.json").unlink()
    assert validation_of(best) == {}  # one that came to its end before this file was written


@pytest.mark.parametrize(
    ("validation", "said"),
    [
        ({}, 0), ({"BLEU": 12, "token_score_10": -1.1}, 0), ({"BLEU": 8}, 1),
        ({"updates": 90, "planned": 500}, 1), ({"updates": 90, "planned": 500, "BLEU": 8}, 2),
    ],
)  # fmt: skip
def test_a_model_says_why_its_translations_may_be_bad(validation, said):
    assert len((quality.warning_of(validation) or "").split("; ")) == max(said, 1)
    assert bool(quality.warning_of(validation)) == bool(said)


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
    found = training(tmp_path, **read(given))
    found._binarise(tmp_path / "data")
    found._keep_words(tmp_path / "words")
    data, words = (" ".join(map(str, command)) for command in commands)
    assert re.findall(r"--threshold\w+ \d|--data\S+ \w+", data) == PREPARED[given][0]
    assert re.findall(r"--data\S+ \w+|--\w+pref", words) == PREPARED[given][1]


TRANSLATED = {  # what fairseq-generate is told, by settings
    "": "--gen-subset test --beam 5 --lenpen 1 --forbid-unk --post-process subword_nmt"
    " --heatmap-samples 50",
    "unknown=replace vocabulary=shortlist beam=3 length_penalty=0.6 drawn=2": (
        "--dataset-impl raw --gen-subset test --beam 3 --lenpen 0.6 --replace-unk"
        " --heatmap-samples 2"
    ),
    "unknown=keep model=rnnencdec evaluate=valid": (
        "--gen-subset valid --beam 5 --lenpen 1 --post-process subword_nmt"
    ),
}


@pytest.mark.parametrize("given", TRANSLATED)
def test_settings_of_translation_reach_fairseq(tmp_path, given, monkeypatch):
    commands = commands_of(monkeypatch)
    monkeypatch.setattr(stages, "_translations", lambda _: [])
    monkeypatch.setattr(Training, "_write_text", lambda *_: None)
    training(tmp_path, **read(given))._translate(tmp_path / "out")
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
    found = training(tmp_path, bpe_copies=3, updates=60, batch_size=2, **read(given))
    (tmp_path / "subwords").mkdir()
    (tmp_path / "subwords/train-0.en").write_text("a\nb b\nc c c\nd d\n")
    (tmp_path / "subwords/train-0.fr").write_text("A\nB B\nC C\nD D D\n")
    data = tmp_path / "data"
    assert found.folders() == [data / copy if copy else data for copy in EPOCHS[given]]


def subwords_of(tmp_path, texts, **settings):
    """The folder of these texts' subwords; all parts are the same."""
    tokens, out = tmp_path / "tokens", tmp_path / "subwords"
    tokens.mkdir()
    write_settings(tokens, {language: {"tokenizer": "space"} for language in texts})
    for part, (language, text) in product(PARTS, texts.items()):
        (tokens / f"{part}.{language}").write_text(text)
    make_subwords(tokens, out, ("en", "fr"), ("en", "fr"), Settings(**settings))
    return out


@pytest.mark.parametrize("joint", [True, False])
def test_languages_share_merges_or_have_their_own(tmp_path, joint):
    texts = {"en": "nation\n" * 9, "fr": "maison\n" * 9}
    out = subwords_of(tmp_path, texts, bpe_merges=4, bpe_joint=joint)
    english, french = ((out / f"codes.{language}").read_text() for language in ("en", "fr"))
    assert (english == french) == joint
    assert settings_of(out)["fr"]["bpe_codes"] == "codes.fr"


def test_longest_counts_without_bpe_dropout_and_150_characters(tmp_path):
    text, settings = "nation nation\nnation nation nation\n", {"bpe_merges": 9, "longest": 2}
    settings |= {"tokenizer": "space", "bpe_dropout": 0.9, "bpe_copies": 2}
    out = subwords_of(tmp_path, {"en": text, "fr": text}, **settings)
    for language in ("en", "fr"):  # the second after dropout on the first one's words
        assert (out / f"train-0.{language}").read_text() == "nation nation\n"
        assert (out / f"valid.{language}").read_text() == text
        one, two = ((out / f"train-{copy}.{language}").read_text() for copy in (1, 2))
        assert one != two and one.replace("@@ ", "") == "nation nation\n"
        assert (out / f"train.{language}").read_text().count("\n") == 6  # for the dictionary
    assert "at least 1 of 2 training pairs longer than --longest 2 " in too_long(
        Settings(**settings), [("a", "b b b"), ("a", "b")]
    )
    given = {"tokenizer": "space", "target_tokenizer": "character"}, {"tokenizer": "character"}
    assert [read(one)["longest"] for one in (*given, {**given[1], "longest": 50})] == [150, 150, 50]


@pytest.mark.parametrize(
    ("references", "has_bleu"),
    [("a\nb\n", False), ("a\nb c d e\n", True), ("a\n" * 19 + "b c d e\n", False)],
)
def test_single_words_have_a_score(tmp_path, references, has_bleu, monkeypatch, capsys):
    found, scored, lines = training(tmp_path), [], references.count("\n")
    monkeypatch.setattr(Training, "_score", lambda self, _, *options: scored.append(options) or {})
    (tmp_path / "corpus").mkdir()
    found.translations.mkdir()
    for name, text in (
        ("corpus/test.en", "A\n" * lines), ("corpus/test.fr", references),
        (found.translations / "text.fr", "a\n" + "c\n" * (lines - 1)),
        (found.translations / "generate-test.txt", "P-1\t-2 -1\nP-0\t-0.5 -0.5\n"),
    ):  # fmt: skip
        (tmp_path / name).write_text(text)
    found.report()
    assert f"1 of {lines} translations equal to the reference" in capsys.readouterr().out
    assert json.loads((tmp_path / "validation.json").read_text()) == {"token_score_10": -1.5}
    assert ["bleu" in options for options in scored] == ([False, True] if has_bleu else [False])


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


@pytest.fixture
def model(tmp_path, learned):
    """The folder of a model with merges that leave its words whole, stored as int8."""
    data = shutil.copytree(learned.corpus.data, tmp_path / "data")
    text = {learned.corpus.text / f"train.{language}": True for language in ("en", "fr")}
    (data / "codes").write_text(learn_codes(text, 500))
    settings = {"tokenizer": "reversible", "bpe_codes": "codes", "case_and_digits": True}
    write_settings(data, {"en": settings, "fr": settings})
    to_folder(str(learned.checkpoint), str(data), tmp_path / "model", "int8", licence="public")
    return tmp_path / "model"


@pytest.mark.slow
def test_a_model_learns_from_new_pairs(tmp_path, model):
    """Every noun is "boat" now; of "Zebra" the model knows no character."""
    nouns = [noun.split(":") for noun in NOUNS]
    pairs = [f"{one} {other}\tbateau {fr}\n" for one, _ in nouns for other, fr in nouns]
    (tmp_path / "mine.tsv").write_text("".join(pairs) + "Zebra house\tbateau maison\n")
    (model / "pairs.tsv.gz").write_bytes(gzip.compress(b"old house\tvieille maison\n"))
    options = f"--pairs={tmp_path}/mine.tsv --work={tmp_path}/work --licence=mine --drawn=1"
    options += f" --from={model} --learning-rate=0.01 --updates=60 --batch-size=8 --checkpoint=best"
    main(command := options.split())
    assert load(model).translate("tree key").text != "bateau clé"
    found = tmp_path / "work" / "model"
    assert load(found).translate("tree key").text == "bateau clé"
    config = json.loads((found / "config.json").read_text())
    assert config["weights"] == "int8" and config["licence"] == "public; mine"
    assert settings_of(found)["fr"] == settings_of(model)["fr"] | {"bpe_codes": "codes.fr"}
    assert "old house\n" in (tmp_path / "work" / "corpus" / "train.en").read_text()
    for name in ("codes.en", "dict.fr.txt", "pairs.tsv.gz"):
        assert (found / name).read_bytes() == (model / name).read_bytes()
    with pytest.raises(UserError, match="now --from"):
        main([*command, f"--from={found}"])
