"""The dictionary for --replace-unk: against the coefficient by hand, and what its files may hold."""

import pytest

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.evaluation.__main__ import main
from fairseq_rnnsearch.evaluation.dictionary import dictionary

SOURCE = ["the red house", "the house", "a red car", "the car"]
TARGET = ["la maison rouge", "la maison", "une voiture rouge", "la voiture"]
LINKS = ["0-0 2-1 1-2", "0-0 1-0 1-1", "0-0 2-1 1-2", "0-0 1-0 1-1"]
# linked twice or oftener: the-la 3, red-rouge 2, house-maison 2, car-voiture 2
FOUND = {"car": "voiture", "house": "maison", "red": "rouge", "the": "la"}


def parsed(lines):
    return [
        frozenset(tuple(map(int, link.split("-"))) for link in line.split()) for line in lines
    ]


def test_by_hand():
    assert dictionary(SOURCE, TARGET, parsed(LINKS)) == FOUND
    assert list(dictionary(SOURCE, TARGET, parsed(LINKS))) == sorted(FOUND)
    assert dictionary(SOURCE, TARGET, parsed(LINKS), fewest=3) == {"the": "la"}
    assert dictionary(SOURCE, TARGET, parsed(LINKS), fewest=1) == {"a": "une", **FOUND}


def test_a_frequent_word_is_not_everybodys_translation():
    """`de` is linked to `Oslo` three times and `Oslo` only twice, but it is linked to all."""
    source, target = ["Oslo x y z"] * 3, ["de Oslo"] * 3
    links = parsed(["0-0 0-1 1-0 2-0 3-0", "0-0 0-1 1-0 2-0 3-0", "0-0 1-0 2-0 3-0"])
    # Dice: with de 2*3 / (5 + 12), with Oslo 2*2 / (5 + 2)
    assert dictionary(source, target, links)["Oslo"] == "Oslo"


def test_ties_go_to_the_first_in_the_alphabet():
    assert dictionary(["s"] * 4, ["b", "b", "a", "a"], parsed(["0-0"] * 4)) == {"s": "a"}


@pytest.fixture
def files(tmp_path):
    for name, lines in {"s": SOURCE, "t": TARGET, "links": LINKS}.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path


def run(files, *further):
    options = {"source": "s", "target": "t", "alignments": "links", "out": "out"}
    main(["dictionary", *(f"--{k}={files / v}" for k, v in options.items()), *further])


def test_command(files, capsys):
    run(files)
    lines = (files / "out").read_text(encoding="utf-8").splitlines()
    assert dict(line.split() for line in lines) == FOUND
    assert "out: 4 words" in capsys.readouterr().out


WRONG = {
    "fewer translations": ("t", "la maison\n", (), "has 1 line"),
    "a link outside": ("links", "0-0\n\n0-3\n\n", (), "line 3: found word 3 of the target"),
    "no number": ("s", "\n".join(SOURCE), ("--fewest", "0"), "--fewest 0: must be 1 or more"),
    "no links": ("links", "\n\n\n\n", (), "no two words are linked 2 times"),
}


@pytest.mark.parametrize("name", WRONG)
def test_mistakes(files, name):
    file, text, further, message = WRONG[name]
    (files / file).write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=message):
        run(files, *further)
    assert not (files / "out").exists()
