"""Translating and aligning from Python, and aligning two text files in one command."""

import asyncio
import contextlib
import copy
import itertools
import json
import math
import pickle
import shutil
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from commands import MODEL, PACKAGE, generate, run, sides, train

from fairseq_rnnsearch import load
from fairseq_rnnsearch.commands import translation as translation_module
from fairseq_rnnsearch.commands.align import main as align_main
from fairseq_rnnsearch.commands.evaluate import main as evaluate
from fairseq_rnnsearch.commands.translation import Translation
from fairseq_rnnsearch.commands.translator import Translator
from fairseq_rnnsearch.decoding.length_limit import LengthLimit
from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.figures import Alignment
from fairseq_rnnsearch.figures.jsonl import json_line
from fairseq_rnnsearch.kernels import forget
from fairseq_rnnsearch.models import trained_models
from fairseq_rnnsearch.models.find import find_model
from fairseq_rnnsearch.models.folder import read_folder, write_folder
from fairseq_rnnsearch.network import precision
from fairseq_rnnsearch.text.plain_text import PlainText

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
    finished = generate(learned.corpus.data, learned.checkpoint, "--beam 4").ok()
    found = model.translate([source for source, _ in test_pairs], beam=4, batch_size=7)
    assert len(found) == len(test_pairs)
    for number, translation in enumerate(found):
        score, text = finished.lines("H")[number][0].split("\t")
        assert translation.text == text
        assert translation.source == test_pairs[number][0]
        assert translation.score == pytest.approx(float(score), abs=1e-4)
    right = [t.text == target for t, (_, target) in zip(found, test_pairs, strict=True)]
    assert np.mean(right) > 0.8


def test_a_translation_that_is_cut_is_said_to_be(learned, model, test_pairs, tmp_path, caplog):
    """The limit is the model's own, in Python and in fairseq's command."""
    assert model.length_limit == LengthLimit(3.0, 10)
    state = torch.load(learned.checkpoint, weights_only=False)
    state["task_state"]["length_limit"] = [0.0, 2]
    torch.save(state, tmp_path / "brief.pt")
    brief = load(tmp_path / "brief.pt", learned.corpus.data)
    found = brief.translate([source for source, _ in test_pairs], beam=4)
    finished = generate(learned.corpus.data, tmp_path / "brief.pt", "--beam 4").ok()
    for number, translation in enumerate(found):
        assert translation.text == finished.lines("H")[number][0].split("\t")[1]
        assert len(translation.text.split()) <= 2
    assert (finished.out + finished.err).count("a translation was cut after 2 tokens") == 1
    assert "was cut after 2 tokens, the model's limit of length" in caplog.text
    assert {one.is_cut for one in found} == {True, False}
    authors = brief.translate([source for source, _ in test_pairs], authors_search=True)
    assert not any(one.is_cut for one in authors)  # their search has a limit of its own
    assert not any(one.is_cut for one in model.translate([source for source, _ in test_pairs]))


def test_a_model_of_bfloat16_is_rounded_when_it_is_loaded(
    learned, model, test_pairs, tmp_path, monkeypatch
):
    monkeypatch.setattr(precision, "_has_bfloat16", lambda: True)
    state = torch.load(learned.checkpoint, weights_only=False)
    state["cfg"]["model"]["compute_dtype"] = "bfloat16"
    torch.save(state, tmp_path / "lowered.pt")
    lowered = load(tmp_path / "lowered.pt", learned.corpus.data)
    assert lowered.models[0].decoder.output.weight.dtype == torch.bfloat16
    sources = [source for source, _ in test_pairs]
    pairs = zip(lowered.translate(sources), model.translate(sources), strict=True)
    same = [one.text == other.text for one, other in pairs]
    assert np.mean(same) > 0.9


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


def test_a_copied_word_is_one_token_and_has_the_weight_of_its_pieces(model):
    weights = torch.tensor([[0.4, 0.3, 0.3, 0.0], [0.5, 0.2, 0.1, 0.2], [0.0, 0.0, 0.0, 1.0]])
    found = model._without_unknown(["<unk>", "x"], ["red", "ze@@", "bra"], weights)
    assert found == ["zebra", "x"]


