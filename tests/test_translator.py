"""Translating and aligning from Python, and aligning two text files in one command."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from commands import ERROR, MODEL, ROOT, generate, sides, train

from fairseq_rnnsearch import load
from fairseq_rnnsearch.align import main as align_main
from fairseq_rnnsearch.errors import UserError

pytest_plugins = ["trained"]


@pytest.fixture(scope="module")
def model(learned):
    return load(learned.checkpoint, learned.corpus.data)


@pytest.fixture(scope="module")
def test_pairs(learned):
    return [
        (" ".join(source), " ".join(target))
        for source, target in sides(learned.corpus.text, "test")
    ]


def test_translations_are_those_of_fairseq_generate(learned, model, test_pairs):
    finished = generate(
        learned.corpus.data, learned.checkpoint, "--beam 4 --max-len-a 3 --max-len-b 10"
    ).ok()
    found = model.translate([source for source, _ in test_pairs], beam=4, batch_size=7)
    assert len(found) == len(test_pairs)
    for number, translation in enumerate(found):
        score, text = finished.lines("H")[number][0].split("\t")
        assert translation.text == text
        assert translation.source == test_pairs[number][0]
        assert translation.score == pytest.approx(float(score), abs=1e-4)
    right = [t.text == target for t, (_, target) in zip(found, test_pairs, strict=True)]
    assert np.mean(right) > 0.8


def test_a_model_of_bfloat16_is_rounded_when_it_is_loaded(learned, model, test_pairs, tmp_path):
    state = torch.load(learned.checkpoint, weights_only=False)
    state["cfg"]["model"]["compute_dtype"] = "bfloat16"
    torch.save(state, tmp_path / "lowered.pt")
    lowered = load(tmp_path / "lowered.pt", learned.corpus.data)
    with torch.no_grad():
        assert lowered.models[0].decoder.steps_are_fast
    assert lowered.models[0].decoder.network.output.weight.dtype == torch.bfloat16
    sources = [source for source, _ in test_pairs]
    pairs = zip(lowered.translate(sources), model.translate(sources), strict=True)
    same = [one.text == other.text for one, other in pairs]
    assert np.mean(same) > 0.9


def test_a_sentence_alone_equals_the_same_in_a_list(model):
    alone = model.translate("red house bird", beam=3)
    _, among, _ = model.translate(["bird", "red house bird", "tree tree tree"], beam=3)
    assert (alone.text, alone.tokens) == (among.text, among.tokens)
    assert alone.text == "maison rouge oiseau" == str(alone)
    np.testing.assert_allclose(alone.weights, among.weights, atol=1e-5)
    assert model.translate([]) == []


def test_weights_have_a_row_for_each_token_and_look_where_they_should(model):
    translation = model.translate("red house bird")
    assert translation.source_tokens == ("red", "house", "bird", "</s>")
    assert translation.tokens == ("maison", "rouge", "oiseau", "</s>")
    assert translation.weights.shape == (4, 4)
    np.testing.assert_allclose(translation.weights.sum(axis=1), 1, atol=1e-5)
    assert translation.alignment.links() == [(1, 0), (0, 1), (2, 2)]


def test_given_pairs_score_as_in_fairseq(learned, model, test_pairs):
    finished = generate(
        learned.corpus.data, learned.checkpoint, "--score-reference --print-alignment soft"
    ).ok()
    found = model.align(*map(list, zip(*test_pairs, strict=True)), batch_size=7)
    for number, pair in enumerate(found):
        assert pair.text == test_pairs[number][1]
        score = float(finished.lines("H")[number][0].split("\t")[0])
        assert pair.score == pytest.approx(score, abs=1e-4)
        rows = finished.lines("A")[number][0].split()
        expected = np.array([[float(p) for p in row.split(",")] for row in rows])
        np.testing.assert_allclose(pair.weights, expected, atol=1e-5)


def test_words_that_the_model_does_not_know_keep_their_names(model):
    pair = model.align("red zebra <pad> </s>", "zèbre rouge <unk>")
    assert pair.source_tokens == ("red", "zebra", "<pad>", "</s>", "</s>")
    assert pair.tokens == ("zèbre", "rouge", "<unk>", "</s>")
    assert np.isfinite(pair.weights).all() and pair.weights.shape == (4, 5)
    for empty in (model.align("", "rouge"), model.align("red", ""), model.translate("")):
        np.testing.assert_allclose(empty.weights.sum(axis=1), 1, atol=1e-5)


def test_text_is_prepared_as_the_folder_says(learned, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    for name in ("dict.en.txt", "dict.fr.txt"):
        (data / name).write_bytes((learned.corpus.data / name).read_bytes())
    settings = {"tokenizer": "moses", "lowercase": True}
    (data / "preprocessing.json").write_text(json.dumps({"en": settings, "fr": settings}))
    with pytest.raises(UserError, match="name the languages"):
        load(learned.checkpoint, data)  # neither the checkpoint nor the folder has binarised data
    model = load(learned.checkpoint, data, source_lang="en", target_lang="fr")
    translation = model.translate("Red HOUSE Bird")
    assert translation.text == "maison rouge oiseau"
    assert translation.source == "Red HOUSE Bird"
    assert translation.source_tokens == ("red", "house", "bird", "</s>")


def test_pieces_are_merged_or_kept(learned, tmp_path):
    codes = tmp_path / "codes"
    codes.write_text("#version: 0.2\nm a\n")
    model = load(learned.checkpoint, learned.corpus.data, bpe_codes=codes)
    merged = model.align("red house", "maison rouge")
    kept = model.align("red house", "maison rouge", pieces="keep")
    assert merged.tokens == ("maison", "rouge", "</s>") and merged.weights.shape == (3, 3)
    assert kept.tokens[:2] == ("ma@@", "i@@")
    np.testing.assert_allclose(  # the mean of the pieces' rows, the sum of the pieces' columns
        merged.weights[0, 0], kept.weights[:5, :3].sum(axis=1).mean(), atol=1e-6
    )


def test_a_notebook_shows_text_and_heatmap(model, tmp_path):
    page = model.align("<b>red</b> house", "maison rouge")._repr_html_()
    assert "&lt;b&gt;red&lt;/b&gt; house" in page and "<b>red" not in page
    assert "data:image/png;base64," in page
    figure = model.translate("red house").plot(tmp_path / "picture.svg")
    assert ">house</text>" in (tmp_path / "picture.svg").read_text()
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_ensembles(learned, model):
    earlier = sorted(learned.folder.glob("checkpoint[0-9]*.pt"))[0]
    both = load([learned.checkpoint, earlier], learned.corpus.data)
    one, two = (m.align("red house", "maison rouge") for m in (model, both))
    assert two.score != one.score
    np.testing.assert_allclose(two.weights.sum(axis=1), 1, atol=1e-5)


def test_a_checkpoint_that_is_older_than_an_option(learned, model, tmp_path):
    checkpoint = torch.load(learned.checkpoint, weights_only=True)
    del checkpoint["cfg"]["model"]["kernels"]
    torch.save(checkpoint, tmp_path / "old.pt")
    old = load(tmp_path / "old.pt", learned.corpus.data).align("red house", "maison rouge")
    assert old.score == model.align("red house", "maison rouge").score


@pytest.fixture(scope="module")
def without_attention(small_corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("rnnencdec")
    train(
        small_corpus.data,
        folder,
        MODEL.replace("rnnsearch_tiny", "rnnencdec_30"),
        "--criterion cross_entropy --optimizer adam --batch-size 20 --max-update 1",
        "--heatmap-samples 0",
    ).ok()
    return load(folder / "checkpoint_last.pt", small_corpus.data)


def test_rnnencdec_translates_and_says_that_it_has_no_alignment(without_attention):
    translation = without_attention.translate("red house", beam=2)
    assert translation.alignment is None and translation.tokens[-1] == "</s>"
    assert "<img" not in translation._repr_html_()
    for call in (
        lambda: translation.weights,
        translation.plot,
        lambda: without_attention.align("red", "rouge"),
    ):
        with pytest.raises(UserError, match="no attention"):
            call()


MISTAKES = {
    "lists of other lengths": (lambda m: m.align(["a"], ["b", "c"]), "1 source and 2 target"),
    "a string and a list": (lambda m: m.align("a", ["b"]), "both be a string or both be lists"),
    "no beam": (lambda m: m.translate("a", beam=0), "beam 0"),
    "pieces": (lambda m: m.translate("a", pieces="melt"), "'melt': must be merge or keep"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_named(model, name):
    call, message = MISTAKES[name]
    with pytest.raises(UserError, match=message):
        call(model)


def test_loading_what_is_not_there(learned, tmp_path):
    with pytest.raises(UserError, match=r"lost\.pt"):
        load(tmp_path / "lost.pt", learned.corpus.data)
    with pytest.raises(UserError, match="no data folder"):
        load(learned.checkpoint, tmp_path / "lost")
    for language, words in (("en", "a 1\n"), ("fr", "a 1\nb 1\n")):
        (tmp_path / f"dict.{language}.txt").write_text(words)
    with pytest.raises(UserError, match=r"has 5 symbols .*, but the checkpoint was trained with"):
        load(learned.checkpoint, tmp_path, source_lang="en", target_lang="fr")


# --- the command ------------------------------------------------------------------------------


def written(folder, pairs):
    for side, name in enumerate(("source", "target")):
        (folder / name).write_text("".join(pair[side] + "\n" for pair in pairs))
    return ["--source", str(folder / "source"), "--target", str(folder / "target")]


def test_two_text_files_are_aligned_in_one_command(learned, model, test_pairs, tmp_path):
    finished = subprocess.run(
        [
            sys.executable,
            "-m",
            "fairseq_rnnsearch.align",
            str(learned.corpus.data),
            *("--path", str(learned.checkpoint)),
            *written(tmp_path, test_pairs),
            *("--heatmap-dir", str(tmp_path / "out"), "--heatmap-format", "pharaoh,jsonl,html"),
        ],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert finished.returncode == 0, finished.stderr
    assert f"{len(test_pairs)} pairs aligned" in finished.stderr
    links = (tmp_path / "out/alignments.pharaoh").read_text().splitlines()
    lines = (tmp_path / "out/alignments.jsonl").read_text().splitlines()
    expected = model.align(*map(list, zip(*test_pairs, strict=True)))
    for number, (link, line, pair) in enumerate(zip(links, lines, expected, strict=True)):
        assert link == pair.alignment.pharaoh()
        assert json.loads(line)["id"] == number
        assert tuple(json.loads(line)["target"]) == pair.tokens
        np.testing.assert_allclose(json.loads(line)["weights"], pair.weights, atol=1e-5)
    assert (tmp_path / "out/index.html").exists()


def test_chosen_sentences_keep_their_numbers_also_over_chunks(
    learned, test_pairs, tmp_path, monkeypatch
):
    monkeypatch.setattr("fairseq_rnnsearch.align.AT_ONCE", 2)
    align_main(
        [str(learned.corpus.data), "--path", str(learned.checkpoint)]
        + written(tmp_path, test_pairs)
        + ["--heatmap-dir", str(tmp_path / "out"), "--heatmap-format", "jsonl"]
        + ["--heatmap-samples", "ids:3,17,18,40", "--heatmap-source-end", "drop"]
    )
    lines = (tmp_path / "out/alignments.jsonl").read_text().splitlines()
    assert [json.loads(line)["id"] for line in lines] == [3, 17, 18, 40]
    for line in map(json.loads, lines):
        assert " ".join(line["source"]) == test_pairs[line["id"]][0]
        assert line["target"][:-1] == test_pairs[line["id"]][1].split()


COMMAND_MISTAKES = {
    "a missing option": (["--path", "x"], "required: --source, --target"),
    "an unknown format": (["--heatmap-format", "bmp"], "'bmp' is unknown"),
    "unknown ids": (["--heatmap-samples", "some"], "'some': must be a number"),
    "ids that do not exist": (["--heatmap-samples", "ids:0,7,9"], "ids:7: .* has 1 sentences"),
    "an empty batch": (["--batch-size", "0"], "--batch-size 0"),
    "another number of lines": ([], "1 line"),
}


@pytest.mark.parametrize("name", COMMAND_MISTAKES)
def test_mistakes_on_the_command_line(tmp_path, name):
    more, message = COMMAND_MISTAKES[name]
    files = written(tmp_path, [("a", "b")])
    if name == "another number of lines":
        (tmp_path / "target").write_text("b\nc\n")
    arguments = ["data", *more]
    if name != "a missing option":
        arguments += [*files, "--path", "x", "--heatmap-dir", str(tmp_path / "out")]
    with pytest.raises(UserError, match=message):
        align_main(arguments)
    assert not (tmp_path / "out").exists()


def test_a_mistake_is_one_line_on_standard_error():
    finished = subprocess.run(
        [sys.executable, "-m", "fairseq_rnnsearch.align", "data"],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert finished.returncode == 1
    (line,) = finished.stderr.splitlines()
    assert line.startswith(ERROR)
