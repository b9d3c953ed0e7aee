"""The WMT'14 recipe as a user runs it, offline, on tiny archives with the real names."""

import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from commands import SCRIPTS, run_process
from wmt14 import DOMAINS, RECIPE, corpus, make_archives, sentences, serving

LANGUAGES = ("en", "fr")
COMMANDS = "fairseq-preprocess", "fairseq-train", "fairseq-generate", "subword-nmt"
SHORTLIST = 12
SETTINGS = {
    "VENV": "none",
    "PYTHON": sys.executable,
    "PROCESSES": "1",
    "KEEP_WORDS": "300",
    "SHORTLIST": str(SHORTLIST),
    "BPE_MERGES": "30",
    "BPE_SAMPLE": "20",
    "DOWNLOAD_TRIES": "1",
}

# Stands for a command: notes that it was called and runs it. With KILL_AT it then damages what
# was written under a temporary name and kills everything, as a power cut might.
STAND_IN = """#!/bin/bash
name={name}
[[ $name != python || $1 != *.py ]] || name=$(basename "$1")
echo "$name" >>"$CALLS"
status=0
[[ $name = "$KILL_AT" && $name = fairseq-preprocess ]] || {real} "$@" || status=$?
if [[ $name = "$KILL_AT" ]]; then
    mkdir -p "$WORK/data.partial"
    find "$WORK" -path '*.partial/*' -type f -exec truncate --size=5 {{}} +
    kill -KILL 0
fi
exit $status
"""