def test_a_line_is_translated_sentence_by_sentence(model):
    """The words of the language are known in lower case alone; a full stop is none of them."""
    line = "red house lamp . Zebra bird . Key"
    parts = model.translate(["red house lamp .", "Zebra bird .", "Key"], beam=3)
    short, found = model.translate(["bird", line], beam=3, split_sentences=True)
    assert short.text == "oiseau" and len(short.nbest) == 3
    assert found.source == line and found.text == " ".join(part.text for part in parts)
    assert found.unknown == (".", "Zebra", "Key") and found.others == ()
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
    assert page.count("<iframe") == 1
    axes = model.translate("red house").plot(tmp_path / "picture.svg")
    assert ">house</text>" in (tmp_path / "picture.svg").read_text()
    assert axes._repr_png_().startswith(b"\x89PNG")


def test_the_other_hypotheses_and_the_probability_of_each_word(learned, model):
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


def test_a_model_says_which_it_is(learned, model):
    size = sum(values.numel() for values in model.models[0].parameters())
    assert repr(model) == f"Translator('{learned.checkpoint}', en → fr, {size:,} parameters)"
    assert model.name == str(learned.checkpoint)


def test_weights_are_read_only(model):
    for pieces in ("merge", "keep"):
        for same in (lambda one: one, copy.copy, copy.deepcopy, pickled):
            with pytest.raises(ValueError, match="read-only"):
                same(model.translate("red house", pieces=pieces)).weights[0] = 0


def pickled(translation):
    return pickle.loads(pickle.dumps(translation))


def test_translations_are_compared(model):
    one, other, third = (
        model.translate(sentence, attribution=True)
        for sentence in ("red house", "red house", "red bird")
    )
    assert one == other == copy.deepcopy(one) == pickled(one) != third
    assert one.others and len({one, other, pickled(one), third}) == 2


@pytest.mark.parametrize("odd", ["{} \n", "{}\r\n", "  {}", "\u3000{}\u2028"])
def test_white_space_around_a_sentence_is_no_word(model, odd):
    reversible = Translator(
        model.models,
        *(model.source_dictionary, model.target_dictionary),
        *(PlainText(language, "reversible") for language in model.languages),
    )
    red = reversible.translate("red house")
    assert reversible.translate(odd.format("red \t house")).tokens == red.tokens
    assert reversible.align(odd.format("red house"), odd.format("maison rouge")).unknown == ()
    assert reversible.translate(odd.format("")).text == ""


def test_a_translation_is_shown_in_one_short_line(model):
    shown = repr(model.align("red house " * 30, "maison rouge"))
    assert shown.startswith("Translation('red house red") and len(shown) < 120
    assert "…' -> 'maison rouge', score -" in shown


def test_a_picture_in_axes_of_ones_own(model):
    from matplotlib.figure import Figure

    found, figure = model.align("red house", "maison rouge"), Figure()
    axes = figure.subplots()
    assert found.plot(ax=axes, title="mine") is axes
    assert axes.get_title() == "mine" and axes.images[0].get_array().shape == (3, 3)
    assert found.plot(dpi=300).figure.dpi == 300


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
    assert json.loads(json.dumps(translation.to_dict()))["weights"] is None
    assert "<iframe" not in translation._repr_html_()
    assert without_attention.translate("red house", attribution=True).mattered is None
    for call in (
        lambda: without_attention.translate("red", replace_unk=True),
        lambda: translation.weights,
        translation.plot,
        lambda: without_attention.align("red", "rouge"),
    ):
        with pytest.raises(UserError, match="no attention"):
            call()


def test_json_has_no_infinity():
    """The authors' search gives such a score if it finds no translation."""
    alignment = Alignment(("a",), ("b",), np.zeros((1, 1)), score=-math.inf)
    translation = Translation("a", "b", ("a",), ("b",), -math.inf, alignment, (0.0,))
    for text in (json_line(alignment), json.dumps(translation.to_dict())):
        assert "Infinity" not in text and json.loads(text)["score"] is None


# --- mistakes ---------------------------------------------------------------------------------


def test_what_is_sensible_is_accepted(model, tmp_path):
    words = ["red house", "bird"]
    expected = [t.text for t in model.translate(words, beam=3)]
    options = {"beam": np.int64(3), "lenpen": np.float32(1), "forbid_unk": np.False_}
    for several in (tuple(words), iter(words), np.array(words)):
        found = model.translate(several, **options, batch_size=10**30)
        assert [t.text for t in found] == expected
    wide = model.translate("red house", beam=10**9)  # as wide as the dictionary allows
    assert wide.text == expected[0]
    for strange in ("red\0house", "red\nhouse", "red\u2028house", "\n"):
        model.translate(strange).plot(tmp_path / "picture.svg")
    assert model.translate(iter(())) == [] == model.align([], [])


