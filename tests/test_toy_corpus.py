"""The quickstart's corpus: one French for each English, nothing occurs twice."""

import hashlib
import itertools
import sys

from commands import ROOT, run_process

sys.path.insert(0, str(ROOT / "recipes" / "quickstart"))

import toy_corpus

FEW = {"train": 60, "valid": 10, "test": 10}
OF_SEED_4 = "35a4e8b31a7bb5a1c13505a8c9e126d1d7a455f152f59012d221102098549627"  # and so many


def test_one_english_has_one_french():
    corpus = toy_corpus.split_corpus(train=6_000, valid=100, test=100, seed=3)
    french = {}
    for pair in itertools.chain(*corpus.values()):
        assert french.setdefault(*pair) == pair.french, pair


def test_splits_share_no_english_side():
    corpus = toy_corpus.split_corpus(**FEW, seed=5)
    assert {split: len(pairs) for split, pairs in corpus.items()} == FEW
    english = [pair.english for pairs in corpus.values() for pair in pairs]
    assert len(set(english)) == sum(FEW.values())
    assert corpus["valid"][:4] == toy_corpus.SHOWN


def test_as_a_program(tmp_path):
    """The same bytes as ever: whatever order Python gives its sets, and without any package."""
    sizes = [word for split, size in FEW.items() for word in (f"--{split}", str(size))]
    command = [sys.executable, "-S", toy_corpus.__file__, "--seed", "4", *sizes]
    run_process([*command, "--out", tmp_path], check=True, env={"PYTHONHASHSEED": "1"})
    files = [tmp_path / f"{split}.{side}" for split in FEW for side in ("en", "fr")]
    text = b"".join(file.read_bytes() for file in files)
    assert hashlib.sha256(text).hexdigest() == OF_SEED_4
    assert [file.read_bytes().count(b"\n") for file in files] == [60, 60, 10, 10, 10, 10]
