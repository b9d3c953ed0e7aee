"""Assemble the page: models, words, text rules, scripts and styles, in one file."""

import base64
import functools
import os
import sys
from collections.abc import Iterable, Sequence
from html import entities, unescape
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_rnnsearch.commands.doubt import ENOUGH, REASONS, REPEATED
from fairseq_rnnsearch.commands.translator import Translator
from fairseq_rnnsearch.engine.parameters import Parameters
from fairseq_rnnsearch.engine.shapes import SCALE
from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.figures.page import render_page
from fairseq_rnnsearch.files import replacing
from fairseq_rnnsearch.models.folder import quantised
from fairseq_rnnsearch.text.coverage import language_name
from fairseq_rnnsearch.text.plain_text import PlainText
from fairseq_rnnsearch.text.reversible import shown

_HERE = Path(__file__).parent
_ENGINE = ("matrix_product", "weights", "model", "search", "marks", "text", "tags", "engine")
_INTERFACE = ("marks", "glass", "beam_tree", "model_view", "interface", "tour")
_LISTED = 1_000  # source words; a model with more lists none


def write_living_page(
    path: str | os.PathLike[str],
    models: Sequence[Translator],
    *,
    names: Sequence[str] = (),
    title: str = "",
    examples: Sequence[str] = (),
    licence: str = "",
    weights: str = "int8",
    is_training: bool = False,
    other_direction: str = "",
) -> int:
    """Write a page in which models translate, and return its size in bytes.

    The file appears whole or not at all. The same arguments give the same bytes.

    Args:
        path: the file; its folder must exist.
        models: one or two that ``load`` gave, with the same dictionaries and rules for text; any
            number with ``is_training``.
        names: the models' names (default: RNNsearch or RNNencdec).
        title: heading of the page (default: the models' names in the paper, and the languages).
        examples: sentences that the page offers; the first is translated when it opens.
        licence: a line about the models' training data.
        weights: how parameters are stored: "int8", or "float32", unrounded and four times as large.
        is_training: whether the models are the moments of one training, in order: they share one
            view, in which a slider chooses the moment.
        other_direction: address of a page that translates back; this one links to it.

    Raises:
        UserError: if the page cannot compute the models, these do not fit together, or the file
            cannot be written.
    """
    stored = _stored(models, weights)
    options = [model["options"] for model in stored["models"]]
    names_of_languages = [language_name(code) for code in models[0].languages]
    kinds = " and ".join(dict.fromkeys(_kinds(options)))
    facts = {
        "models": [
            one | {"name": name}
            for one, name in zip(options, names or _names(options), strict=True)
        ],
        "languages": list(models[0].languages),
        "languageNames": names_of_languages,
        "hasPieces": [text.has_pieces for text in (models[0].source_text, models[0].target_text)],
        "examples": list(examples),
        "isTraining": is_training,
        "otherDirection": other_direction,
    }
    page = render_page(
        _HERE / "living.html",
        [_HERE / "living.css", *(_HERE / f"{name}.js" for name in _INTERFACE)],
        title=title or f"{kinds}: {' to '.join(names_of_languages)}",
        licence=licence,
        weights=weights,
        facts=facts,
        stored=stored,
        known=_known_words(models[0]),
        engine=_engine(),
        notices=_read("notices.txt"),
    )
    with replacing(path) as unfinished:
        unfinished.write_bytes(page)
    return len(page)


def _engine() -> str:
    """Return the scripts that compute, and the bytes of their products in WebAssembly."""
    kernels = _base64((_HERE / "matrix_product.wasm").read_bytes())
    scripts = "".join(_read(f"{name}.js") for name in _ENGINE)
    return f'{scripts}const MATRIX_PRODUCT = "{kernels}";\n'


def _known_words(model: Translator) -> list[str]:
    """Return the source words of a toy model, sorted; none where it has pieces, or too many."""
    text, dictionary = model.source_text, model.source_dictionary
    words = dictionary.symbols[dictionary.nspecial :]
    if text.bpe_codes or text.tokenizer == "character" or len(words) > _LISTED:
        return []
    return sorted({shown(word) for word in words}, key=lambda word: (word.casefold(), word))


def _kinds(options: Sequence[dict[str, str]]) -> list[str]:
    """Return the models' names in the paper."""
    return ["RNNencdec" if one["alignment"] == "none" else "RNNsearch" for one in options]


def _names(options: Sequence[dict[str, str]]) -> list[str]:
    """Return the models' names in the paper, numbered where they are the same."""
    names = _kinds(options)
    if len(names) == len(set(names)):
        return names
    return [f"{name} {number}" for number, name in enumerate(names, start=1)]


