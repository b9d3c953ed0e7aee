"""The living page: what its engine answers, run in Node, against `load()`'s translator.

The page's own bytes are run: the tests read the engine and the stored model out of the file. After
a touch the expectation comes from torch: a forced word is a prefix of fairseq's search, and a moved
row of weights stands in for what the reference kernels attend with.
"""

import itertools
import json
import math
import random
import shutil
import subprocess
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import torch
from fairseq.sequence_scorer import SequenceScorer
from models import EOS, PAD, build_model, random_model
from slow_cases import cases
from test_tags import TABLE, linked

from fairseq_rnnsearch import load
from fairseq_rnnsearch.align.tags import taken_out
from fairseq_rnnsearch.commands.torch_networks import hypothesis_of
from fairseq_rnnsearch.commands.translator import Translator
from fairseq_rnnsearch.decoding.decode import decode
from fairseq_rnnsearch.decoding.length_limit import LengthLimit
from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.kernels import decoder_steps, reference
from fairseq_rnnsearch.living import living_page
from fairseq_rnnsearch.living.__main__ import main
from fairseq_rnnsearch.living.living_page import text_rules, write_living_page
from fairseq_rnnsearch.models.folder import quantised
from fairseq_rnnsearch.network import DECODER_ORDERS
from fairseq_rnnsearch.plugin.generators import StepwiseGenerator
from fairseq_rnnsearch.plugin.model import RNNSearchConfig
from fairseq_rnnsearch.text.dictionary_file import numbers_of
from fairseq_rnnsearch.text.plain_text import PlainText, sentences_in
from fairseq_rnnsearch.text.tokenizers import TOKENIZERS

pytest_plugins = ["trained"]

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(not NODE, reason="node is not installed; it runs the page's engine")
RUNNER = Path(__file__).with_name("living_page.js")
SHORT = LengthLimit(3.0, 10)
CLOSE = {"atol": 1e-5, "rtol": 0}
TEXTS = ["w3", "w1 w0 w5 w1 w2", "w4 w9 zebra <pad> w7 w2 w8"]


def translator(**options):
    """A random model as `load` gives it; words 1 and 4 of both sides are pieces that go on."""
    symbols = {"source_symbols": 20, "target_symbols": 32} | options
    model = random_model(**symbols).float().eval()
    dictionaries = model.encoder.dictionary, model.decoder.dictionary
    for dictionary in dictionaries:
        for word in ("w1", "w4"):
            number = dictionary.indices.pop(word)
            dictionary.symbols[number] = f"{word}@@"
            dictionary.indices[f"{word}@@"] = number
    texts = [PlainText.of(Path("none"), language) for language in ("en", "fr")]
    return Translator([model], *dictionaries, *texts, length_limit=SHORT)


def again(model, network):
    """A translator of another network with the same words."""
    dictionaries = model.source_dictionary, model.target_dictionary
    texts = model.source_text, model.target_text
    return Translator(network, *dictionaries, *texts, length_limit=SHORT)


def written(tmp_path, model, **options):
    """The page of a model."""
    path = tmp_path / "living.html"
    write_living_page(path, [model], **options)
    return path


def ask(page, *calls):
    """What the engine of a page answers to calls, each [function, arguments...]."""
    command = [NODE, RUNNER, page]
    typed = "".join(json.dumps(call, default=str) + "\n" for call in calls)
    ran = subprocess.run(command, input=typed, capture_output=True, text=True, check=True)
    answers = [json.loads(line) for line in ran.stdout.split("\n") if line]
    assert len(answers) == len(calls), ran.stderr
    return [answer.get("value", answer) for answer in answers]


# --- what is expected, by torch -------------------------------------------------------------------


class Touched:
    """Lets the reference kernels attend with given rows of weights at some steps, within a block.

    Every step attends once, in a search as in a pass over given words.
    """

    def __init__(self, rows):
        self.rows = {int(i): torch.tensor(row, dtype=torch.float32) for i, row in rows.items()}

    def __enter__(self):
        self.attend, steps = reference.attend, itertools.count()

        def attend(s, memory, *others):
            row = self.rows.get(next(steps))
            if row is None:
                return self.attend(s, memory, *others)
            alpha = row.expand(len(s), -1)
            return alpha @ memory.annotations[0], alpha, None

        reference.attend = decoder_steps.attend = attend

    def __exit__(self, *_):
        reference.attend = decoder_steps.attend = self.attend


