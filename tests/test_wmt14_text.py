"""What the WMT'14 recipe does with its text: tokens, scores, the cut."""

import io
import json
import sys

import numpy as np
import pytest
from wmt14 import RECIPE, program

from fairseq_rnnsearch.text.plain_text import PlainText

sys.path.insert(0, str(RECIPE))

import cut
import score
from selection import Selector

# --- tokens -------------------------------------------------------------------------------------


def write_sides(folder, *sides):
    folder.mkdir(parents=True)
    for language, lines in zip(("en", "fr"), sides, strict=True):
        (folder / f"text.{language}").write_bytes(b"".join(line + b"\n" for line in lines))
    return folder


CLEANED = [  # English, French, why it is left out
    (b"He doesn't care.", "L'été\u00a0vient.".encode(), None),
    (b"", b"Vide.", "empty"),
    (b"\xc2\xa0 \t", b"Vide.", "empty"),
    (b"a " * 100, b"b " * 99, None),
    (b"a " * 101, b"b " * 99, "too long"),
    (b"a " * 9, b"b", None),
    (b"a " * 10, b"b", "too different in length"),
    (b"caf\xe9", b"b", "not UTF-8"),
    (b"one\rline", "deux\u2028mots".encode(), None),
    (b"<s> </s> <pad>", b"<unk>", None),  # Moses takes symbols apart
]


def tokenise(text, out, *more):
    return program("tokenise", "--text", text, "--out", out, *more)


def test_what_is_kept_and_what_not(tmp_path):
    text = write_sides(tmp_path / "text", *([case[i] for case in CLEANED] for i in (0, 1)))
    tokenise(text, tmp_path / "out").ok()
    for side, language in enumerate(("en", "fr")):
        plain = PlainText(language, "moses")
        expected = [" ".join(plain.tokens(c[side].decode())) for c in CLEANED if not c[2]]
        found = (tmp_path / f"out/text.{language}").read_text(encoding="utf-8")
        assert found.split("\n") == [*expected, ""]
    report = json.loads((tmp_path / "out/report.json").read_text())
    reasons = [reason for *_, reason in CLEANED if reason]
    assert report["left out"] == {reason: reasons.count(reason) for reason in sorted(set(reasons))}
    assert (report["pairs"], report["kept"]) == (len(CLEANED), len(CLEANED) - len(reasons))


def test_reserved_words_in_text_that_is_tokenised_already(tmp_path):
    text = write_sides(tmp_path / "text", [b"a <s> b", b"a <unk>"], [b"c", b"c"])
    tokenise(text, tmp_path / "out", "--tokenizer", "space").ok()
    assert (tmp_path / "out/text.en").read_text() == "a <unk>\n"


def test_text_that_cannot_be_tokenised(tmp_path):
    text = write_sides(tmp_path / "text", [b"a", b"\xff"], [b"c", b"c"])
    assert f"{text}: not UTF-8" in tokenise(text, tmp_path / "out", "--keep-all").error()
    text = write_sides(tmp_path / "none", [b""], [b"c"])
    assert "no pair of 1 can be used" in tokenise(text, tmp_path / "out2").error()


# --- scores and the cut -------------------------------------------------------------------------


def test_the_sample_is_drawn_from_all_text_alike(tmp_path):
    for name in "ab":
        lines = [f"{name}{i}".encode() for i in range(500)]
        write_sides(tmp_path / name, lines, lines)
    folders = [tmp_path / name for name in "ab"]
    english, french = score.draw(folders, 400, seed=1)
    assert english == french and len(set(english.splitlines())) == 400
    assert 160 < english.count("a") < 240  # four standard deviations
    assert score.draw(folders, 400, seed=1) == (english, french)
    assert score.draw(folders, 400, seed=2) != (english, french)
    assert score.draw(folders, 5000, seed=1)[0].count("\n") == 1000


def test_scores_are_the_same_with_any_number_of_processes(tmp_path):
    lines = [b"the court has spoken"] * 50 + [f"click {i} here".encode() for i in range(4500)]
    news = write_sides(tmp_path / "news", lines[:60], lines[:60])
    text = write_sides(tmp_path / "text", lines, lines[::-1])
    models = tmp_path / "models"
    program("score", "estimate", "--inside", news, "--pool", text, "--out", models)
    command = "score", "score", "--text", text
    for processes in (1, 3):
        more = "--models", models, "--out", tmp_path / str(processes), "--processes", processes
        program(*command, *more).ok()
    found = [np.load(tmp_path / n / "scores.npy") for n in ("1", "3")]
    whole = [b"".join(ln + b"\n" for ln in side).decode() for side in (lines, lines[::-1])]
    assert np.array_equal(found[0], Selector.load(models).scores(*whole))
    assert np.array_equal(found[0], found[1])
    words = np.load(tmp_path / "3/words.npy")
    assert words.tolist() == [len(line.split()) for line in lines[::-1]]
    ran = program(*command, "--models", text, "--out", tmp_path / "4")
    assert "in.source.npz cannot be read" in ran.error()


@pytest.mark.parametrize("lines", [1, 2, 100])
def test_the_cut_in_blocks(tmp_path, lines, monkeypatch):
    monkeypatch.setattr(cut, "BLOCK_LINES", lines)
    text = write_sides(tmp_path / "text", [b"e", b"n", b"g", b"l", b"i"], [b"f r"] * 5)
    outputs = io.BytesIO(), io.BytesIO()
    counts = cut.write_kept(text, np.array([False, True, False, True, True]), outputs)
    assert outputs[0].getvalue() == b"n\nl\ni\n"
    assert counts == [5, 3, 3, 6]


def test_the_cut_over_all_corpora(tmp_path):
    draw = np.random.default_rng(0)
    pairs = []  # score, French words, corpus, English, French
    for name, size in (("a", 50), ("b", 70)):
        words = draw.integers(1, 6, size).astype(np.int32)
        scores = draw.integers(-20, 20, size).astype(np.float32)
        english = [f"{name} {i}" for i in range(size)]
        french = [" ".join([f"{name}{i}"] * n) for i, n in enumerate(words)]
        sides = ([line.encode() for line in side] for side in (english, french))
        write_sides(tmp_path / "tokens" / name, *sides)
        (tmp_path / "scores" / name).mkdir(parents=True)
        np.save(tmp_path / "scores" / name / "scores.npy", scores)
        np.save(tmp_path / "scores" / name / "words.npy", words)
        pairs += zip(scores, words, [name] * size, english, french, strict=True)

    def run(words):
        command = "cut", "--tokens", tmp_path / "tokens", "--scores", tmp_path / "scores"
        return program(*command, "--words", words, "--out", tmp_path / f"out{words}", "a", "b")

    for budget in (100, 0):
        run(budget).ok()
        kept, left = [], budget or 10**9
        for number in sorted(range(len(pairs)), key=lambda i: (pairs[i][0], i)):
            left -= pairs[number][1]
            if left < 0:
                break
            kept.append(number)
        for side, language in ((3, "en"), (4, "fr")):
            found = (tmp_path / f"out{budget}/train.{language}").read_text().splitlines()
            assert found == [pairs[i][side] for i in sorted(kept)]
        last = (tmp_path / f"out{budget}/selection.tsv").read_text().splitlines()[-1].split("\t")
        assert last[:3] == ["all", "120", str(len(kept))]
    np.save(tmp_path / "scores/b/scores.npy", np.zeros(69, "f4"))
    np.save(tmp_path / "scores/b/words.npy", np.ones(69, "i4"))
    assert "b has 70 pairs and 69 scores" in run(99).error()