def test_loading_what_is_not_there(learned, tmp_path):
    with pytest.raises(UserError, match=r"lost\.pt does not exist; .* contains en-fr and fr-en$"):
        load(tmp_path / "lost.pt", learned.corpus.data)
    with pytest.raises(UserError, match="/lost: No such file"):
        load(learned.checkpoint, tmp_path / "lost")
    with pytest.raises(FileNotFoundError, match="lost"):
        load(learned.checkpoint, learned.corpus.data, user_dir=tmp_path / "lost")
    for language, words in (("en", "a 1\n"), ("fr", "a 1\nb 1\n")):
        (tmp_path / f"dict.{language}.txt").write_text(words)
    with pytest.raises(UserError, match=r"has 5 symbols .*, but the checkpoint was trained with"):
        load(learned.checkpoint, tmp_path, source_lang="en", target_lang="fr")


def test_a_folder_means_its_best_checkpoint_if_there_is_one(learned, tmp_path):
    best = learned.folder / "checkpoint_best.pt"
    for given in (learned.folder, best.parent.parent):  # the work folder has it one deeper
        assert find_model(given) == best
    with pytest.raises(UserError, match="holds no model: "):
        load(tmp_path, learned.corpus.data)
    (tmp_path / "config.json").touch()  # half of an exported model
    with pytest.raises(UserError, match=r"holds no model: neither model\.safetensors nor a check"):
        load(tmp_path)
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
    with pytest.raises(UserError, match=r"'/gone/data-words', which is neither .*--data DIR"):
        load(work)
    shutil.copytree(learned.corpus.data, work / "data-words")
    assert load(work).translate("red house").text == "maison rouge"


def test_models_that_do_not_belong_together(learned, learned_shortlist, tmp_path, monkeypatch):
    with pytest.raises(UserError, match=r"the source dictionary has 17 symbols .* 14 symbols"):
        load([learned.checkpoint, learned_shortlist.checkpoint], learned.corpus.data)
    state = torch.load(learned_shortlist.checkpoint, weights_only=False)
    del state["task_state"]["dictionaries"]  # as in older checkpoints
    torch.save(state, tmp_path / "older.pt")
    with pytest.raises(UserError, match=r"older\.pt.*the source dictionary has 17 symbols"):
        load([learned.checkpoint, tmp_path / "older.pt"], learned.corpus.data)
    with pytest.raises(UserError, match=r"--source-lang de: the data in .* are en-fr"):
        load(learned.checkpoint, learned.corpus.data, source_lang="de")
    other = SimpleNamespace(task=SimpleNamespace(_name="language_modeling"))
    monkeypatch.setattr(
        "fairseq.checkpoint_utils.load_model_ensemble_and_task", lambda *_, **__: ([], other, None)
    )
    with pytest.raises(UserError, match="--task language_modeling, and must be of a translation"):
        load(learned.checkpoint, learned.corpus.data)


# --- threads ----------------------------------------------------------------------------------

THREADS, ROUNDS, AT_ONCE = 8, 5, 20


def calls_of_threads(model, other):
    """For each thread what it asks of which model, and with which options."""
    options = [
        {"beam": 1},
        {"beam": 5, "lenpen": 0.2},
        {"beam": 4, "forbid_unk": True},
        {"beam": 4, "authors_search": True},
        {"beam": 3, "authors_search": True, "forbid_unk": True, "pieces": "keep"},
        {"beam": 9, "lenpen": 2.0, "forbid_unk": True, "pieces": "keep"},
    ]
    calls = [lambda sources, o=o: model.translate(sources, batch_size=7, **o) for o in options]
    calls += [lambda sources: other.translate(sources, beam=4)]
    calls += [lambda sources: model.align(sources, sources[::-1], pieces="keep", batch_size=6)]
    return calls


def test_texts_within_a_text_and_beside_it(model, caplog):
    def texts():
        with model.as_one_text():
            together.wait()
            model.translate("red zeta")
            with model.as_one_text():
                model.translate("theta")
            model.translate("house")
            together.wait()

    together = threading.Barrier(2, timeout=60)
    with ThreadPoolExecutor(2) as pool:
        for ended in [pool.submit(texts) for _ in range(2)]:
            ended.result()
    said = sorted(record.getMessage() for record in caplog.records)
    assert said == 2 * ["1 of 1 English word is unknown: theta"] + 2 * [
        "1 of 3 English words is unknown: zeta"
    ]


