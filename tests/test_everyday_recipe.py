"""The corpus of the everyday recipe: nothing of the test or validation set is in training."""

import gzip
import shutil
import zipfile

import pytest
from commands import ROOT, call

from fairseq_rnnsearch import load
from fairseq_rnnsearch.models.find import find_model

PROGRAM = ROOT / "recipes" / "everyday" / "corpus.py"
MIX, CARRY_OVER = PROGRAM.with_name("mix.py"), PROGRAM.with_name("carry_over.py")
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


def test_translations_and_laws_join_the_training(laid_out, tmp_path):
    lay_out, out = laid_out
    lay_out("fr", 5)
    train, valid = read(out, "train"), read(out, "valid")
    said = [
        f"{number}\t-0.5\tLoin\t\n{number}\t-0.6\tPar un modèle {english.split()[1]}\t"
        for number, (english, _) in enumerate(train, 1)
    ]
    said[0] = said[0].replace("-0.5", "-3")  # the worst of them
    said[1] = said[1].replace("Par un modèle ", "Un autre numéro 9")
    said[2] = f"3\t-0.5\t{valid[0][1]}\t"
    (tmp_path / "said.en").write_text("\n".join(said) + "\n")
    laws = [("One law.", "Une loi à trois."), ("Law 1 is good.", "La loi 2 est bonne.")]
    with gzip.open(tmp_path / "laws.gz", "wt") as file:
        file.writelines(f"act\t{english}\t{french}\n" for english, french in laws)
    options = "--translated", tmp_path / "said.en", "--laws", tmp_path / "laws.gz"
    call(MIX, "--base", out, "--target", "fr", "--out", tmp_path / "mixed", *options).ok()
    new = [pair for pair in read(tmp_path / "mixed", "train") if pair not in train]
    capitals = [pair for pair in new if pair[0].isupper() and pair[1].isupper()]
    lower = [pair for pair in new if pair[0].islower()]
    others = {*new} - {*capitals} - {*lower}
    by_model = {(english, f"Par un modèle {english.split()[1]}") for english, _ in train[3:]}
    assert others == by_model | {laws[0]}
    assert (len(capitals), len(lower)) == (3, 1) and read(tmp_path / "mixed", "valid") == valid


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