def batch(model, source, target=None):
    """A sentence, and maybe its translation, given as tokens."""
    sources = [numbers_of(model.source_dictionary, source)]
    targets = target and [numbers_of(model.target_dictionary, target)]
    return model.networks._batch(sources, targets, left=False)


def in_words(model, text, hypothesis):
    """What the translator makes of a hypothesis of fairseq's."""
    beam, source = [hypothesis_of(weighted(hypothesis))], model.source_text.tokens(text)
    return model._in_words("merge").translated(text, source, beam)


def searched(model, text, beam, words=(), rows=()):
    """All hypotheses of fairseq's search with forced words and rows, best first."""
    sample = batch(model, model.source_text.tokens(text))
    numbers = {int(i): model.target_dictionary.index(token) for i, token in dict(words).items()}
    pad = model.target_dictionary.pad()
    prefix = [[numbers.get(i, pad) for i in range(max(numbers, default=-1) + 1)]]
    options = {"max_len_a": model.length_limit.ratio, "max_len_b": model.length_limit.margin}
    generator = StepwiseGenerator(model.models, model.target_dictionary, beam_size=beam, **options)
    with Touched(dict(rows)), torch.inference_mode():
        forced = torch.tensor(prefix) if numbers else None
        return decode(generator, model.models, sample, PAD, EOS, prefix_tokens=forced)[0]


def check(answer, model, text, hypothesis, rows=()):
    """Compare an answer with a hypothesis of fairseq, and with a pass over its words."""
    expected = in_words(model, text, hypothesis)
    assert answer["tokens"] == list(expected.tokens)
    assert answer["sourceTokens"] == list(expected.source_tokens)
    assert answer["score"] == pytest.approx(expected.score, abs=1e-5)
    if expected.alignment is None:
        assert answer["weights"] is None
    else:
        np.testing.assert_allclose(answer["weights"], expected.weights, **CLOSE)
    sample = batch(model, model.source_text.tokens(text))
    words = hypothesis["tokens"].roll(1).unsqueeze(0)  # the end symbol first
    with Touched(dict(rows)), torch.inference_mode():
        output = model.models[0](
            sample["net_input"]["src_tokens"], sample["net_input"]["src_lengths"], words
        )
    probabilities = output[0].softmax(-1)[0]
    for expected, found in zip(probabilities, answer["alternatives"], strict=True):
        words = [model.target_dictionary.symbols.index(token) for token, _ in found]
        assert len(set(words)) == 5
        for best in (expected[words], expected.topk(5).values):  # two words may be as likely
            np.testing.assert_allclose([p for _, p in found], best, **CLOSE)


def weighted(hypothesis):
    if hypothesis["attention"] is None or not hypothesis["attention"].numel():
        return hypothesis | {"weights": None}
    return hypothesis | {"weights": hypothesis["attention"].T}


# --- every model ----------------------------------------------------------------------------------

MODELS = [
    *({"decoder_order": order} for order in DECODER_ORDERS),
    {"output_layer": "factorised", "decoder_order": "appendix"},
    {"fixed_context": True},
    {"fixed_context": True, "decoder_order": "section3"},
]
VARIANTS = cases(MODELS, MODELS[0], *MODELS[2:5])  # in which each option stands once


