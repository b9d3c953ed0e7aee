"""Translating and aligning from Python, and aligning two text files in one command."""

import contextlib
import json
import shutil
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from commands import sides
from in_process import generate
from test_living import translator as random_translator

from fairseq_rnnsearch import UserError, load
from fairseq_rnnsearch.commands import translator
from fairseq_rnnsearch.commands.align import main as align_main
from fairseq_rnnsearch.commands.evaluate import main as evaluate
from fairseq_rnnsearch.kernels import forget
from fairseq_rnnsearch.models import trained_models
from fairseq_rnnsearch.models.find import find_model
from fairseq_rnnsearch.text.plain_text import PlainText


@pytest.fixture(scope="module")
def model(learned):
    return load(learned.checkpoint, learned.corpus.data)


@pytest.fixture(scope="module")
def test_pairs(learned):
    return [
        (" ".join(source), " ".join(target))
        for source, target in sides(learned.corpus.text, "test")
    ]


def test_translations_and_scores_are_those_of_fairseq_generate(learned, model, test_pairs):
    sides = [list(side) for side in zip(*test_pairs, strict=True)]
    found = model.translate(sides[0], beam=4, batch_size=7)
    given = model.align(*sides, batch_size=7)
    for options, ours in (
        ("--beam 4 --print-alignment soft", found),
        ("--score-reference --print-alignment soft", given),
    ):
        finished = generate(learned.corpus.data, learned.checkpoint, options)
        for number, one in enumerate(ours):
            score, text = finished.lines("H")[number][0].split("\t")
            assert (one.text, one.source) == (text, test_pairs[number][0])
            assert one.score == pytest.approx(float(score), abs=1e-4)
            rows = [row.split(",") for row in finished.lines("A")[number][0].split()]
            np.testing.assert_allclose(one.weights, np.array(rows, float), atol=1e-5)
    right = [t.text == target for t, (_, target) in zip(found, test_pairs, strict=True)]
    assert np.mean(right) > 0.8


def test_a_translation_that_is_cut_is_said_to_be(learned, model, test_pairs, tmp_path, caplog):
    """The limit is the model's own, in Python and in fairseq's command."""
    state = torch.load(learned.checkpoint, weights_only=False)
    state["task_state"]["length_limit"] = [0.0, 2]
    torch.save(state, tmp_path / "brief.pt")
    brief = load(tmp_path / "brief.pt", learned.corpus.data)
    sources = [source for source, _ in test_pairs]
    found = brief.translate(sources, beam=4)
    assert "was cut after 2 tokens, the model's limit of length" in caplog.text
    finished = generate(learned.corpus.data, tmp_path / "brief.pt", "--beam 4")
    assert [one.text for one in found] == [
        text for _, (text,) in sorted(finished.hypotheses().items())
    ]
    assert finished.out.count("a translation was cut after 2 tokens") == 1
    assert max(len(one.text.split()) for one in found) == 2
    assert {one.is_cut for one in found} == {True, False}
    # the authors' search has a limit of its own
    whole = brief.translate(sources, authors_search=True) + model.translate(sources)
    assert not any(one.is_cut for one in whole)


def test_words_that_the_model_does_not_know_keep_their_names(model):
    pair = model.align("red zebra <pad> </s>", "zèbre rouge <unk>")
    assert pair.source_tokens == ("red", "zebra", "<pad>", "</s>", "</s>")
    assert pair.tokens == ("zèbre", "rouge", "<unk>", "</s>")
    marked = ("red", "<unk:zebra>", "<unk:<pad>>", "<unk:</s>>", "</s>")
    assert pair.alignment.source == marked and pair.alignment.target[0] == "<unk:zèbre>"
    assert np.isfinite(pair.weights).all() and pair.weights.shape == (4, 5)
    for empty in (model.align("", "rouge"), model.align("red", ""), model.translate("")):
        np.testing.assert_allclose(empty.weights.sum(axis=1), 1, atol=1e-5)


def test_unknown_words_are_named_and_can_be_copied(learned_shortlist, model):
    assert model.translate("red zebra lamp zebra").unknown == ("zebra",)
    assert model.align("red zebra", "rouge lampe").unknown == ("zebra",)
    shortlist = load(learned_shortlist.checkpoint, learned_shortlist.corpus.data)
    pairs = sides(learned_shortlist.corpus.text, "test")
    sentences = [" ".join(source) for source, _ in pairs]
    plain = shortlist.translate(sentences)
    copied = shortlist.translate(sentences, replace_unk=True)
    for one, other in zip(plain, copied, strict=True):
        best = dict((target, one.source_tokens[i]) for i, target in one.alignment.links())
        expected = [best[i] if word == "<unk>" else word for i, word in enumerate(one.tokens)]
        assert list(other.tokens) == expected and other.text == " ".join(expected[:-1])
    assert "<unk>" in str(plain) and "<unk>" not in str(copied)


