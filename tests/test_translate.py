"""`rnnsearch-translate`: plain text in, its translation out, from wherever it comes."""

import copy
import gzip
import io
import json
import os
import re
import shutil
import threading

import numpy as np
import pytest
from commands import call

from fairseq_rnnsearch import load
from fairseq_rnnsearch.commands import loading
from fairseq_rnnsearch.commands.translate import main
from fairseq_rnnsearch.text.corpus import line_batches


@pytest.fixture(scope="module")
def work(learned, tmp_path_factory):
    """A recipe's work folder that was moved: the data folder of the training is elsewhere."""
    folder = tmp_path_factory.mktemp("work")
    shutil.copytree(learned.folder, folder / "checkpoints")
    shutil.copytree(learned.corpus.data, folder / "data")
    settings = {"tokenizer": "words", "lowercase": True}
    (folder / "data/preprocessing.json").write_text(json.dumps({"en": settings, "fr": settings}))
    return folder


@pytest.fixture(scope="module")
def model(work):
    return load(work, work / "data")


def translate(work, *more, **options):
    data = f"--data={work / 'data'}"
    return call("fairseq_rnnsearch.commands.translate", work, data, *more, "--beam=3", **options)


TEXT = "Red house.\n\nvast tree bird\n"


def test_lines_of_files_and_of_standard_input(work, model, tmp_path):
    (tmp_path / "a").write_text(TEXT)
    (tmp_path / "b").write_text("Bird")  # no line feed at its end
    finished = translate(work, tmp_path / "a", "-", tmp_path / "b", stdin="Key\n").ok()
    sentences = [*TEXT.splitlines(), "Key", "Bird"]
    assert finished.out == "".join(f"{t.text}\n" for t in model.translate(sentences, beam=3))
    assert finished.out.splitlines()[1] == ""
    assert translate(work, stdin="").ok().out == "" == translate(work, stdin="").err


def test_one_object_a_line(work, model):
    finished = translate(work, "--json --nbest 2", stdin=TEXT).ok()
    found = [json.loads(line) for line in finished.out.splitlines()]
    expected = model.translate(TEXT.splitlines(), beam=3)
    for number, (one, translation) in enumerate(zip(found, expected, strict=True)):
        assert one["id"] == number + 1 and one["source"] == translation.source
        assert one["source_tokens"] == list(translation.source_tokens)
        assert one["text"] == one["nbest"][0]["text"] == translation.text
        assert one["score"] == pytest.approx(translation.score, abs=1e-4)
        assert [best["text"] for best in one["nbest"]] == [t.text for t in translation.nbest[:2]]
        np.testing.assert_allclose(one["weights"], translation.weights, atol=1e-4)
    assert [len(one["nbest"]) for one in found] == [2, 1, 2]
    rows = translate(work, "--nbest 1", stdin=TEXT).ok().out.splitlines()
    assert [row.split("\t")[::2] for row in rows] == [
        [str(number), t.text] for number, t in enumerate(expected, start=1)
    ]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--lenpen 0.5", (0.5, False, False)),
        ("--forbid-unk", (1.0, True, False)),
        ("--authors-search", (1.0, False, True)),
    ],
)
def test_the_search_is_as_asked(options, expected, work, model, monkeypatch):
    asked, translated = {}, model.translate
    monkeypatch.setattr(loading, "load", lambda *_, **__: model)
    monkeypatch.setattr(
        model,
        "translate",
        lambda *texts, **given: asked.update(given) or translated(*texts, **given),
    )
    translate(work, options, stdin="red house\n").ok()
    assert tuple(asked[name] for name in ("lenpen", "forbid_unk", "authors_search")) == expected


@pytest.mark.parametrize("options", [[], ["--json"], ["--nbest=2"], ["--terminal"]])
@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_terminal_gets_no_escape_sequences_and_a_pipe_all_bytes(
    options, is_terminal, work, model, monkeypatch, tmp_path
):
    foreign = copy.copy(model)
    foreign.target_dictionary = copy.deepcopy(model.target_dictionary)
    foreign.target_dictionary.symbols[model.target_dictionary.index("rouge")] = (
        "r\x1b[2J\x9b\u202eé"
    )
    monkeypatch.setattr(loading, "load", lambda *_, **__: foreign)
    (tmp_path / "text").write_text("red house\n")
    screen = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(screen, "isatty", lambda: is_terminal)
    monkeypatch.setattr("sys.stdout", screen)
    main([str(work), str(tmp_path / "text"), *options])
    shown = re.sub(r"\x1b\[(48;2;[0-9;]+|0)m", "", screen.buffer.getvalue().decode())  # grey cells
    assert "[2J" in shown and "é" in shown
    assert ("\u202e" in shown) != is_terminal
    assert not is_terminal or not {*"\x1b\x9b"} & {*shown}


def test_pictures_name_unknown_words_and_leave_blank_lines_out(work, tmp_path):
    options = f"--heatmap-dir={tmp_path} --heatmap-format text,jsonl,pharaoh"
    finished = translate(work, options, stdin="red zebra\n\nbird\n").ok()
    names = {path.name for path in tmp_path.iterdir()} - {"alignments.jsonl", "alignments.pharaoh"}
    assert names == {"sentence0001.txt", "sentence0003.txt"}
    lines = (tmp_path / "alignments.jsonl").read_text().splitlines()
    assert json.loads(lines[0])["source"] == ["red", "<unk:zebra>", "</s>"]
    assert len(lines) == len((tmp_path / "alignments.pharaoh").read_text().splitlines()) == 3
    assert "1 of 3 English words is unknown: zebra" in finished.err
    assert ", line 1: unknown words (1)" in finished.err


def test_what_is_wrong_is_said_in_one_line(work, tmp_path):
    (tmp_path / "latin").write_bytes(b"Red HOUSE\nred \xe9\n")
    finished = translate(work, tmp_path / "latin")
    assert finished.error().startswith(f"{tmp_path / 'latin'}, line 2, byte 5: byte 0xe9")
    assert finished.out == "maison rouge\n"  # what came before is translated


# --- what comes slowly, and what ends early -------------------------------------------------------


def test_lines_do_not_wait_for_each_other():
    """A batch is what is there; the end of the input is not waited for."""
    ours, theirs = os.pipe()
    waited = []
    batches = line_batches(
        f"/dev/fd/{ours}", iter([2, 2, 2, 9, 9]), lambda: waited.append(len(waited))
    )
    os.write(theirs, b"a\nb\nc\n")
    assert next(batches) == ["a", "b"]
    assert next(batches) == ["c"] and not waited
    later = threading.Timer(0.2, lambda: (os.write(theirs, b"d\r\n"), os.close(theirs)))
    later.start()
    assert next(batches) == ["d"] and waited == [0]
    assert list(batches) == []


@pytest.mark.parametrize("text", [b"", b"a", b"a\n", b"\n", b"\n\n", b" a \n\xc2\xa0b"])
def test_lines_are_those_of_the_file(tmp_path, text):
    lines = text.removesuffix(b"\n").decode().split("\n") if text else []
    for content in (text, gzip.compress(text)):
        (tmp_path / "text").write_bytes(content)
        batches = line_batches(str(tmp_path / "text"), iter([1] * 9))
        assert [line for batch in batches for line in batch] == [line.strip() for line in lines]