@needs_node
@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_answers_are_those_of_python(options, tmp_path):
    model = translator(kernels="reference", **options)
    path = written(tmp_path, model, weights="float32")
    text = TEXTS[1]
    (first,) = ask(path, ["translate", text])
    word = {"1": first["alternatives"][1][2][0]}
    prefix = {str(i): piece for i, piece in enumerate(first["pieces"][:3])} | {"3": "w7"}
    row = list(np.linspace(0, 1, 6) / 3)
    rows = {} if options.get("fixed_context") else {"1": row, "2": row[::-1]}
    touches = [{"words": word}, {"words": prefix}, {"words": word, "rows": rows}, {"rows": rows}]
    calls = [["translate", text, {"beam": beam}] for beam in (1, 12)]
    calls += [["translate", other] for other in TEXTS]
    calls += [["translate", text, {"beam": 3} | touched] for touched in touches]
    calls.append(["translate", text, {"prefix": "w7 w0"}])
    forced = [["force", text, "w4 w6 w2 w0", touched] for touched in ({}, *touches[2:])]
    answers = ask(path, *calls, *forced)
    for (_, asked, *given), answer in zip(calls, answers, strict=False):
        given = given[0] if given else {}
        begins = dict(enumerate(given.get("prefix", "").split()))
        touched = given.get("words", begins), given.get("rows", {})
        hypotheses = searched(model, asked, given.get("beam", 5), *touched)
        check(answer, model, asked, hypotheses[0], touched[1])
        longest = model.length_limit.of(len(model.source_text.tokens(asked)) + 1)
        assert answer["isCut"] == (len(hypotheses[0]["tokens"]) > longest)
        finite = [one for one in hypotheses if one["score"] > -math.inf]
        scores = [float(one["score"]) / math.log(2) for one in finite]
        np.testing.assert_allclose([one["score"] for one in answer["nbest"]], scores, **CLOSE)
        check_tree(answer, given.get("beam", 5))
    for (_, asked, target, given), answer in zip(forced, answers[len(calls) :], strict=True):
        words = target.split()
        for i, token in given.get("words", {}).items():
            words[int(i)] = token
        sample = batch(model, asked.split(), words)
        generator = SequenceScorer(model.target_dictionary)
        with Touched(given.get("rows", {})), torch.inference_mode():
            ((best, *_),) = decode(generator, model.models, sample, PAD, EOS, scores=True)
        check(answer, model, asked, best, given.get("rows", {}))


def check_tree(answer, beam):
    """The tree holds the translation, and at each step no more than the beam and the ends."""
    tree, depths = answer["tree"], []
    for node in tree:
        depths.append(0 if node["parent"] is None else depths[node["parent"]] + 1)
    best = [(node["token"], node["probability"]) for node in tree if node["isBest"]]
    assert [token for token, _ in best] == answer["pieces"]
    np.testing.assert_allclose([p for _, p in best], answer["probabilities"], **CLOSE)
    for node in tree:
        before = 0 if node["parent"] is None else tree[node["parent"]]["score"]
        assert node["score"] == pytest.approx(before + math.log2(node["probability"]), abs=1e-5)
    ends = [node["token"] for node in tree].count("</s>")
    assert ends >= len(answer["nbest"])
    assert max(map(depths.count, depths)) <= 2 * beam


@pytest.mark.slow
@needs_node
def test_every_option_of_the_architecture_runs_or_is_refused(tmp_path):
    """Those of speed and precision leave the answers of the page as they are."""
    small = {"encoder_hidden_size": 4, "decoder_hidden_size": 8}
    for option in fields(RNNSearchConfig):
        is_switch = isinstance(option.default, bool)  # others are names, or sizes as `small` has
        for value in getattr(option.type, "__members__", [True, False] if is_switch else []):
            model = translator(**small | {option.name: value})
            try:
                path = written(tmp_path, model, weights="float32")
            except UserError as refused:
                said = str(refused).replace("-", "_")
                assert option.name in said and (value is True or value in said)
                continue
            if option.name in ("compute_dtype", "kernels"):  # of which some need a GPU
                model = translator(**small)
            check(*ask(path, ["translate", TEXTS[1]]), model, TEXTS[1], model_best(model, TEXTS[1]))


def model_best(model, text):
    return searched(model, text, 5)[0]


@needs_node
def test_rounded_weights_are_those_that_are_stored(tmp_path):
    """The page with 8-bit weights equals a model whose matrices were rounded in Python."""
    model = translator()
    path = written(tmp_path, model)
    for parameter in model.models[0].parameters():
        if parameter.dim() > 1:
            steps, scales = quantised(parameter.detach().numpy())
            assert steps.dtype == np.int8 and np.abs(steps).max() == 127
            again = torch.from_numpy(steps * scales[:, None])
            assert (again - parameter).abs().max() <= scales.max() / 2
            parameter.data = again
    answers = ask(path, *(["translate", text] for text in TEXTS))
    for text, answer in zip(TEXTS, answers, strict=True):
        check(answer, model, text, model_best(model, text))


def test_the_bytes_of_the_products_are_those_of_their_text():
    wasmtime = pytest.importorskip(
        "wasmtime", reason="wasmtime is not installed; it assembles the products' text"
    )
    text = Path(living_page.__file__).with_name("matrix_product.wat")
    assert wasmtime.wat2wasm(text.read_text()) == text.with_suffix(".wasm").read_bytes()


