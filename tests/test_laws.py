"""A corpus of documents is parted by document: `recipes/laws/split.py`."""

import gzip
import os
from pathlib import Path

from commands import ROOT, Finished, call, run_process

PROGRAM = Path(__file__).parents[1] / "recipes/laws/split.py"
WHENCE = {"train", "valid", "test", "long"}


def run(corpus: Path, out: Path, *options: str) -> Finished:
    return call(PROGRAM, corpus, "--out", out, *options)


def pack(path: Path, lines: list[str]) -> Path:
    path.write_bytes(gzip.compress("".join(line + "\n" for line in lines).encode()))
    return path


def test_no_document_is_in_two_parts_and_no_test_sentence_in_training(tmp_path):
    long = " ".join(["word"] * 41)
    lines = ["big\tshared\tcommun"]
    for document in range(40):
        lines += [f"{document}\t{document} {n}\tle {document} {n}" for n in range(5)]
        lines += [f"{document}\t{document} {long}\tle {document} {long}"]
        # These stand in every document, on one side or on both.
        lines += [f"{document}\tshared\tcommun", f"{document}\tshared\tpropre {document}"]
    lines += [f"big\tbig {n}\tgrand {n}" for n in range(20)]
    corpus = pack(tmp_path / "laws.tsv.gz", lines)
    sizes = "--valid 12 --test 12 --long 3 --largest 10".split()
    run(corpus, tmp_path / "out", *sizes).ok()
    parts = {
        part: [
            (tmp_path / f"out/{part}.{language}").read_text().splitlines()
            for language in ("en", "fr")
        ]
        for part in WHENCE
    }
    assert [len(parts[part][0]) for part in ("valid", "test", "long")] == [12, 12, 3]
    assert all(len(english.split()) > 40 for english in parts["long"][0])
    documents = {
        part: {side.split()[0] for side in parts[part][0] if side != "shared"} for part in WHENCE
    }
    for part in WHENCE:
        for other in WHENCE - {part}:
            assert documents[part].isdisjoint(documents[other])
    for held_out in ("valid", "test", "long"):
        for side in (0, 1):
            assert set(parts[held_out][side]).isdisjoint(parts["train"][side])
    assert "big" in documents["train"]


def test_refusals(tmp_path):
    corpus = pack(tmp_path / "laws.tsv.gz", ["one\tEnglish"])
    assert "laws.tsv.gz, line 1" in run(corpus, tmp_path).error()
    corpus = pack(tmp_path / "laws.tsv.gz", ["one\tEnglish\tfrançais"])
    assert "valid: only 1 pair" in run(corpus, tmp_path).error()


def test_the_recipe_lays_out_its_text_for_the_experiment(tmp_path):
    long = " ".join(["word"] * 41)
    corpus = pack(
        tmp_path / "laws.tsv.gz",
        [
            f"{document}\t{document} {n} {long if n > 20 else ''}\tle {document} {n}"
            for document in range(550)
            for n in range(26)
        ],
    )
    work = tmp_path / "work"
    given = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "VENV": "none"}
    given |= {"LAWS": str(corpus), "WORK": str(work)}
    run_process(["bash", PROGRAM.with_name("run.sh"), "--to", "extract"], env=given, check=True)
    texts = {path.name for path in (work / "experiment/text").iterdir()}
    assert texts == {"own-1", "valid", "test-laws", "test-long"}
    tested = (work / "experiment/text/test-laws/text.en").read_text().splitlines()
    assert tested == (work / "text/test.en").read_text().splitlines()