def test_a_line_is_translated_sentence_by_sentence(model):
    """The words of the language are known in lower case alone; a full stop is none of them."""
    line = "red house lamp . Zebra bird . Key"
    parts = model.translate(["red house lamp .", "Zebra bird .", "Key"], beam=3)
    short, found = model.translate(["bird", line], beam=3, split_sentences=True)
    assert short.text == "oiseau" and len(short.nbest) == 3
    assert found.source == line and found.text == " ".join(part.text for part in parts)
    assert found.unknown == (".", "Zebra", "Key") and len(found.others) == 6
    assert found.source_tokens == (*line.split(), "</s>")
    assert found.tokens == (*found.text.split(), "</s>")
    np.testing.assert_allclose(found.weights.sum(axis=1), 1, atol=1e-5)
    row = column = 0
    for part in parts:
        rows, columns = part.weights.shape
        block = found.weights[row : row + rows - 1]
        np.testing.assert_allclose(
            block[:, column : column + columns - 1], part.weights[:-1, :-1], atol=1e-5
        )
        np.testing.assert_allclose(block[:, -1], part.weights[:-1, -1], atol=1e-5)
        row, column = row + rows - 1, column + columns - 1
    last = found.weights[-1, -columns:]
    np.testing.assert_allclose(last, parts[-1].weights[-1], atol=1e-5)
    assert found.score == pytest.approx(np.mean([part.score for part in parts]), abs=1e-4)


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


def test_a_notebook_shows_text_and_heatmap(model):
    page = model.align("<b>red</b> house", "maison rouge")._repr_html_()
    assert "&lt;b&gt;red&lt;/b&gt; house" in page and "<b>red" not in page
    assert page.count("<iframe") == 1


def test_the_other_hypotheses_and_the_probability_of_each_word(model):
    found = model.translate("red house", beam=4)
    assert found.nbest[0] is found and len(found.nbest) == 4
    scores = [one.score for one in found.nbest]
    assert scores == sorted(scores, reverse=True)
    assert len({one.text for one in found.nbest}) > 1
    for one in found.nbest:
        assert (one.weights.shape == (len(one.tokens), 3) and one.others == ()) or one is found
        bits = np.log2(one.probabilities)
        assert bits.sum() / len(one.tokens) == pytest.approx(one.score, abs=1e-4)
    (scored,) = model.align("red house", found.nbest[1].text).nbest
    assert scored.probabilities == pytest.approx(found.nbest[1].probabilities, abs=1e-5)


@pytest.mark.parametrize("odd", ["{}\r\n", "\u3000{}\u2028"])
def test_white_space_around_a_sentence_is_no_word(model, odd):
    texts = (PlainText(language, "reversible") for language in model.languages)
    dictionaries = model.source_dictionary, model.target_dictionary
    reversible = translator.Translator(model.models, *dictionaries, *texts)
    red = reversible.translate("red house")
    assert reversible.translate(odd.format("red \t house")).tokens == red.tokens
    assert reversible.align(odd.format("red house"), odd.format("maison rouge")).unknown == ()
    assert reversible.translate(odd.format("")).text == ""


def test_rnnencdec_translates_and_says_that_it_has_no_alignment():
    encdec = random_translator(fixed_context=True)
    translation = encdec.translate("w3 w2", beam=2, attribution=True)
    assert translation.alignment is None and translation.mattered is None
    assert json.loads(json.dumps(translation.to_dict()))["weights"] is None
    assert "<iframe" not in translation._repr_html_()
    for call in (lambda: translation.weights, translation.plot, lambda: encdec.align("w3", "w2")):
        with pytest.raises(UserError, match="no attention"):
            call()


# --- mistakes ---------------------------------------------------------------------------------


def test_a_folder_means_its_best_checkpoint_if_there_is_one(learned, tmp_path):
    best = learned.folder / "checkpoint_best.pt"
    for given in (learned.folder, best.parent.parent):  # the work folder has it one deeper
        assert find_model(given) == best
    for name in ("a", "b"):
        (tmp_path / "trained/checkpoints" / name).mkdir(parents=True)
        shutil.copy(best, tmp_path / "trained/checkpoints" / name)
    with pytest.raises(UserError, match=r"holds several models: name one of .*/a/.*, .*/b/"):
        load(tmp_path)


