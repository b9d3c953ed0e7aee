"""Alignments as values, and the folder that they are drawn into."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.figures import (
    Alignment,
    Gallery,
    parse_formats,
    parse_samples,
    read_alignments,
    text_heatmap,
    write_gallery,
)
from fairseq_rnnsearch.text.plain_text import Line

ALL = ("png", "svg", "pdf", "text", "html", "jsonl", "pharaoh")
PIECES = Alignment(
    source=("the", "ho@@", "use", "</s>"),
    target=("la", "mai@@", "son", "</s>"),
    weights=np.array(
        [[0.7, 0.1, 0.1, 0.1], [0.0, 0.5, 0.3, 0.2], [0.2, 0.1, 0.7, 0.0], [0.0, 0.0, 0.1, 0.9]]
    ),
    id=3,
    score=-0.5,
)


def test_pieces_are_summed_over_the_source_and_averaged_over_the_target():
    words = PIECES.merge_pieces()
    assert words.source == ("the", "house", "</s>")
    assert words.target == ("la", "maison", "</s>")
    expected = [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.0, 0.1, 0.9]]
    np.testing.assert_allclose(words.weights, expected, atol=1e-15)
    assert (words.id, words.score) == (3, -0.5)


def test_a_dangling_piece_does_not_swallow_the_end_symbol():
    words = Alignment(("a@@", "</s>"), ("b",), np.array([[0.25, 0.75]])).merge_pieces()
    assert words.source == ("a", "</s>")
    assert words.weights.tolist() == [[0.25, 0.75]]


@pytest.mark.parametrize(
    ("choice", "first_row"),
    [("keep", [0.7, 0.1, 0.1, 0.1]), ("drop", [0.7, 0.1, 0.1])]
    + [("renormalise", [7 / 9, 1 / 9, 1 / 9])],
)
def test_source_end(choice, first_row):
    np.testing.assert_allclose(PIECES.with_source_end(choice).weights[0], first_row)


def test_a_row_that_looks_only_at_the_end_stays_finite_when_renormalised():
    only_end = Alignment(("a", "</s>"), ("b",), np.array([[0.0, 1.0]]))
    assert only_end.with_source_end("renormalise").weights.tolist() == [[0.0]]
    blank = Alignment(("</s>",), ("b",), np.array([[1.0]]))
    assert blank.with_source_end("drop") == blank  # a row looks somewhere
    without_end = Alignment(("a", "b"), ("c",), np.array([[0.5, 0.5]]))
    assert without_end.with_source_end("drop") == without_end


def test_links_leave_out_the_end_symbols():
    assert PIECES.links() == [(0, 0), (1, 1), (2, 2)]
    assert PIECES.pharaoh() == "0-0 1-1 2-2"
    assert Alignment(("</s>",), ("a", "</s>"), np.ones((2, 1))).pharaoh() == ""
    to_end = np.array([[0.3, 0.1, 0.6], [0.1, 0.2, 0.7]])  # most of it
    assert Alignment(("a", "b", "</s>"), ("c", "d"), to_end).links() == [(0, 0), (1, 1)]


def test_links_count_the_words_of_a_line():
    lines = Line("the ho", ((0, 3), (4, 6))), Line("la maison", ((0, 2), (3, 6), (6, 9)))
    one = replace(PIECES, source=("the", "<unk:ho>", "</s>"), weights=PIECES.weights[:, :3])
    one = replace(one, lines=lines, probabilities=(0.5, 0.5, 0.1, 1))
    words = one.in_units("words")
    assert (words.source, words.target) == (one.source, ("la", "maison", "</s>"))
    assert words.probabilities == (0.5, 0.05, 1)
    np.testing.assert_allclose(words.weights, [[0.7, 0.1, 0.1], [0.1, 0.3, 0.5], [0, 0, 0.1]])
    assert one.links() == [(0, 0), (1, 1), (0, 2)] and one.links("words") == [(0, 0), (1, 1)]
    assert one.links("words", threshold=0.09) == [(0, 0), (1, 0), (0, 1), (1, 1)]
    assert one.in_units("characters").pharaoh() == "0:3-0:2 4:6-3:6 0:3-6:9"
    assert words.links("characters") == words.links()
    assert PIECES.in_units("words") == PIECES  # whose lines are not known


def test_entropy_and_confidence():
    halves = Alignment(("a", "b"), ("c", "d"), np.array([[0.5, 0.5], [1.0, 0.0]]))
    assert halves.entropy() == pytest.approx(0.5)
    assert halves.confidence() == pytest.approx(0.75)
    weights = np.array([[0.5, 0.5], [0.25, 0.75]])
    ended = Alignment(("a", "</s>"), ("c", "</s>"), weights)  # the last row is not a word's
    assert (ended.entropy(), ended.confidence()) == (pytest.approx(1), pytest.approx(0.5))
    alone = Alignment(("a", "</s>"), ("</s>",), weights[1:])
    assert alone.confidence() == pytest.approx(0.75)


@pytest.mark.parametrize(
    ("text", "chosen"),
    [("3", {1, 2, 3}), ("0", set()), ("all", {*range(1, 9)}), ("ids:3,7", {3, 7}), (" 2 ", {1, 2})],
)
def test_samples(text, chosen):
    assert {i for i in range(9) if i in parse_samples(text)} == chosen


@pytest.mark.parametrize(
    ("source", "target", "weights", "width", "lines"),
    [
        (
            ["a", "bc"],
            ["x", "yz"],
            [[1, 0], [0.5, 0.5]],
            80,
            ["     b", "   a c", " x ██  ", "yz ▒▒▒▒"],
        ),
        (
            ["ｆ"],
            ["ｆ", "x"],
            [[1], [0]],
            80,
            ["   ｆ", "ｆ ██", " x   "],
        ),  # letters of two columns
        (["a", "b"], ["x"], [[1, 0]], 1, ["  a", "x ██", "", "  b", "x   "]),
    ],
)
def test_text_heatmap_by_hand(source, target, weights, width, lines):
    drawn = text_heatmap(Alignment(source, target, np.array(weights, float)), width)
    assert drawn.splitlines() == lines


def test_gallery_writes_what_is_asked_for(tmp_path):
    folder = tmp_path / "new" / "folder"
    other = Alignment(("a", "</s>"), ("b", "</s>"), np.array([[0.9, 0.1], [0.2, 0.8]]), id=0)
    write_gallery(folder, [PIECES, other], parse_formats("png,text,html,jsonl,pharaoh"))
    assert sorted(path.name for path in folder.iterdir()) == [
        *("alignments.jsonl", "alignments.pharaoh", "index.html", "sentence0000.png"),
        *("sentence0000.txt", "sentence0003.png", "sentence0003.txt"),
    ]
    assert (folder / "alignments.pharaoh").read_text() == "0-0\n0-0 1-1 2-2\n"
    first, second = map(json.loads, (folder / "alignments.jsonl").read_text().splitlines())
    assert (first["id"], second["id"], second["score"]) == (0, 3, -0.5)
    np.testing.assert_allclose(second["weights"], PIECES.weights)
    assert second["source"] == list(PIECES.source)


def test_a_gallery_replaces_an_earlier_one_as_a_whole(tmp_path):
    (tmp_path / "sentence0003-mine.png").touch()
    write_gallery(tmp_path, [PIECES, replace(PIECES, id=1)], ALL)
    write_gallery(tmp_path, [PIECES], ("text", "pharaoh"), replaces=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("alignments.pharaoh", "sentence0003-mine.png", "sentence0003.txt")
    ]


def test_a_blank_sentence_has_a_line_and_no_picture(tmp_path):
    blank = Alignment(("</s>",), ("</s>",), np.ones((1, 1)), id=4)
    write_gallery(tmp_path, [PIECES, blank], ALL)
    names = {path.name for path in tmp_path.iterdir()}
    assert "sentence0003.png" in names and not any("0004" in name for name in names)
    assert (tmp_path / "alignments.pharaoh").read_text() == "0-0 1-1 2-2\n\n"


def test_an_id_is_a_whole_number(tmp_path):
    write_gallery(tmp_path, [PIECES], ("jsonl",))
    path = tmp_path / "alignments.jsonl"
    assert read_alignments(path) == {3: PIECES}
    path.write_text(json.dumps(json.loads(path.read_text()) | {"id": 0}))
    assert [*read_alignments(path)] == [1]  # d09b774 counted from 0
    path.write_text(json.dumps(json.loads(path.read_text()) | {"id": "0"}))
    with pytest.raises(UserError, match="line 1: not an alignment"):
        read_alignments(path)


@pytest.mark.parametrize("weight", [1.000001, -0.000001, math.nan])
def test_weights_are_shares_but_for_rounding(tmp_path, weight):
    """NaN, of a broken model, is drawn in red."""
    path = tmp_path / "alignments.jsonl"
    write_gallery(tmp_path, [Alignment(("a",), ("x",), np.array([[weight]]))], ("jsonl",))
    np.testing.assert_equal(read_alignments(path)[1].weights, [[weight]])


# --- many sentences -------------------------------------------------------------------------------


def add_some(gallery, count):
    rng = np.random.default_rng(0)
    for number in range(count):
        weights = rng.dirichlet(np.ones(3), size=2)
        gallery.add(Alignment(("a", f"b{number}", "</s>"), ("c", "</s>"), weights, id=3 * number))


@pytest.mark.parametrize("problem", [KeyboardInterrupt, OSError])
def test_interrupted_gallery_leaves_finished_pictures_only(tmp_path, problem):
    with pytest.raises(problem), Gallery(tmp_path, ("png", "jsonl", "html")) as gallery:
        add_some(gallery, 5)
        raise problem
    assert {path.suffix for path in tmp_path.iterdir()} == {".png"}


@pytest.mark.parametrize("name", ["sentence0009.png", "index.html"])
def test_file_that_cannot_be_written(tmp_path, name):
    (tmp_path / name).mkdir()
    with (
        pytest.raises(UserError, match=name),
        Gallery(tmp_path, ("png", "jsonl", "html")) as gallery,
    ):
        add_some(gallery, 8)
    assert not {".unfinished", ".jsonl"} & {path.suffix for path in tmp_path.iterdir()}
