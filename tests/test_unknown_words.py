"""Unknown words: the dictionary by hand, replacing as fairseq does, and the commands."""

import random
import sys

import numpy as np
import pytest
from fairseq.utils import replace_unk
from wmt14 import RECIPE

from fairseq_rnnsearch.figures import Alignment, write_gallery

sys.path.insert(0, str(RECIPE))

from unknown_words import learn_dictionary, main, without_unknown

SOURCE = ["the red house", "the house", "a red car", "the car"]
TARGET = ["la maison rouge", "la maison", "une voiture rouge", "la voiture"]
LINKS = ["0-0 2-1 1-2", "0-0 1-0 1-1", "0-0 2-1 1-2", "0-0 1-0 1-1"]
# linked twice or oftener: the-la 3, red-rouge 2, house-maison 2, car-voiture 2
FOUND = {"car": "voiture", "house": "maison", "red": "rouge", "the": "la"}


def parsed(lines):
    return [frozenset(tuple(map(int, link.split("-"))) for link in line.split()) for line in lines]


def test_by_hand():
    links = parsed(LINKS)
    assert list(learn_dictionary(SOURCE, TARGET, links).items()) == sorted(FOUND.items())
    assert learn_dictionary(SOURCE, TARGET, links, fewest=3) == {"the": "la"}
    assert learn_dictionary(SOURCE, TARGET, links, fewest=1) == {"a": "une", **FOUND}


def test_a_frequent_word_is_not_everybodys_translation():
    """`de` is linked to `Oslo` three times and `Oslo` only twice, but it is linked to all."""
    source, target = ["Oslo x y z"] * 3, ["de Oslo"] * 3
    links = parsed(["0-0 0-1 1-0 2-0 3-0", "0-0 0-1 1-0 2-0 3-0", "0-0 1-0 2-0 3-0"])
    # Dice: with de 2*3 / (5 + 12), with Oslo 2*2 / (5 + 2)
    assert learn_dictionary(source, target, links)["Oslo"] == "Oslo"


def random_case(draw):
    """A source with its words, a translation with gaps, and weights as the model gives them."""
    source = [draw.choice("abcdefg") for _ in range(draw.randint(1, 6))]
    target = [draw.choice(["x", "y", "<unk>"]) for _ in range(draw.randint(0, 6))]
    weights = np.array([[draw.random() for _ in range(len(source) + 1)] for _ in [*target, "end"]])
    seen = [word if draw.random() < 0.5 else "<unk>" for word in source]
    return source, target, Alignment((*seen, "</s>"), (*target, "</s>"), weights)


@pytest.mark.parametrize("known", [{}, {"a": "A", "b": "B", "e": "E"}])
def test_unknown_words_are_replaced_as_fairseq_does(known):
    draw = random.Random(3)
    replaced = 0
    for _ in range(200):
        source, target, alignment = random_case(draw)
        best = [int(row[:-1].argmax()) for row in alignment.weights]  # no word is the end symbol
        expected = replace_unk(" ".join(target), " ".join(source), best, known, "<unk>")
        found = without_unknown(" ".join(target), alignment, " ".join(source), known)
        assert found == expected and "<unk>" not in found
        replaced += found != " ".join(target)
    assert replaced > 50


def write(folder, **texts):
    for name, lines in texts.items():
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def run(command, folder, files, *further):
    main([command, *(f"--{option}={folder / file}" for option, file in files.items()), *further])


def test_command(tmp_path):
    write(tmp_path, s=SOURCE, t=TARGET, links=LINKS)
    given = {"source": "s", "target": "t", "alignments": "links", "out": "out"}
    run("dictionary", tmp_path, given)
    lines = (tmp_path / "out").read_text(encoding="utf-8").splitlines()
    assert dict(line.split() for line in lines) == FOUND


def test_replace_command(tmp_path):
    """The second translation has no alignment because it needs none."""
    write(tmp_path, s=["a b", "c d"], t=["x <unk>", "y z"], d=["b B", "a A"])
    weights = [[0.1, 0.8, 0.1], [0.2, 0.3, 0.5], [0, 0, 1]]
    alignment = Alignment(("a", "<unk>", "</s>"), ("x", "<unk>", "</s>"), weights)
    write_gallery(tmp_path, [alignment], ("jsonl",))
    given = {"source": "s", "translations": "t", "alignments": "alignments.jsonl", "out": "out"}
    for further, word in ((), "b"), ((f"--dictionary={tmp_path / 'd'}",), "B"):
        run("replace-unk", tmp_path, given, *further)
        assert (tmp_path / "out").read_text(encoding="utf-8") == f"x {word}\ny z\n"
    write(tmp_path, t=["x y <unk>", "y z"])
    with pytest.raises(ValueError, match="shorter"):
        run("replace-unk", tmp_path, given | {"out": "other"})
    assert not (tmp_path / "other").exists()


def test_sentences_without_unknown_words(tmp_path, capsys):
    texts = {"t.en": ["a b", "a q", "b a"], "t.fr": ["x", "x", "r"]}
    write(tmp_path, **texts, en=["a 2", "b 1"], fr=["x 3"])
    options = {"source": "t.en", "reference": "t.fr", "source-dictionary": "en", "out": "known"}
    (tmp_path / "known").mkdir()
    run("no-unk", tmp_path, options | {"target-dictionary": "fr"})
    assert [(tmp_path / "known" / name).read_text() for name in ("text.en", "text.fr")] == [
        *("a b\n", "x\n")
    ]
    assert "1 of 3 sentence pairs" in capsys.readouterr().out