def test_the_data_are_found_beside_a_checkpoint_that_was_moved(learned, tmp_path):
    state = torch.load(learned.checkpoint, weights_only=True)
    state["cfg"]["task"]["data"] = "/gone/data-words"
    work = tmp_path / "work"  # as wmt14_en_fr lays it out
    (work / "trained-words/checkpoints/RNNsearch-50").mkdir(parents=True)
    torch.save(state, work / "trained-words/checkpoints/RNNsearch-50/checkpoint_best.pt")
    shutil.copytree(learned.corpus.data, work / "data-words")
    assert load(work).translate("red house").text == "maison rouge"


# --- threads ----------------------------------------------------------------------------------

OPTIONS = (  # of a thread's calls; the last but one asks another model, the last aligns
    {"beam": 1},
    {"beam": 5, "lenpen": 0.2},
    {"beam": 4, "forbid_unk": True},
    {"beam": 4, "authors_search": True},
    {"beam": 3, "authors_search": True, "forbid_unk": True, "pieces": "keep"},
    {"beam": 9, "lenpen": 2.0, "forbid_unk": True, "pieces": "keep"},
    {"beam": 4},
    {"pieces": "keep"},
)


@pytest.mark.slow
def test_threads_keep_their_options_and_their_models_apart(learned, learned_shortlist, monkeypatch):
    """Each call waits for all others between its options and its search.

    Results may differ by rounding: which words are multiplied together depends on who came first.
    """
    model = load(learned_shortlist.checkpoint, learned_shortlist.corpus.data, bpe_codes=None)
    other = load(learned.checkpoint, learned.corpus.data)
    words = [" ".join(source) for source, _ in sides(learned_shortlist.corpus.text, "train")]
    together, search = threading.Barrier(len(OPTIONS), timeout=60), translator.in_batches

    def ask(thread):
        found, asked = [], other if thread == len(OPTIONS) - 2 else model
        for start in range(20 * thread, 20 * thread + 100, 20):
            sources = words[start : start + 20]
            if OPTIONS[thread] == {"pieces": "keep"}:
                found += asked.align(sources, sources[::-1], **OPTIONS[thread])
            else:
                found += asked.translate(sources, batch_size=7, **OPTIONS[thread])
        return found

    def search_together(*args, **options):
        together.wait()
        return search(*args, **options)

    expected = [ask(thread) for thread in range(len(OPTIONS))]
    for one in (*model.models, *other.models):  # what the searches above have kept
        forget(one.parameters())
    monkeypatch.setattr(translator, "in_batches", search_together)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(len(OPTIONS)) as pool:
            found = list(pool.map(ask, range(len(OPTIONS))))
    finally:
        sys.setswitchinterval(before)
    for ours, alone in zip(found, expected, strict=True):
        for one, same in zip(ours, alone, strict=True):
            assert (one.text, one.tokens) == (same.text, same.tokens)
            assert one.score == pytest.approx(same.score, abs=1e-4)
            np.testing.assert_allclose(one.weights, same.weights, atol=1e-4)
    assert ["<unk>" in str(one) for one in expected[1:3]] == [True, False]


def test_threads_load_one_after_the_other(learned, monkeypatch):
    """Reading replaces parts of fairseq meanwhile."""
    meeting, read, met = threading.Barrier(2, timeout=0.5), trained_models.read_models, []

    def meet(*args, **options):
        with contextlib.suppress(threading.BrokenBarrierError):
            met.append(meeting.wait())
        return read(*args, **options)

    monkeypatch.setattr(trained_models, "read_models", meet)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(load, [learned.checkpoint] * 2, [learned.corpus.data] * 2))
    assert not met


# --- the command ------------------------------------------------------------------------------


def written(folder, pairs):
    for side, name in enumerate(("source", "target")):
        (folder / name).write_text("".join(pair[side] + "\n" for pair in pairs))
    return ["--source", str(folder / "source"), "--target", str(folder / "target")]