class Recipe:
    """The recipe in a work folder, with the commands that it calls."""

    def __init__(self, folder: Path, mirror: str, table: Path) -> None:
        self.work = folder / "work"
        self.bin, self.calls = folder / "bin", folder / "calls"
        self.bin.mkdir(parents=True)
        for name in ("python", *COMMANDS):
            real = sys.executable if name == "python" else SCRIPTS / name
            (self.bin / name).write_text(STAND_IN.format(name=name, real=real))
            (self.bin / name).chmod(0o755)
        self.environment = {
            **{k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VENV")},
            **SETTINGS,
            "WORK": str(self.work),
            "MIRROR": mirror,
            "ARCHIVE_TABLE": str(table),
            "CALLS": str(self.calls),
            "KILL_AT": "",
            "PATH": f"{self.bin}:/usr/bin:/bin",
        }

    def run(self, *options: str, **settings: str) -> subprocess.CompletedProcess:
        self.calls.write_text("")
        options = options or ("--to", "binarise")  # the others train
        return run_process(
            ["bash", RECIPE / "run.sh", *options],
            env=self.environment | settings,
            start_new_session=True,
            timeout=1500,
        )

    def ok(self, *options: str, **settings: str) -> str:
        ran = self.run(*options, **settings)
        assert ran.returncode == 0 and "Traceback" not in ran.stderr, ran.stderr[-3000:]
        return ran.stderr + ran.stdout

    def error(self, *options: str, **settings: str) -> str:
        """The one line that says what is wrong."""
        ran = self.run(*options, **settings)
        assert ran.returncode == 1 and "Traceback" not in ran.stderr, ran.stderr[-3000:]
        lines = [line for line in ran.stderr.splitlines() if "error: " in line]
        assert len(lines) == 1, ran.stderr[-3000:]
        return lines[0].partition("error: ")[2]

    def called(self) -> list[str]:
        return self.calls.read_text().split()

    def made(self) -> dict[str, str]:
        """What is there, by its path; without what tells of time."""
        return {
            str(path.relative_to(self.work)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in self.work.rglob("*")
            if path.is_file()
            and path.name not in ("report.json", "preprocess.log")
            and "logs" not in path.parts
        }

    def text(self, name: str) -> list[str]:
        return (self.work / name).read_text(encoding="utf-8").split("\n")[:-1]


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    """Content by path, and the table."""
    folder = tmp_path_factory.mktemp("archives")
    return make_archives(folder), folder / "archives.tsv"


# Of these, what uses it is slow, and `test_text_of_ones_own` starts the recipe in any case.
@pytest.fixture(scope="module")
def unbroken(archives, tmp_path_factory):
    """The recipe after one run without interruption."""
    files, table = archives
    with serving(files) as mirror:
        recipe = Recipe(tmp_path_factory.mktemp("unbroken"), mirror.address, table)
        recipe.ok()
    return recipe


@pytest.mark.slow
def test_the_test_sets_of_the_result(unbroken):
    for split, names in {
        "valid": ("newstest2012", "newstest2013"),
        "test-newstest2014": ["newstest2014"],
    }.items():
        domain = DOMAINS["news-commentary-v9"]
        expected = [ln for name in names for ln in sentences(domain, name, 30)[0]]
        assert unbroken.text(f"text/{split}/text.en") == expected
        assert len(unbroken.text(f"tokens/{split}/text.fr")) == len(expected)


@pytest.mark.slow
def test_the_news_is_selected(unbroken):
    rows = [ln.split("\t") for ln in unbroken.text("selected-300/selection.tsv")]
    kept = {row[0]: int(row[2]) for row in rows[1:]}
    assert kept["news-commentary-v9"] > 35
    assert kept["all"] - kept["news-commentary-v9"] < 10  # of 168
    words = sum(len(line.split()) for line in unbroken.text("selected-300/train.fr"))
    assert 290 < words <= 300 and words == int(rows[-1][4])
    assert len(unbroken.text("selected-300/train.en")) == kept["all"]


@pytest.mark.slow
def test_killed_in_every_stage_and_resumed(unbroken, archives, tmp_path):
    files, table = archives
    with serving(files) as mirror:
        recipe = Recipe(tmp_path, mirror.address, table)
        mirror.cut = [0, 0, 300]
        assert "training-parallel-un.tgz" in recipe.error()
        for program in ("extract.py", "tokenise.py", "score.py", "cut.py", "fairseq-preprocess"):
            assert recipe.run(KILL_AT=program).returncode == -signal.SIGKILL, program
        recipe.ok()
        ranges = [wanted for path, wanted in mirror.asked if wanted]
    assert ranges == ["bytes=300-"]
    # of the last run, and nothing before it; python tells the version of sacremoses
    assert recipe.called() == ["fairseq-preprocess", "python"]
    assert recipe.made() == unbroken.made()


@pytest.mark.slow
def test_text_of_ones_own(tmp_path, archives):
    for name, lines in {"a": corpus("un"), "v": sentences(DOMAINS["un"], "v", 5)}.items():
        for language, side in zip(LANGUAGES, lines, strict=True):
            (tmp_path / f"{name}.{language}").write_text("\n".join(side) + "\n", encoding="utf-8")
    recipe = Recipe(tmp_path / "recipe", "http://127.0.0.1:9", archives[1])
    a, v = (f"{tmp_path}/{n}.en:{tmp_path}/{n}.fr" for n in "av")
    texts = {"TRAIN_TEXT": f"{a} {v}", "VALID_TEXT": v, "KEEP_WORDS": "0"}
    recipe.ok("--to", "select", **texts, TEST_TEXT=f"news={v} {a}")
    assert recipe.text("tokens/test-news/text.fr") == recipe.text("tokens/valid/text.fr")
    assert len(recipe.text("tokens/test-own-2/text.fr")) == 45  # nothing is left out of a test set
    assert "score.py" not in recipe.called() and "download.py" not in recipe.called()
    assert len(recipe.text("selected-0/train.en")) == 42 + 5
    assert recipe.text("selected-0/train.fr")[42:] == recipe.text("tokens/valid/text.fr")


@pytest.mark.slow
def test_from_the_data_to_the_reports(unbroken, tmp_path):
    texts = {
        name: ":".join(str(unbroken.work / f"text/{part}/text.{ln}") for ln in LANGUAGES)
        for name, part in (("train", "un"), ("valid", "valid"), ("test", "test-newstest2014"))
    }
    recipe = Recipe(tmp_path, "http://127.0.0.1:9", unbroken.environment["ARCHIVE_TABLE"])
    settings = {
        **dict.fromkeys(("EMBEDDING", "HIDDEN", "ATTENTION", "MAXOUT"), "8"),
        **{"TRAIN_TEXT": texts["train"], "VALID_TEXT": texts["valid"]},
        "TEST_TEXT": f"news={texts['test']} {texts['valid']}",
        "MODELS": "RNNencdec-30 RNNsearch-50 RNNsearch-50*",
        **{"OPTIMIZER": "adam", "UPDATES": "6", "LONGEST_TRAINING": "12", "KEEP_WORDS": "0"},
        **{"BATCH_SIZE": "10", "BEAM": "2", "TRAIN_OPTIONS": "--heatmap-samples 0 --cpu"},
        "OTHER_SYSTEMS": f"Moses@news={recipe.work}/tokens/test-news/text.fr",
        "ALIGNMENT_IDS": "0",
    }
    recipe.ok("--to", "report", **settings)
    news, web = (
        next(recipe.work.glob(f"trained-*/report-{t}/report.md")) for t in ("news", "own-2")
    )
    names = ["RNNencdec-30", "RNNsearch-50", "RNNsearch-50\\*"]
    names += ["50, UNK by copy", "UNK by dictionary"]
    for report in (news, web):
        rows = [line for line in report.read_text().splitlines() if line.startswith("|")]
        assert all(any(name in row for row in rows) for name in names)
        moses = [row for row in rows if "Moses" in row]
        assert (report == news) == any("100.00" in row for row in moses)  # the reference itself
    (dictionary,) = recipe.work.glob("trained-*/dictionary-RNNsearch-50/dictionary")
    assert all(len(line.split()) == 2 for line in dictionary.read_text().splitlines())
    pieces = {**settings, "VOCABULARY": "bpe", "MODELS": "RNNsearch-50"}
    recipe.ok("--from", "binarise", **pieces)
    assert (recipe.work / "trained-bpe-30-0/report-news/report.md").exists()
    recipe.ok("--from", "train", **settings)
    assert not {"fairseq-train", "fairseq-generate"} & set(recipe.called())
