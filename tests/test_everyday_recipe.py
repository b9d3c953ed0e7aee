"""The corpus of the everyday recipe: nothing of the test or validation set is in training."""

import zipfile

import pytest
from commands import ROOT, call

PROGRAM = ROOT / "recipes" / "everyday" / "corpus.py"
PAIRS = [(f"Sentence {i}.", f"Phrase\N{NARROW NO-BREAK SPACE}{i} !") for i in range(40)]
TEST = [("sentence 3.", "Autre chose."), ("Something else.", "phrase 5 !")]


@pytest.fixture
def laid_out(tmp_path):
    archive, pairs = tmp_path / "fra-eng.zip", [*PAIRS, ("Sentence 1.", "Encore."), PAIRS[7]]
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("fra.txt", "".join(f"{en}\t{fr}\tCC-BY 2.0\n" for en, fr in pairs))
    for side, language in enumerate(("en", "fr")):
        (tmp_path / f"test.{language}").write_text("".join(f"{pair[side]}\n" for pair in TEST))

    def lay_out(target, valid):
        files = ["--out", tmp_path / "out", "--archive", archive, "--test", tmp_path / "test"]
        return call(PROGRAM, *files, "--target", target, "--valid", valid)

    return lay_out, tmp_path / "out"


def read(folder, split):
    sides = [(folder / f"{split}.{side}").read_text().splitlines() for side in ("en", "fr")]
    return list(zip(*sides, strict=True))


def test_no_sentence_is_on_two_sides_of_the_split(laid_out):
    lay_out, out = laid_out
    said = lay_out("fr", 5).out
    train, valid, test = (read(out, split) for split in ("train", "valid", "test"))
    assert test == TEST and len(train) + len(valid) == 39  # of 42, a repetition and two are out
    assert "left out: 3 of 42 pairs" in said
    assert len({english for english, _ in valid}) == 5
    for first, second in ((train, valid), (train, test), (valid, test)):
        for side in (0, 1):
            kept = {" ".join(pair[side].casefold().split()) for pair in first}
            assert not kept & {" ".join(pair[side].casefold().split()) for pair in second}


def test_the_target_has_plain_spaces_and_the_source_what_people_write(laid_out):
    lay_out, out = laid_out
    for target, space in (("fr", " "), ("en", "\N{NARROW NO-BREAK SPACE}")):
        lay_out(target, 5)
        french = {french for split in ("train", "valid") for _, french in read(out, split)}
        assert f"Phrase{space}8 !" in french


def test_a_corpus_that_is_too_small_is_refused(laid_out):
    lay_out, out = laid_out
    assert "too few to hold 20 out" in lay_out("fr", 20).error()
    assert not out.exists()
