"""The recipe for one's own text: its pairs to a model, translations, scores and heatmaps."""

import lzma
import os
import re
import sys
from pathlib import Path

import pytest
from commands import PACKAGE, ROOT, TINY_MODEL, run_process, write_text

RECIPE = ROOT / "recipes" / "own_data" / "run.sh"
TINY = {
    **TINY_MODEL,
    "LEARNING_RATE": "0.01",
    "WARMUP": "1",
    "BATCH_SIZE": "20",
    "VOCABULARY": "shortlist",
    "MIN_COUNT": "1",
    "UPDATES": "900",
    "BEAM": "3",
    "DRAWN": "2",
}


def run(*arguments, **environment):
    return run_process(
        ["bash", RECIPE, *arguments],
        env={**os.environ, "OMP_NUM_THREADS": "1", "VENV": sys.prefix, **environment},
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    if not (Path(sys.prefix) / "installed").exists():
        pytest.skip("the recipes make their own environment, and these tests run in another one")
    folder = tmp_path_factory.mktemp("own data")  # with a space
    write_text(folder, train=640)
    files = "--source", folder / "train.en", "--target", folder / "train.fr"
    settings = {**TINY, "WORK": str(folder / "work")}
    return folder, files, settings, run(*files, **settings)


def bleu(text):
    return [float(score) for score in re.findall(r"version:[\d.]+ = ([\d.]+) ", text)]


@pytest.mark.slow
def test_two_files_become_a_translator(finished):
    folder, _, _, first = finished
    assert first.returncode == 0, first.stderr
    assert len(bleu(first.stdout)) == 2 and min(bleu(first.stdout)) > 80
    assert first.stdout.count("\n  chrF2|") == 1
    work = folder / "work"
    (translations,) = work.glob("translations-*")
    assert (translations / "alignments" / "index.html").exists()
    assert (work / "data" / "preprocessing.json").exists()


@pytest.mark.slow
def test_again_it_does_nothing_and_other_settings_are_refused(finished):
    _, files, settings, first = finished
    again = run(*files, **settings)
    assert again.returncode == 0 and bleu(again.stdout) == bleu(first.stdout)
    assert again.stderr.count("done before") == 6 and "done in" not in again.stderr
    other = run(*files, **{**settings, "HIDDEN": "25"})
    assert other.returncode == 1
    assert "was made with other settings, now HIDDEN=25" in other.stderr.splitlines()[-1]


SMALLER = {"updates": 4, "hidden": 8, "embedding": 8, "attention": 8, "maxout": 8, "bpe-copies": 2}
SMALLER |= {"drawn": 1, "beam": 2}


@pytest.mark.slow
def test_the_manual_s_commands_make_a_model_of_text(tmp_path):
    """As they stand there, with smaller numbers."""
    page = (PACKAGE / "manual" / "train.md").read_text()
    commands = page.partition("\n## Your own text\n")[2].split("```")[1]
    smaller = " ".join(f"--{name} {value}" for name, value in SMALLER.items())
    commands = commands.removeprefix("bash\n").replace(
        "rnnsearch-train", f"rnnsearch-train {smaller}"
    )
    text = write_text(tmp_path / "written", train=90)
    for language in ("en", "fr"):
        (text / f"train.{language}").rename(tmp_path / f"corpus.{language}")
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    ended = run_process(
        ["bash", "-euo", "pipefail", "-c", commands],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PATH": path},
    )
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "my-model" / "model.safetensors").exists()
    assert (tmp_path / "my-work" / "living-average.html").stat().st_size > 100_000


def test_languages_as_people_write_them(tmp_path):
    """In names such as corpus.en.txt, with regions and digits; fairseq would part at a hyphen."""
    for name in ("a.en.txt", "a.pt-BR", "valid.en.txt", "valid.pt-BR"):
        (tmp_path / name).write_text("".join(f"line {n} of {name}\n" for n in range(90)))
    packed = lzma.compress((tmp_path / "valid.pt-BR").read_bytes())
    (tmp_path / "valid.pt-BR").unlink()
    (tmp_path / "valid.pt-BR.xz").write_bytes(packed)
    files = "--source", tmp_path / "a.en.txt", "--target", tmp_path / "a.pt-BR"
    shown = run(*files, "--valid", tmp_path / "valid", "--dry-run")
    assert shown.returncode == 0, shown.stderr
    assert "  pt_BR: 360 words\n" in shown.stderr and "valid: 90 pairs" in shown.stderr
    named = run(*files, "--languages", "en1, zh_TW", "--dry-run")
    assert "  zh_TW: 360 words\n" in named.stderr


def test_a_setting_is_a_number_and_never_run(tmp_path):
    """In bash's arithmetic a subscript is evaluated, commands in it too."""
    for language in ("en", "fr"):
        (tmp_path / f"a.{language}").write_text("".join(f"{n} {language}\n" for n in range(40)))
    files = "--source", tmp_path / "a.en", "--target", tmp_path / "a.fr"
    ended = run(*files, "--dry-run", BATCH_SIZE=f"a[$(touch {tmp_path}/trace)]")
    assert ended.returncode == 2
    assert "--batch-size" in ended.stderr and "a[$(touch" in ended.stderr
    assert not (tmp_path / "trace").exists()