@needs_node
def test_a_step_under_the_glass_follows_the_equations(tmp_path):
    """Each value from the ones before it, by numpy and the paper's equations."""
    for order in DECODER_ORDERS:
        model = translator(decoder_order=order)
        path = written(tmp_path, model, weights="float32")
        touched = {"rows": {"1": [0, 0, 1, 0, 0, 0]}}  # in the step before
        (found,) = ask(path, ["translate", TEXTS[1], touched])
        (seen,) = ask(path, ["step", TEXTS[1], found["pieces"], 2, touched])
        np.testing.assert_allclose(seen["alpha"], found["stepWeights"][2], **CLOSE)
        p = {name: value.numpy() for name, value in model.models[0].decoder.state_dict().items()}
        p = {name.removeprefix("network."): value for name, value in p.items()}
        v = {name: np.array(value) for name, value in seen.items() if isinstance(value, list)}
        word = found["pieces"][2 if order == "program" else 1]
        y = p["embedding.weight"][model.target_dictionary.index(word)] + p["embedding.bias"]
        np.testing.assert_allclose(v["alpha"], softmax(v["energies"]), **CLOSE)
        x, x_z, x_r = np.split(p["unit.input_weight"] @ y + p["unit.context_weight"] @ v["c"], 3)
        z, r = np.split(p["unit.recurrent_gates"] @ v["s"], 2)
        z, r = 1 / (1 + np.exp(-x_z - z)), 1 / (1 + np.exp(-x_r - r))
        recurrent = p["unit.recurrent_proposed"] @ (r * v["s"])
        proposed = np.tanh(x + p["unit.input_bias"] + recurrent)
        state = (1 - z) * v["s"] + z * proposed
        for name, expected in {"r": r, "z": z, "proposed": proposed, "state": state}.items():
            np.testing.assert_allclose(seen["update"][name], expected, **CLOSE)
        read = state if order == "section3" else v["s"]
        total = p["readout.state_weight"] @ read + p["readout.word_weight"] @ v["y"]
        total += p["readout.context_weight"] @ v["c"] + p["readout.bias"]
        np.testing.assert_allclose(v["sum"], total, **CLOSE)
        np.testing.assert_allclose(v["t"], np.maximum(total[::2], total[1::2]), **CLOSE)
        logits = p["output.weight"] @ v["t"] + p["output.bias"]
        likeliest = np.sort(softmax(logits))[::-1][:10]
        np.testing.assert_allclose([q for _, q in seen["likeliest"]], likeliest, **CLOSE)


def softmax(x):
    x = np.exp(x - x.max())
    return x / x.sum()


@needs_node
def test_what_cannot_be_is_said(tmp_path):
    path = written(tmp_path, translator())
    calls = {
        "beam 13": ["translate", "w1", {"beam": 13}],
        "words": ["translate", "w1", {"prefix": "<pad>"}],
        "step 9": ["step", "w1", ["</s>"], 9],
        "model 1": ["translate", "w1", {"model": 1}],
        "rows 0": ["translate", "w1", {"rows": {"0": [1]}}],
        "zebra": ["force", "w1", "w2", {"words": {"0": "zebra"}}],
        "sentence": ["translate", None],
    }
    for name, answer in zip(calls, ask(path, *calls.values()), strict=True):
        assert name in answer["error"]
    (nothing,) = ask(path, ["translate", " ", {"lenpen": 1.5}])  # which could make words worth it
    assert (nothing["text"], nothing["tokens"], nothing["nbest"]) == ("", ["</s>"], [])


# --- text -----------------------------------------------------------------------------------------

SENTENCES = [
    "Mr. Smith's dog (a 5.5 kg one, I'm told) isn't here... is it?",
    'He said: "It\'s 1,000.5 dollars, e.g. $3 a.m. or Fig. 3."  ',
    "L'homme qu'il a vu n'est pas l'ami d'aujourd'hui ; 5 % ?",
    "Dell'arte c'è un po' di '68, l'1 'e'",
    "Ein Mann - z. B. Hr. Müller's Freund, usw. - «geht» 3. Stock.",
    "東京は2020年、人口1,000万。 漢字 カタカナ ひらがな 한국어 테스트",
    "Dr. 'n' the ''quoted'' “text” „hier“ `code` … …. .. ... a..b",
    "\u00a0nbsp\u2003em\tspace\x1c\x85x\u200bzero\ufeffbom\u3000ideo",
    "हिन्दी क़लम, Ελλάς. ΟΔΟΣ İstanbul ß ǅ 🎉🎉 x² ½ №5 €5 £3.50 x'y' ''",
    "The Jones' house 'tis ' a ' b' c 's don't 1990's rock'n'roll",
    "www.example.com/a?b=c&d e-mail@x.org <b>bold</b> [1] {2} |3| a@-@b",
    "",
    "   ",
    ".",
    "A. B. c. D. 1,000.5,",
    "Ім'я 👩‍💻👍🏽🇫🇷🇩🇪 ශ්‍රී o\u0303 a@@ ￭％00a0 and/or 50% <NUM1> {name} https://example.org/?a=b",
]