def test_texts_of_tasks_that_take_turns(model, caplog):
    caplog.set_level("WARNING")  # asyncio says on a lower one what it waits with

    async def text(word):
        with model.as_one_text():
            await asyncio.sleep(0)
            model.translate(word)

    async def call(word):
        model.translate(word)

    async def tasks():
        await asyncio.gather(text("zeta"), text("theta"))
        with model.as_one_text():
            await asyncio.to_thread(model.translate, "zeta")
            later = asyncio.create_task(call("theta"))  # begins when the block has ended
        await later

    asyncio.run(tasks())
    model.translate("zeta")
    said = [record.getMessage().partition("1 of ")[2] for record in caplog.records]
    words = ["zeta", "theta", "zeta", "theta", "zeta"]
    assert said == [f"1 English word is unknown: {word}" for word in words]


def test_threads_keep_their_options_and_their_models_apart(learned, learned_shortlist, monkeypatch):
    """Each call waits for all others between its options and its search.

    Results may differ by rounding: which words are multiplied together depends on who came first.
    """
    model = load(learned_shortlist.checkpoint, learned_shortlist.corpus.data, bpe_codes=None)
    other = load(learned.checkpoint, learned.corpus.data)
    calls, rows = calls_of_threads(model, other), sides(learned_shortlist.corpus.text, "train")
    words = [" ".join(source) for source, _ in itertools.islice(rows, THREADS * ROUNDS * AT_ONCE)]
    assert len(calls) == THREADS
    sources = [words[i::THREADS] for i in range(THREADS)]

    def ask(thread):
        return [
            found
            for start in range(0, len(sources[thread]), AT_ONCE)
            for found in calls[thread](sources[thread][start : start + AT_ONCE])
        ]

    expected = [ask(thread) for thread in range(THREADS)]
    for models in (model, other):
        for one in models.models:  # what the searches above have kept
            forget(one.parameters())
    together, search = threading.Barrier(THREADS, timeout=60), Translator._run

    def search_together(*args, **options):
        together.wait()
        return search(*args, **options)

    monkeypatch.setattr(Translator, "_run", search_together)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(THREADS) as pool:
            found = list(pool.map(ask, range(THREADS)))
    finally:
        sys.setswitchinterval(before)
    for ours, alone in zip(found, expected, strict=True):
        for one, same in zip(ours, alone, strict=True):
            assert (one.text, one.tokens) == (same.text, same.tokens)
            assert one.score == pytest.approx(same.score, abs=1e-4)
            np.testing.assert_allclose(one.weights, same.weights, atol=1e-4)
    different = [[t.text for t in one] for one in expected[:6]]
    assert "<unk>" in str(different[1]) and "<unk>" not in str(different[2])


def test_threads_load_and_draw_one_after_the_other(
    learned, learned_shortlist, tmp_path, monkeypatch
):
    """fairseq and matplotlib change settings of the whole process meanwhile."""
    met = []

    def let_meet(owner, name):
        meeting, function = threading.Barrier(2, timeout=0.5), getattr(owner, name)

        def run(*args, **options):
            with contextlib.suppress(threading.BrokenBarrierError):
                met.append((name, meeting.wait()))
            return function(*args, **options)

        monkeypatch.setattr(owner, name, run)

    let_meet(trained_models, "read_models")
    let_meet(translation_module, "draw_heatmap")

    def load_and_draw(one):
        translation = load(one.checkpoint, one.corpus.data).translate("red house")
        translation.plot(tmp_path / f"{threading.get_ident()}.pdf")
        return translation.text

    with ThreadPoolExecutor(2) as pool:
        texts = list(pool.map(load_and_draw, [learned, learned_shortlist]))
    assert not met
    assert texts[0] == "maison rouge"


# --- the command ------------------------------------------------------------------------------


def written(folder, pairs):
    for side, name in enumerate(("source", "target")):
        (folder / name).write_text("".join(pair[side] + "\n" for pair in pairs))
    return ["--source", str(folder / "source"), "--target", str(folder / "target")]


