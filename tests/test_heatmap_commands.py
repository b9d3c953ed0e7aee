"""Heatmaps from fairseq-generate and fairseq-interactive, and what they say to mistakes."""

import json
import re

import pytest
from commands import ERROR, generate, run, sides, together

pytest_plugins = ["trained"]


@pytest.fixture(scope="module")
def drawn(learned, tmp_path_factory):
    """Translations and references, drawn in every format."""
    formats = "--heatmap-format png,pdf,svg,text,html,jsonl,pharaoh"
    folders = [tmp_path_factory.mktemp(name) for name in ("translations", "references")]

    def draw(folder, *more):
        options = f"--heatmap-dir={folder}/deep/er {formats} --batch-size 16"
        return generate(learned.corpus.data, learned.checkpoint, options, *more).ok()

    references = "--score-reference --heatmap-samples 3 --heatmap-source-end renormalise"
    return folders, together(
        lambda: draw(folders[0], "--beam 2 --heatmap-samples ids:3,17 --heatmap-style slides"),
        lambda: draw(folders[1], references),
    )


def test_every_format_of_the_chosen_sentences_and_nothing_else(drawn):
    for folder, numbers in zip(drawn[0], (["0003", "0017"], ["0000", "0001", "0002"]), strict=True):
        assert {path.name for path in (folder / "deep" / "er").iterdir()} == {
            *("index.html", "alignments.jsonl", "alignments.pharaoh"),
            *(f"sentence{n}.{suffix}" for n in numbers for suffix in ("png", "pdf", "svg", "txt")),
        }


def lines(folder):
    return map(json.loads, (folder / "deep/er/alignments.jsonl").read_text().splitlines())


def test_they_show_what_was_translated_or_scored(learned, drawn):
    (translations, references), (translated, scored) = drawn
    text = sides(learned.corpus.text, "test")
    for line in lines(translations):
        assert line["source"] == [*text[line["id"]][0], "</s>"]
        assert " ".join(line["target"][:-1]) == translated.hypotheses()[line["id"]][0]
        score = float(translated.lines("H")[line["id"]][0].split("\t")[0])
        assert line["score"] == pytest.approx(score, abs=1e-3)
    for line in lines(references):
        assert line["source"] == text[line["id"]][0]  # the end symbol's column is gone
        assert line["target"][:-1] == text[line["id"]][1]
        for row in line["weights"]:
            assert sum(row) == pytest.approx(1, abs=1e-4)
    assert "3 alignments drawn in" in scored.err


def test_the_page_says_of_what_it_is(learned, drawn):
    for folder, inverted in zip(drawn[0], ("true", "false"), strict=True):
        page = (folder / "deep/er/index.html").read_text()
        assert "<title>Alignments of test, en → fr</title>" in page
        assert f'id="model" class="faint">{learned.checkpoint}</p>' in page
        assert f'"inverted":{inverted}' in page and '"probabilities":[' in page


@pytest.fixture(scope="module")
def typed(learned, tmp_path_factory):
    folder = tmp_path_factory.mktemp("typed")
    return folder, run(
        *(
            "fairseq_rnnsearch.commands.translate",
            learned.checkpoint,
            f"--data={learned.corpus.data}",
        ),
        f"--beam 2 --terminal --heatmap-dir={folder} --heatmap-format png,html",
        stdin="red house bird\ntree\n",
        COLUMNS="40",
    ).ok()


def test_a_typed_sentence_is_shown_in_the_terminal(typed):
    _, finished = typed
    after = (
        finished.out.partition("maison rouge oiseau\n")[2].partition("\narbre\n")[0].splitlines()
    )
    assert all(len(line) <= 40 for line in after)
    rows = [line for line in after if re.match(r" *(maison|rouge|oiseau|</s>) ", line)]
    assert [line.split()[0] for line in rows] == ["maison", "rouge", "oiseau", "</s>"]
    # "red house bird": each row is dark but for its source word, two characters a word
    columns = [line[len(line) - len(line.lstrip()) :].partition(" ")[2] for line in rows[:3]]
    assert [max(range(0, 6, 2), key=lambda i: " ░▒▓█".find(c[i : i + 1] or " ")) for c in columns] \
        == [2, 0, 4]  # fmt: skip
    assert "\narbre\n" in finished.out


def test_typed_sentences_are_drawn_into_files(typed):
    folder, finished = typed
    names = {path.name for path in folder.iterdir()}
    assert names == {"sentence0000.png", "sentence0001.png", "index.html"}
    assert "2 alignments drawn in" in finished.err
    assert "<title>Alignments, en → fr</title>" in (folder / "index.html").read_text()


def test_a_file_that_cannot_be_written_fails_the_command(learned, tmp_path):
    (tmp_path / "sentence0000.png").mkdir()  # a folder where a picture should be
    finished = generate(
        learned.corpus.data, learned.checkpoint, f"--heatmap-dir={tmp_path} --heatmap-samples 1"
    )
    assert finished.rc == 1 and len(finished.hypotheses()) == 60  # the translations are not lost
    (message,) = [line for line in finished.err.splitlines() if line.startswith(ERROR)]
    assert "sentence0000.png cannot be written" in message
    assert [path.name for path in tmp_path.iterdir()] == ["sentence0000.png"]