@needs_node
@pytest.mark.parametrize("tokenizer", sorted({*TOKENIZERS} - {"moses"}))
def test_text_is_split_and_joined_as_in_python(tokenizer, tmp_path):
    texts = [PlainText(one, tokenizer, lowercase=one == "fr") for one in ("en", "fr", "ja")]
    rules, _ = text_rules(texts)
    (tmp_path / "rules.json").write_text(json.dumps(rules))
    write_living_page(tmp_path / "living.html", [translator()])
    cases = [(n, text, sentence) for n, text in enumerate(texts) for sentence in SENTENCES]
    calls = [["tokens_by", tmp_path / "rules.json", n, sentence] for n, _, sentence in cases]
    split = [text.tokens(sentence) for _, text, sentence in cases]
    assert ask(tmp_path / "living.html", *calls) == split
    calls = [
        ["text_by", tmp_path / "rules.json", n, tokens]
        for (n, *_), tokens in zip(cases, split, strict=True)
    ]
    joined = [text.text(tokens) for (_, text, _), tokens in zip(cases, split, strict=True)]
    assert ask(tmp_path / "living.html", *calls) == joined


@needs_node
def test_a_text_is_split_into_sentences_as_in_python(tmp_path):
    texts = [
        "Two dogs run. A man is sleeping. Where is he?",
        "Mr. Smith met J. Doe, i.e. John. He left etc. and so on...\nAnother line",
        'He said "Go!" Then he left… And (really.) 3.5 is more',
        "two dogs run . a man is sleeping .",
        "É. Zola vit. «Où ?» «Ici.»  (Enfin) M. X arrive\u00a0! Ça va. ¿Qué? ¡Sí!",
        "你好。他走了！是吗？「好」 走",
        "هل هو هنا؟ نعم. यह है। वह है। وہ آیا۔ Այո։ Ոչ։ ሰላም። ဟုတ်။ ok",
        "Am 3. Mai 2020. Er ist 12. Maine ist im 19. Jahrhundert. 5. Juli",
        " one\n\n",
        " \n ",
        *SENTENCES,
    ]
    path = written(tmp_path, translator())
    for text, found in zip(texts, ask(path, *(["sentences", text] for text in texts)), strict=True):
        lines = (sentence for line in text.split("\n") for sentence in sentences_in(line))
        assert found == [sentence.strip() for sentence in lines if sentence.strip()]


@needs_node
def test_white_space_that_the_model_does_not_know_is_a_space(tmp_path):
    model = translator()
    model.source_dictionary.symbols[8] = "￭％00a0￭"
    text = PlainText("en", "reversible")
    model.source_text = text.read_with(model.source_dictionary.symbols)
    write_living_page(tmp_path / "living.html", [model])
    lines = ["  w3 \u00a0w5\t\u2028w6 \n", "w3\u00a0w5\u202fw6", "\u00a0"]
    (first, second, third) = map(model.source_text.tokens, lines)
    assert (first, second) == (["w3", "w5", "w6"], ["w3", "￭％00a0￭", "w5", "w6"])
    assert third == [] != text.tokens(lines[2])
    calls = (["tokens_of", "source", line] for line in lines)
    assert ask(tmp_path / "living.html", *calls) == [first, second, third]