def test_two_text_files_are_aligned_in_one_command(learned, model, test_pairs, tmp_path, capsys):
    out, formats = tmp_path / "out", "--heatmap-format=pharaoh,jsonl,html"
    given = [str(learned.checkpoint), f"--data={learned.corpus.data}", f"--out={out}", formats]
    align_main([*given, *written(tmp_path, test_pairs)])
    assert f"{len(test_pairs)} pairs aligned" in capsys.readouterr().err
    links = (out / "alignments.pharaoh").read_text().splitlines()
    lines = (out / "alignments.jsonl").read_text().splitlines()
    expected = model.align(*map(list, zip(*test_pairs, strict=True)), posterior=True)
    for number, (link, line, pair) in enumerate(zip(links, lines, expected, strict=True), start=1):
        assert link == pair.alignment.pharaoh()
        assert json.loads(line)["id"] == number
        assert tuple(json.loads(line)["target"]) == pair.tokens
        np.testing.assert_allclose(json.loads(line)["weights"], pair.weights, atol=1e-5)
    texts = [(out / f"{side}.tok").read_text() for side in ("source", "target")]
    assert texts == ["".join(f"{pair[side]}\n" for pair in test_pairs) for side in (0, 1)]
    assert (out / "index.html").exists()


def test_both_directions_are_symmetrised_in_one_command(learned, tmp_path, capsys):
    pairs = [
        ("I lost my keys.", "J'ai perdu mes clés."),
        ("I do not like it at all.", "Ça ne me plaît pas du tout."),
    ]
    sides = written(tmp_path, pairs)
    align_main(["en-fr", "--inverse", "fr-en", *sides, f"--out={tmp_path / 'both'}"])
    joined = (tmp_path / "both/symmetrised.pharaoh").read_text()
    align_main(["fr-en", *written(tmp_path, [pair[::-1] for pair in pairs]), f"--out={tmp_path}"])
    files = f"--forward={tmp_path}/both/alignments.pharaoh --inverse={tmp_path}/alignments.pharaoh"
    evaluate(f"symmetrise {files} --reverse inverse --method grow-diag-final-and".split())
    assert joined == capsys.readouterr().out != (tmp_path / "both/alignments.pharaoh").read_text()
    assert "3-3" in joined.splitlines()[0].split()  # keys
    for model, inverse, named in (
        (str(learned.checkpoint), "fr-en", "split line 1 into different"),
        ("en-fr", "en-fr", r"--inverse .*: translates en to"),
    ):
        out = tmp_path / inverse
        with pytest.raises(UserError, match=named):
            align_main([model, "--inverse", inverse, *sides, f"--out={out}", "--units=tokens"])
        assert not out.exists() or not list(out.iterdir())


def test_links_of_the_words_of_a_file_are_printed(tmp_path, capsys):
    pair = ("  We thank Mr. Miller.", "Nous remercions M. Miller .")
    sides = written(tmp_path, [pair])
    ways = ("", "--inverse=fr-en", "--words", "--units=tokens", "--attention --threshold=0")
    ways += ("--threshold=0.5 --inverse=fr-en --scores", "--units=characters")
    printed = []
    for options in ways:
        align_main(["en-fr", *sides, *options.split()])
        printed.append(capsys.readouterr().out.removesuffix("\n").split())
    words = "0-0 1-1 2-2 3-3 3-4".split()
    assert printed[0] == words
    assert {"0-0", "1-1", "2-2", "3-3"} <= {*printed[1]}
    assert printed[2][2:] == ["Mr.-M.", "Miller.-Miller", "Miller.-."]
    assert len(printed[3]) == 6  # with the point of M.
    assert printed[4] == [f"{i}-{j}" for j in range(5) for i in range(4)]
    links, scores = zip(*(link.split(":") for link in printed[5]), strict=True)
    assert {*links} <= {*printed[1]} and all(0.25 < float(score) <= 1 for score in scores)
    assert (printed[6][0], printed[6][-1]) == ("2:4-0:4", "21:22-26:27")


def test_chosen_sentences_keep_their_numbers_also_over_chunks(
    learned, test_pairs, tmp_path, monkeypatch
):
    monkeypatch.setattr("fairseq_rnnsearch.commands.align.AT_ONCE", 2)
    given = f"{learned.checkpoint} --data={learned.corpus.data} --out={tmp_path / 'out'}"
    drawn = "--heatmap-format=jsonl --heatmap-samples=ids:3,17,18,40 --heatmap-source-end=drop"
    align_main([*given.split(), *drawn.split(), *written(tmp_path, test_pairs)])
    lines = (tmp_path / "out/alignments.jsonl").read_text().splitlines()
    found = {line["id"]: (line["source"], line["target"]) for line in map(json.loads, lines)}
    pairs = {n: [side.split() for side in test_pairs[n - 1]] for n in (3, 17, 18, 40)}
    assert found == {n: (source, [*target, "</s>"]) for n, (source, target) in pairs.items()}