def _read(name: str) -> str:
    """Return the text of one of the page's parts beside this module."""
    return (_HERE / name).read_text(encoding="utf-8")


# --- what the engine reads ------------------------------------------------------------------------


def _stored(models: Sequence[Translator], weights: str) -> dict[str, Any]:
    """Return the engine's data: parameters, dictionaries and text rules."""
    first, *others = models
    rules, merges = text_rules((first.source_text, first.target_text))
    for other in others:
        if (
            other.source_dictionary.symbols != first.source_dictionary.symbols
            or other.target_dictionary.symbols != first.target_dictionary.symbols
            or text_rules((other.source_text, other.target_text)) != (rules, merges)
        ):
            raise UserError(
                f"{other.name} has other dictionaries, or other rules for text, than {first.name}; "
                "in one page all must have the same"
            )
    parameters = [translator.networks.as_parameters() for translator in models]
    if any(len(of_ensemble) != 1 for of_ensemble in parameters):
        raise UserError("the page shows single models, not an ensemble; give one checkpoint")
    sides = (
        (first.source_dictionary, first.source_text, rules[0]),
        (first.target_dictionary, first.target_text, rules[1]),
    )
    source, target = (
        {
            "text": rule,
            "symbols": dictionary.symbols,
            "language": language_name(text.language),
        }
        for dictionary, text, rule in sides
    )
    return {
        "source": source,
        "target": target,
        "merges": merges,
        "entities": entities.html5
        | {f"#{code}": unescape(f"&#{code};") for code in range(160)},  # HTML means others by some
        "doubt": {"reasons": REASONS, "enough": ENOUGH, "repeated": REPEATED},
        "models": [
            _stored_model(own, weights)
            | {"limit": [*translator.length_limit], "doubt": [*translator.doubt_limits]}
            for translator, (own,) in zip(models, parameters, strict=True)
        ],
    }


def _stored_model(parameters: Parameters, weights: str) -> dict[str, Any]:
    """Return a model's options and parameters, for JSON.

    A matrix is rounded to 8 bits with one scale for each of its rows, the largest absolute value
    over 127; a vector stays float32, and so does everything with ``weights="float32"``.

    Args:
        weights: one of ``checks.PAGE_WEIGHTS``.
    """
    alignment = "additive" if parameters.has_alignment else "none"
    return {
        "options": {"order": parameters.order, "alignment": alignment},
        "tensors": {
            name: _stored_values(parameters[name].astype(np.float32), weights)
            for name in parameters.arrays
            if not name.endswith(SCALE)
        },
    }


def _stored_values(values: np.ndarray, weights: str) -> dict[str, Any]:
    if values.ndim < 2 or weights == "float32":
        return {"shape": values.shape, "values": _base64(values.astype("<f4")), "scales": None}
    steps, scales = quantised(values)
    return {
        "shape": values.shape, "values": _base64(steps), "scales": _base64(scales.astype("<f4")),
    }  # fmt: skip


def _base64(content: bytes | np.ndarray) -> str:
    return base64.b64encode(content).decode()


def text_rules(texts: Iterable[PlainText]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the rules of each language, as in ``text.plain_text``, and the merges they number.

    Raises:
        UserError: the page has not the rules of a tokeniser.
    """
    merges: list[str] = []
    all_rules = []
    for text in texts:
        if text.tokenizer == "moses":
            raise UserError(
                "the page cannot split text by Moses' rules, as this model's was; train one with "
                "--tokenizer reversible"
            )
        rules = {
            "language": text.language,
            "tokenizer": text.tokenizer,
            "lowercase": text.lowercase,
            "merges": None,
            "hasPieces": text.has_pieces,
            "caseAndDigits": text.case_and_digits,
        }
        if text.bpe_codes:
            codes = text.bpe_codes.read_text(encoding="utf-8").rstrip("\n")
            if codes not in merges:  # languages may share them
                merges.append(codes)
            rules["merges"] = merges.index(codes)
        if text.tokenizer == "words":
            rules["classes"] = {"word": _word_characters()}
        all_rules.append(rules)
    return all_rules, merges


@functools.cache
def _word_characters() -> str:
    r"""Return the characters that match Python's \w."""
    everything = map(chr, range(sys.maxunicode + 1))
    return _ranges(c for c in everything if c.isalnum() or c == "_")


def _ranges(characters: Iterable[str]) -> str:
    r"""Return characters as ranges inside a class of a regular expression, ``\u{61}-\u{7a}``."""
    runs: list[list[int]] = []
    for code in sorted({ord(character) for character in characters}):
        if runs and runs[-1][1] == code - 1:
            runs[-1][1] = code
        else:
            runs.append([code, code])
    return "".join(f"\\u{{{first:x}}}-\\u{{{last:x}}}" for first, last in runs)