@needs_node
@pytest.mark.parametrize("version", ["#version: 0.2\n", "#version: 0.1\n", ""])
def test_subwords_are_those_of_subword_nmt(version, tmp_path):
    codes = tmp_path / "codes"
    old = "e s\nes t\nest </w>\n" if version != "#version: 0.2\n" else "e s\nes t</w>\n"
    codes.write_text(version + old + "l o\nlo w\na a\naa a\nlo w\n")
    model = translator()
    model.source_text = model.target_text = PlainText("en", bpe_codes=codes)
    path = written(tmp_path, model)
    assert len(text_rules((model.source_text, model.target_text))[1]) == 1  # merges of both sides
    words = ["lowest low slow aaaaa aaaa a é lowé 🎉🎉 est</w> e"]
    assert ask(path, ["tokens_of", "source", *words]) == [model.source_text.tokens(*words)]
    pieces = model.source_text.tokens(*words)
    assert ask(path, ["text_of", "target", pieces]) == words
    (answer,) = ask(path, ["translate", "lowest slow"])
    assert answer["unknown"] == [0, 1]  # each of several unknown pieces


@needs_node
def test_case_and_digits_are_the_pieces_of_python(tmp_path):
    codes = tmp_path / "codes"
    codes.write_text("#version: 0.2\ns t\nst r\n3 D</w>\n")
    model = translator()
    text = PlainText("en", "reversible", bpe_codes=codes, case_and_digits=True)
    model.source_text = text.read_with(model.source_dictionary.symbols)
    path = written(tmp_path, model)
    lines = [*SENTENCES, "STRAßE McDonald's NASA I 3D TVs İ ẞ ΣΟΦΟΣ Ⅳ ٣٤ ％⇧a ￭⇪"]
    pieces = list(map(model.source_text.tokens, lines))
    assert ask(path, *(["tokens_of", "source", line] for line in lines)) == pieces
    texts = list(map(text.text, pieces))
    assert ask(path, *(["text_of", "source", one] for one in pieces)) == texts


@needs_node
def test_the_mark_of_pieces_is_text_where_there_are_no_merges(tmp_path):
    model = translator()
    model.source_text, model.target_text = PlainText("en"), PlainText("fr")
    model = again(model, model.models)
    line = "w1@@ w3 w4@@"
    pair = model.align(line, line)
    (answer,) = ask(written(tmp_path, model), ["force", line, line])
    assert pair.tokens == pair.alignment.source == (*line.split(), "</s>") == (*answer["tokens"],)


@needs_node
def test_translations_are_doubted_and_unknown_words_named_as_in_python(tmp_path, caplog):
    path, model = tmp_path / "living.html", load("en-fr")
    write_living_page(path, [model])
    table = json.loads(Path(__file__).with_name("doubt.json").read_text("utf-8"))
    calls = [["doubt_of", *given, table["limits"]] for *given, _ in table["cases"]]
    assert ask(path, *calls) == [reason for *_, reason in table["cases"]]
    texts = [
        "I lost my keys.",
        "Quantum chromodynamics.",
        "3.14159265358979323846264338327950288",
        "Привет мир, hello!",
        "а б в г д ё ж",
        "",
    ]
    logged, doubts = [], []
    for text in texts:
        caplog.clear()
        doubts.append(model.translate(text).doubt)
        logged.append(caplog.messages)
    assert ask(path, *(["warnings", text] for text in texts)) == logged
    answers = ask(path, *(["translate", text] for text in texts))
    assert [answer["doubt"] for answer in answers] == doubts and len({*doubts}) == 4
    assert list(map(len, logged)) == [0, 0, 0, 1, 1, 0]


MARKUP = [
    *(
        "<b>",
        "</b>",
        "<i a='>'>",
        "</i>",
        "</I>",
        "<br/>",
        "<img src=x>",
        "{name}",
        "%1$s",
        "<!-- -->",
    ),
    *("&lt;", "&nbsp;", "<", ">", "&", *("  ", "\n", "\u00a0", " ") * 2, ",", "(", ")."),
    *("un", "Deux", "l'homme", "e-mail", "É", "мир", "50%", "_", "1"),
]
WORDS = ["un", "Deux", "l'homme", "e-mail", "É", "мир", ",", "(un).", "&", "a<b", "...", "d’A1—les"]


@needs_node
def test_tags_are_taken_out_and_come_back_as_in_python(tmp_path):
    draw, calls, expected = random.Random(1), [], []
    at_random = (
        (
            "".join(draw.choices(MARKUP, k=seed % 16)),
            " ".join(draw.choices(WORDS, k=seed % 9)),
            seed,
        )
        for seed in range(500)
    )
    for line, target, given in [*((one[0], *one[2:4]) for one in TABLE["cases"]), *at_random]:
        taken = taken_out(line)
        links = linked(taken.text, target, given)
        sides = zip((taken.text, target), links[:2], strict=True)
        tokens = ([text[begin:end] for begin, end in spans] for text, spans in sides)
        calls.append(["put_back", line, target, *tokens, links.weights.tolist()])
        expected.append([taken.text, taken.put_back(target, links)])
    assert ask(written(tmp_path, translator()), *calls) == expected


