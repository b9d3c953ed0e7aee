"""Heatmaps from fairseq-generate and fairseq-interactive, and what they say to mistakes."""

import re

import numpy as np
import pytest
from commands import QUIET, TASK, call, run, sides
from in_process import generate

from fairseq_rnnsearch.figures import read_alignments


@pytest.fixture(scope="module")
def drawn(learned, tmp_path_factory):
    """Translations and references, drawn in every format."""
    formats = "--heatmap-format png,pdf,svg,text,html,jsonl,pharaoh"
    asked = {
        "translations": "--beam 2 --heatmap-samples ids:3,17 --heatmap-style slides",
        "references": "--score-reference --heatmap-samples 3 --heatmap-source-end renormalise",
    }
    folders = [tmp_path_factory.mktemp(name) / "deep" / "er" for name in asked]
    return folders, [
        generate(
            learned.corpus.data, learned.checkpoint, f"--heatmap-dir={folder} {formats} {more}"
        )
        for folder, more in zip(folders, asked.values(), strict=True)
    ]


def test_every_format_of_the_chosen_sentences_and_nothing_else(drawn):
    for folder, numbers in zip(drawn[0], (["0003", "0017"], ["0001", "0002", "0003"]), strict=True):
        assert {path.name for path in folder.iterdir()} == {
            *("index.html", "alignments.jsonl", "alignments.pharaoh"),
            *(f"sentence{n}.{suffix}" for n in numbers for suffix in ("png", "pdf", "svg", "txt")),
        }
        page = (folder / "index.html").read_text()
        assert "<title>Alignments of test, en → fr</title>" in page


def test_they_show_what_was_translated_or_scored(learned, drawn):
    folders, (translated, _) = drawn
    translations, references = (
        read_alignments(folder / "alignments.jsonl").values() for folder in folders
    )
    text = sides(learned.corpus.text, "test")
    for one in translations:
        assert one.source == (*text[one.id - 1][0], "</s>")
        assert " ".join(one.target[:-1]) == translated.hypotheses()[one.id - 1][0]
        score = float(translated.lines("H")[one.id - 1][0].split("\t")[0])
        assert one.score == pytest.approx(score, abs=1e-3)
    for one in references:  # the end symbol's column is gone
        assert (list(one.source), list(one.target[:-1])) == text[one.id - 1]
        np.testing.assert_allclose(one.weights.sum(axis=1), 1, atol=1e-4)


def test_typed_sentences_are_shown_in_the_terminal_and_drawn(learned, tmp_path):
    finished = call(
        *("fairseq_rnnsearch.commands.translate", learned.checkpoint),
        *(f"--data={learned.corpus.data}", f"--heatmap-dir={tmp_path}"),
        "--beam 2 --terminal --heatmap-format png,html",
        stdin="red house bird\ntree\n",
        COLUMNS="40",
    ).ok()
    _, _, shown = finished.out.partition("maison rouge oiseau\n")
    assert all(len(line) <= 40 for line in shown.splitlines()) and "\narbre\n" in shown
    rows = re.findall(r"^ *(maison|rouge|oiseau|</s>) ", shown.partition("arbre")[0], re.M)
    assert rows == ["maison", "rouge", "oiseau", "</s>"]
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"sentence0001.png", "sentence0002.png", "index.html"}


def test_a_file_that_cannot_be_written_fails_the_command(learned, tmp_path):
    """Once all is translated and printed."""
    (tmp_path / "sentence0001.png").mkdir()  # a folder where a picture should be
    options = f"--heatmap-dir={tmp_path} --heatmap-samples 1"
    finished = run(
        "fairseq-generate",
        learned.corpus.data,
        f"{TASK} {QUIET} --path={learned.checkpoint}",
        options,
    )
    assert finished.rc == 1 and len(finished.hypotheses()) == 60
    assert "sentence0001.png cannot be written" in finished.err
    assert [path.name for path in tmp_path.iterdir()] == ["sentence0001.png"]