def test_two_text_files_are_aligned_in_one_command(learned, model, test_pairs, tmp_path):
    finished = run(
        "fairseq_rnnsearch.commands.align",
        learned.checkpoint,
        *("--data", learned.corpus.data),
        *written(tmp_path, test_pairs),
        f"--out={tmp_path / 'out'} --heatmap-format pharaoh,jsonl,html",
        "--heatmap-style inverted",
    ).ok()
    assert f"{len(test_pairs)} pairs aligned" in finished.err
    links = (tmp_path / "out/alignments.pharaoh").read_text().splitlines()
    lines = (tmp_path / "out/alignments.jsonl").read_text().splitlines()
    expected = model.align(*map(list, zip(*test_pairs, strict=True)))
    for number, (link, line, pair) in enumerate(zip(links, lines, expected, strict=True)):
        assert link == pair.alignment.pharaoh()
        assert json.loads(line)["id"] == number
        assert tuple(json.loads(line)["target"]) == pair.tokens
        np.testing.assert_allclose(json.loads(line)["weights"], pair.weights, atol=1e-5)
    texts = [(tmp_path / f"out/{side}.tok").read_text() for side in ("source", "target")]
    assert texts == ["".join(f"{pair[side]}\n" for pair in test_pairs) for side in (0, 1)]
    page = (tmp_path / "out/index.html").read_text()
    assert "<title>Alignments of source and target, en → fr</title>" in page
    assert f'id="model" class="faint">{learned.checkpoint}</p>' in page
    assert '"inverted":true' in page


def test_both_directions_are_symmetrised_in_one_command(learned, tmp_path, capsys):
    pairs = [("I lost my keys.", "J'ai perdu mes clés."), ("Where is it?", "Où est-il ?")]
    sides = written(tmp_path, pairs)
    align_main(["en-fr", "--inverse", "fr-en", *sides, f"--out={tmp_path / 'both'}"])
    joined = (tmp_path / "both/symmetrised.pharaoh").read_text()
    align_main(["fr-en", *written(tmp_path, [pair[::-1] for pair in pairs]), f"--out={tmp_path}"])
    files = f"--forward={tmp_path}/both/alignments.pharaoh --inverse={tmp_path}/alignments.pharaoh"
    evaluate(f"symmetrise {files} --reverse inverse --method grow-diag-final-and".split())
    assert joined == capsys.readouterr().out != (tmp_path / "both/alignments.pharaoh").read_text()
    target, first = (tmp_path / "both/target.tok").read_text(), joined.splitlines()[0].split()
    assert target == "J' ai perdu mes clés .\nOù est - il ?\n" and "3-4" in first  # keys
    with pytest.raises(UserError, match="--inverse: the two models split line 1 into different"):
        more = ["--inverse", "fr-en", f"--out={tmp_path / 'other'}"]
        align_main([str(learned.checkpoint), *sides, *more])
    assert not list((tmp_path / "other").iterdir())
    german, folder = tmp_path / "en-de", read_folder(PACKAGE / "pretrained/en-fr")
    facts = folder.config._replace(languages=("en", "de"))
    write_folder(german, folder.model, facts, folder.dictionaries, folder.path)
    for model, inverse in (("en-fr", "en-fr"), ("fr-en", str(german))):
        with pytest.raises(UserError, match=r"--inverse .*: translates en to .*; expected a model"):
            align_main([model, "--inverse", inverse, *sides, f"--out={tmp_path / 'same'}"])
    assert not (tmp_path / "same").exists()


def test_chosen_sentences_keep_their_numbers_also_over_chunks(
    learned, test_pairs, tmp_path, monkeypatch
):
    monkeypatch.setattr("fairseq_rnnsearch.commands.align.AT_ONCE", 2)
    align_main(
        [str(learned.checkpoint), "--data", str(learned.corpus.data)]
        + written(tmp_path, test_pairs)
        + ["--out", str(tmp_path / "out"), "--heatmap-format", "jsonl"]
        + ["--heatmap-samples", "ids:3,17,18,40", "--heatmap-source-end", "drop"]
    )
    lines = (tmp_path / "out/alignments.jsonl").read_text().splitlines()
    assert [json.loads(line)["id"] for line in lines] == [3, 17, 18, 40]
    for line in map(json.loads, lines):
        assert " ".join(line["source"]) == test_pairs[line["id"]][0]
        assert line["target"][:-1] == test_pairs[line["id"]][1].split()
