"""The corpus of the everyday recipe: nothing of the test or validation set is in training."""

import gzip
import shutil
import zipfile
from itertools import product

import pytest
from commands import ROOT, call
from text_files import read_pairs, write_pairs

from fairseq_rnnsearch import load
from fairseq_rnnsearch.models.find import find_model

PROGRAM = ROOT / "recipes" / "everyday" / "corpus.py"
MIX, CARRY_OVER = PROGRAM.with_name("mix.py"), PROGRAM.with_name("carry_over.py")
PAIRS = [(f"Sentence {i}.", f"Phrase\N{NARROW NO-BREAK SPACE}{i} !") for i in range(40)]
TWICE = [("Sentence 1.", "Encore."), PAIRS[7]]
TEST = [("sentence 3.", "Autre chose."), ("Something else.", "phrase 5 !")]


@pytest.fixture
def laid_out(tmp_path):
    archive, out = tmp_path / "fra-eng.zip", tmp_path / "out"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("fra.txt", "".join(f"{en}\t{fr}\tCC-BY 2.0\n" for en, fr in [*PAIRS, *TWICE]))
    write_pairs(TEST, tmp_path, "test")

    def lay_out(target, valid):
        sides = "--target", target, "--test", tmp_path / "test"
        return call(PROGRAM, "--archive", archive, *sides, "--valid", valid, "--out", out)

    return lay_out, out


def test_no_sentence_is_on_two_sides_of_the_split(laid_out):
    lay_out, out = laid_out
    assert "left out: 3 of 42 pairs" in lay_out("fr", 5).out
    train, valid, test = (read_pairs(out / split) for split in ("train", "valid", "test"))
    assert test == TEST and len(train) + len(valid) == 39  # of 42, a repetition and two are out
    assert len({english for english, _ in valid}) == 5
    for first, second in ((train, valid), (train, test), (valid, test)):
        for side in (0, 1):
            kept = {" ".join(pair[side].casefold().split()) for pair in first}
            assert not kept & {" ".join(pair[side].casefold().split()) for pair in second}


def test_the_target_has_plain_spaces_and_the_source_what_people_write(laid_out):
    lay_out, out = laid_out
    for target, space in (("fr", " "), ("en", "\N{NARROW NO-BREAK SPACE}")):
        lay_out(target, 5)
        pairs = read_pairs(out / "train") + read_pairs(out / "valid")
        assert f"Phrase{space}8 !" in dict(pairs).values()


def test_a_corpus_that_is_too_small_is_refused(laid_out):
    lay_out, out = laid_out
    assert "too few to hold 20 out" in lay_out("fr", 20).error()
    assert not out.exists()


def test_translations_and_laws_join_the_training(laid_out, tmp_path):
    lay_out, out = laid_out
    lay_out("fr", 5)
    train, valid = read_pairs(out / "train"), read_pairs(out / "valid")
    said = [
        f"{number}\t-0.5\tLoin\t\n{number}\t-0.6\tPar un modèle {english.split()[1]}\t"
        for number, (english, _) in enumerate(train, 1)
    ]
    said[0] = said[0].replace("-0.5", "-3")  # the worst of them
    said[1] = said[1].replace("Par un modèle ", "Un autre numéro 9")
    said[2] = f"3\t-0.5\t{valid[0][1]}\t"
    toms = [("Tom runs", "Tom court"), ("Tom eats", "Tom mange")]
    said += [f"{number}\t-0.5\t{french}\t" for number, (_, french) in enumerate(toms, 1000)]
    (tmp_path / "said.en").write_text("\n".join(said) + "\n")
    (tmp_path / "other.en").write_text("".join(f"{english}\n" for english, _ in toms))
    laws = [("One law.", "Une loi à trois."), ("Law 1 is good.", "La loi 2 est bonne.")]
    rows = "".join("\t".join(["act", *law]) + "\n" for law in laws)
    (tmp_path / "laws.gz").write_bytes(gzip.compress(rows.encode()))
    call(
        *(MIX, "--base", out, "--target", "fr", "--out", tmp_path / "mixed"),
        *("--translated", tmp_path / "said.en", "--sentences", tmp_path / "other"),
        *("--laws", tmp_path / "laws.gz"),
    ).ok()
    by_model = {(english, f"Par un modèle {english.split()[1]}") for english, _ in train[3:]}
    known, mixed = {*train, *by_model, *toms, laws[0]}, {*read_pairs(tmp_path / "mixed" / "train")}
    twice = {(f"{a} {c}", f"{b} {d}") for (a, b), (c, d) in product(known, known)}
    upper, lower = ({(a, b) for a, b in mixed if rule(a)} for rule in (str.isupper, str.islower))
    [(english, french)] = mixed - known - twice - upper - lower
    assert english.split()[0] == french.split()[0] != "Tom" and known <= mixed
    assert (len(upper), len(lower), len(twice & mixed)) == (5, 1, 3)
    assert (
        all(text.isupper() for _, text in upper) and read_pairs(tmp_path / "mixed/valid") == valid
    )


def test_a_model_keeps_what_it_knows_in_another_vocabulary(tmp_path):
    data = tmp_path / "data"
    shutil.copytree(find_model("en-fr"), data)
    for file in data.glob("dict.*"):
        words = file.read_text().splitlines(keepends=True)
        file.write_text("".join([*words[::-1], "quixotic 10\n", "quixotry 9\n"]))
    call(CARRY_OVER, "--model", "en-fr", "--data", data, "--out", tmp_path / "new").ok()
    words = {line.split()[0] for line in (tmp_path / "new" / "dict.en.txt").open()}
    assert words & {"quixotic", "quixotry"} == {"quixotic"}
    sentence = "Could you tell me where the station is?"
    told = [load(name).translate(sentence) for name in ("en-fr", str(tmp_path / "new"))]
    assert told[0].text == told[1].text
    assert told[0].score == pytest.approx(told[1].score, abs=0.01)