@needs_node
def test_links_of_words_are_those_of_python(tmp_path):
    model, targets = translator(), [*reversed(TEXTS)]
    calls = [["links", *pair] for pair in zip(TEXTS, targets, strict=True)]
    answers = ask(written(tmp_path, model, weights="float32"), *calls)
    for pair, found in zip(model.align(TEXTS, targets, posterior=True), answers, strict=True):
        np.testing.assert_allclose(found["weights"], pair.alignment.weights_of_words, **CLOSE)
        assert [*map(" ".join, (found["source"], found["target"]))] == [pair.source, pair.text]


# --- the page and the command ---------------------------------------------------------------------


def test_what_the_page_cannot_show_is_refused(tmp_path):
    class OtherUnit(type(build_model().decoder.unit)):
        pass

    model, other_unit = translator(), translator()
    other_unit.models[0].decoder.unit.__class__ = OtherUnit
    in_lower_case, by_moses = again(model, model.models), again(model, model.models)
    in_lower_case.source_text = PlainText("en", lowercase=True)
    by_moses.target_text = PlainText("fr", "moses")
    refused = {
        "other dictionaries": [model, translator(target_symbols=33)],
        "other rules for text": [model, in_lower_case],
        "not an ensemble": [again(model, model.models * 2)],
        "decoder.unit: OtherUnit": [other_unit],
        "Moses": [by_moses],
    }
    for message, models in refused.items():
        with pytest.raises(UserError, match=message):
            write_living_page(tmp_path / "living.html", models)
    assert not list(tmp_path.iterdir())


def test_nothing_is_fetched_and_text_is_data(tmp_path):
    path, hostile = tmp_path / "living.html", "</script><script>window.ran=1</script>"
    model = translator()
    model.source_dictionary.symbols[7] = hostile
    options = {
        "title": hostile,
        "licence": hostile,
        "examples": [hostile],
        "names": [hostile],
        "other_direction": hostile,
    }
    write_living_page(path, [model], **options)
    page = path.read_text(encoding="utf-8")
    assert hostile not in page
    assert "default-src 'none'" in page and "'unsafe-eval'" not in page
    assert page.count("<script") == 4
    assert not [tag for tag in ("src=", "@import", "url(", "fetch(", "XMLHttp") if tag in page]
    assert "follows subword-nmt: MIT License, Copyright (c) 2015" in page
    write_living_page(tmp_path / "again.html", [model], **options)
    assert (tmp_path / "again.html").read_bytes() == path.read_bytes()


def facts_of(path):
    return json.loads(path.read_text().split('id="facts">')[1].split("</script>")[0])


@needs_node
def test_a_page_of_a_training(barely_trained, tmp_path):
    """The models are the checkpoints in the order of updates; each answers by itself."""
    folder, data = tmp_path / "checkpoints", f"--data={barely_trained.corpus.data}"
    folder.mkdir()
    page = ["--training", str(folder), data, f"--out={tmp_path / 'training.html'}"]
    with pytest.raises(UserError, match="two checkpoints"):
        main(page)
    state = torch.load(barely_trained.checkpoint, weights_only=False)
    names = (f"checkpoint{one}.pt" for one in ("_1_20", "_1_9", "_1_13", "2", "_last"))
    for name in names:
        torch.save(state, folder / name)
        state["model"] = {name: value * 1.5 for name, value in state["model"].items()}
    main([*page, "--weights=float32", "--moments=2"])
    facts = facts_of(tmp_path / "training.html")
    assert facts["isTraining"] and [m["name"] for m in facts["models"]] == ["update 9", "update 20"]
    text = "red house bird"
    asked = (["translate", text, {"model": n}] for n in (0, 1))
    answers = ask(tmp_path / "training.html", *asked)
    for name, answer in zip(("checkpoint_1_9.pt", "checkpoint_1_20.pt"), answers, strict=True):
        model = load(folder / name, barely_trained.corpus.data)
        check(answer, model, text, model_best(model, text))
    assert answers[0]["score"] != answers[1]["score"]
