"""Alignments as values, and the folder that they are drawn into."""

import json

import numpy as np
import pytest

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.figures import (
    Alignment,
    parse_formats,
    parse_samples,
    text_heatmap,
    write_gallery,
)
from fairseq_rnnsearch.figures.alignment import bpe_piece

PIECES = Alignment(
    source=("the", "ho@@", "use", "</s>"),
    target=("la", "mai@@", "son", "</s>"),
    weights=np.array(
        [
            [0.7, 0.1, 0.1, 0.1],
            [0.0, 0.5, 0.3, 0.2],
            [0.2, 0.1, 0.7, 0.0],
            [0.0, 0.0, 0.1, 0.9],
        ]
    ),
    id=3,
    score=-0.5,
)


def test_pieces_are_summed_over_the_source_and_averaged_over_the_target():
    words = PIECES.merge_pieces(bpe_piece)
    assert words.source == ("the", "house", "</s>")
    assert words.target == ("la", "maison", "</s>")
    expected = [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.0, 0.1, 0.9]]
    np.testing.assert_allclose(words.weights, expected, atol=1e-15)
    assert (words.id, words.score) == (3, -0.5)


def test_a_dangling_piece_does_not_swallow_the_end_symbol():
    words = Alignment(("a@@", "</s>"), ("b",), np.array([[0.25, 0.75]])).merge_pieces(bpe_piece)
    assert words.source == ("a", "</s>")
    assert words.weights.tolist() == [[0.25, 0.75]]


@pytest.mark.parametrize(
    ("choice", "first_row"),
    [
        ("keep", [0.7, 0.1, 0.1, 0.1]),
        ("drop", [0.7, 0.1, 0.1]),
        ("renormalise", [7 / 9, 1 / 9, 1 / 9]),
    ],
)
def test_source_end(choice, first_row):
    np.testing.assert_allclose(PIECES.with_source_end(choice).weights[0], first_row)


def test_a_row_that_looks_only_at_the_end_stays_finite_when_renormalised():
    only_end = Alignment(("a", "</s>"), ("b",), np.array([[0.0, 1.0]]))
    assert only_end.with_source_end("renormalise").weights.tolist() == [[0.0]]


def test_links_leave_out_the_end_symbols():
    assert PIECES.links() == [(0, 0), (1, 1), (2, 2)]
    assert PIECES.pharaoh() == "0-0 1-1 2-2"
    assert Alignment(("</s>",), ("a", "</s>"), np.ones((2, 1))).pharaoh() == ""


def test_entropy_and_confidence():
    halves = Alignment(("a", "b"), ("c", "d"), np.array([[0.5, 0.5], [1.0, 0.0]]))
    assert halves.entropy() == pytest.approx(0.5)
    assert halves.confidence() == pytest.approx(0.75)


def test_weights_of_another_shape_are_refused():
    with pytest.raises(UserError, match=r"\(2, 2\).*1 target.*2 source"):
        Alignment(("a", "b"), ("c",), np.ones((2, 2)))


@pytest.mark.parametrize(
    ("text", "chosen"),
    [("3", {0, 1, 2}), ("0", set()), ("all", set(range(9))), ("ids:3,7", {3, 7}), (" 2 ", {0, 1})],
)
def test_samples(text, chosen):
    assert {i for i in range(9) if i in parse_samples(text)} == chosen


@pytest.mark.parametrize("text", ["", "some", "-1", "ids:", "ids:x", "3,4", "id:3"])
def test_samples_that_mean_nothing(text):
    with pytest.raises(UserError, match="heatmap-samples"):
        parse_samples(text)


def test_formats():
    assert parse_formats("png, html,png") == ("png", "html")
    for unknown in ("gif", "png,gif", ""):
        with pytest.raises(UserError, match="choose from png"):
            parse_formats(unknown)


def test_text_heatmap_draws_each_weight_under_its_word():
    drawn = text_heatmap(Alignment(("a", "bc"), ("x", "yz"), np.array([[1.0, 0.0], [0.5, 0.5]])))
    assert drawn.splitlines() == ["     b", "   a c", " x ██  ", "yz ▒▒▒▒"]


@pytest.mark.parametrize("width", [20, 40, 80])
def test_text_heatmap_keeps_to_its_width_and_shows_every_source_word(width):
    words = tuple(f"w{i}" for i in range(37))
    drawn = text_heatmap(Alignment(words, ("target",), np.full((1, 37), 1 / 37)), width)
    assert max(map(len, drawn.splitlines())) <= width
    assert drawn.count("w") == 37
    assert drawn.count("target") == drawn.count("\n\n") + 1


def test_gallery_writes_what_is_asked_for(tmp_path):
    folder = tmp_path / "new" / "folder"
    other = Alignment(("a", "</s>"), ("b", "</s>"), np.array([[0.9, 0.1], [0.2, 0.8]]), id=0)
    write_gallery(folder, [PIECES, other], parse_formats("png,text,html,jsonl,pharaoh"))
    assert sorted(path.name for path in folder.iterdir()) == [
        "alignments.jsonl",
        "alignments.pharaoh",
        "index.html",
        "sentence0000.png",
        "sentence0000.txt",
        "sentence0003.png",
        "sentence0003.txt",
    ]
    assert (folder / "alignments.pharaoh").read_text() == "0-0\n0-0 1-1 2-2\n"
    first, second = map(json.loads, (folder / "alignments.jsonl").read_text().splitlines())
    assert (first["id"], second["id"], second["score"]) == (0, 3, -0.5)
    np.testing.assert_allclose(second["weights"], PIECES.weights)
    assert second["source"] == list(PIECES.source)


def test_gallery_in_a_place_that_is_a_file(tmp_path):
    (tmp_path / "taken").touch()
    with pytest.raises(UserError, match="taken"):
        write_gallery(tmp_path / "taken", [PIECES], ("text",))
