"""The quickstart's corpus: correct French, one French for each English, nothing occurs twice."""

import hashlib
import itertools
import sys

import pytest
from commands import ROOT, run_process

sys.path.insert(0, str(ROOT / "recipes" / "quickstart"))

import toy_corpus

FEW = {"train": 60, "valid": 10, "test": 10}
OF_SEED_4 = "35a4e8b31a7bb5a1c13505a8c9e126d1d7a455f152f59012d221102098549627"  # and so many


@pytest.fixture(scope="module")
def drawn():
    corpus = toy_corpus.split_corpus(train=6_000, valid=100, test=100, seed=3)
    return list(itertools.chain(*corpus.values()))


def test_one_english_has_one_french(drawn):
    french = {}
    for pair in drawn:
        assert french.setdefault(*pair) == pair.french, pair


def test_elision_is_never_missing(drawn):
    """Checked against a list of its own, so that a slip in the grammar's shows."""
    vowels = tuple("aeiouhâàéèêîôœ")
    aspirated = {"hache", "haches", "hibou", "hiboux", "héros", "huit", "onze"}
    for _, french in drawn:
        words = french.split()
        for word, following in itertools.pairwise(words):
            is_vowel = following.startswith(vowels) and following not in aspirated
            if word in ("le", "la", "de", "ne", "je", "me", "que", "du", "au"):
                assert not is_vowel, french
            if word in ("ma", "sa", "ce", "beau", "nouveau"):
                assert not is_vowel, french
            if word.endswith("'"):
                assert is_vowel or following == "y" or word == "s'", french
        pairs = set(itertools.pairwise(words))
        assert not {("de", "le"), ("de", "les"), ("à", "le"), ("à", "les")} & pairs, french


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
