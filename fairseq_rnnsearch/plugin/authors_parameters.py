"""Conversion of the authors' parameters to ours, and back.

GroundHog multiplies row vectors, x W, so its matrices are the transposes of ours, and it names
them after its own layers. Its symbols are numbered 0 ``<s>``, 1 unknown, words by frequency, and
last the end of a sentence; fairseq's are 0 ``<s>``, 1 padding, 2 the end, 3 unknown, then words.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from fairseq.data import Dictionary
from torch import Tensor

from fairseq_rnnsearch.data import compatibility
from fairseq_rnnsearch.errors import UserError, counted, reason
from fairseq_rnnsearch.files import (
    make_folder,
    open_plain,
    refuse_link_to_nothing,
    replacing,
    text_lines,
)
from fairseq_rnnsearch.plugin.models import RNNSearchConfig, RNNSearchModel
from fairseq_rnnsearch.runs.checkpoints import load_as_data
from fairseq_rnnsearch.runs.writing import checkpoint_of_model, write_whole

# softmax weight exp(-1e9) = 0: the authors' program has no pad symbol to generate
PAD_OUTPUT_BIAS = -1e9


def _unit(ours: str, authors: str) -> dict[str, tuple[str, ...]]:
    return {
        f"{ours}.input_weight": tuple(
            f"W_0_{authors}_{part}_embdr_0" for part in ("input", "update", "reset")
        ),
        f"{ours}.input_bias": (f"b_0_{authors}_input_embdr_0",),
        f"{ours}.recurrent_gates": (f"G_{authors}_transition_0", f"R_{authors}_transition_0"),
        f"{ours}.recurrent_proposed": (f"W_{authors}_transition_0",),
    }


# our parameter: their arrays, whose transposes are stacked from top to bottom
PARAMETERS: dict[str, tuple[str, ...]] = {
    "encoder.network.embedding.weight": ("W_0_enc_approx_embdr",),
    "encoder.network.embedding.bias": ("b_0_enc_approx_embdr",),
    **_unit("encoder.network.forward_unit", "enc"),
    **_unit("encoder.network.backward_unit", "back_enc"),
    "decoder.network.initial_weight": ("W_0_dec_initializer_0",),
    "decoder.network.initial_bias": ("b_0_dec_initializer_0",),
    "decoder.network.embedding.weight": ("W_0_dec_approx_embdr",),
    "decoder.network.embedding.bias": ("b_0_dec_approx_embdr",),
    **_unit("decoder.network.unit", "dec"),
    "decoder.network.unit.context_weight": (
        "W_0_dec_dec_inputter_0",
        "W_0_dec_dec_updater_0",
        "W_0_dec_dec_reseter_0",
    ),
    "decoder.network.alignment_model.state_weight": ("B_dec_transition_0",),
    "decoder.network.alignment_model.annotation_weight": ("A_dec_transition_0",),
    "decoder.network.alignment_model.energy_weight": ("D_dec_transition_0",),
    "decoder.network.readout.state_weight": ("W_0_dec_hid_readout_0",),
    "decoder.network.readout.word_weight": ("W_0_dec_prev_readout_0",),
    "decoder.network.readout.context_weight": ("W_0_dec_repr_readout",),
    "decoder.network.readout.bias": ("b_0_dec_hid_readout_0",),
    "decoder.network.output.inner_weight": ("W1_dec_deep_softmax",),
    "decoder.network.output.weight": ("W2_dec_deep_softmax",),
    "decoder.network.output.bias": ("b_dec_deep_softmax",),
}
BY_SYMBOL = (
    "encoder.network.embedding.weight",
    "decoder.network.embedding.weight",
    "decoder.network.output.weight",
    "decoder.network.output.bias",
)


def fairseq_symbols(symbols: int) -> Tensor:
    """Return fairseq's number for each of the authors' symbols, ``(symbols,)``."""
    numbers = torch.arange(symbols) + 2
    numbers[0], numbers[1], numbers[-1] = 0, 3, 2
    return numbers


def _stored_as_rows(name: str) -> bool:
    return name.endswith("embedding.weight")


def state_dict_from_groundhog(arrays: Mapping[str, np.ndarray]) -> dict[str, Tensor]:
    """Return parameters of ``RNNSearchModel`` (factorised output), in the arrays' precision.

    Raises:
        UserError: naming arrays that are missing or unknown.
    """
    expected = {array for names in PARAMETERS.values() for array in names}
    if missing := sorted(expected - set(arrays)):
        raise UserError(
            f"these are not the parameters of the authors' RNNsearch: missing {', '.join(missing)}"
        )
    if unknown := sorted(set(arrays) - expected):
        raise UserError(f"unknown arrays beside the authors' RNNsearch: {', '.join(unknown)}")
    for name, array in arrays.items():
        kind = getattr(array, "dtype", type(array).__name__)
        if kind not in (np.float16, np.float32, np.float64):
            raise UserError(f"array {name} is of {kind}; expected float16, float32 or float64")
    state = {}
    for name, parts in PARAMETERS.items():
        blocks = [torch.from_numpy(np.array(arrays[part])) for part in parts]
        if not _stored_as_rows(name):
            blocks = [block.t() for block in blocks]
        value = torch.cat(blocks)
        if name.endswith("energy_weight"):
            value = value[0]
        if name in BY_SYMBOL:
            rows = value.new_zeros(value.size(0) + 1, *value.shape[1:])
            rows[fairseq_symbols(value.size(0))] = value
            value = rows
        state[name] = value.contiguous()
    state["decoder.network.output.bias"][1] = PAD_OUTPUT_BIAS
    return state


def groundhog_from_state_dict(state: Mapping[str, Tensor]) -> dict[str, np.ndarray]:
    """Return the authors' arrays; the inverse of ``state_dict_from_groundhog``, bit for bit.

    Raises:
        UserError: if the authors' program cannot hold the model's parameters.
    """
    if differing := sorted(set(state) ^ set(PARAMETERS)):
        raise UserError(
            "only an RNNsearch of the paper's equations with --output-layer factorised fits the "
            f"authors' program; these parameters differ: {', '.join(differing)}"
        )
    arrays = {}
    for name, parts in PARAMETERS.items():
        value = state[name].detach().cpu()
        if name in BY_SYMBOL:
            value = value[fairseq_symbols(value.size(0) - 1)]
        if name.endswith("energy_weight"):
            value = value.unsqueeze(0)
        for part, block in zip(parts, value.chunk(len(parts)), strict=True):
            arrays[part] = (block if _stored_as_rows(name) else block.t()).contiguous().numpy()
    return arrays


def _check_shapes(state: Mapping[str, Tensor]) -> None:
    """Compare with an empty model, built with the sizes of the first arrays.

    Raises:
        UserError: naming arrays of the wrong shape.
    """
    source, target = map(range, _symbols(state))  # a model asks only for their lengths
    task = SimpleNamespace(source_dictionary=source, target_dictionary=target)
    with torch.device("meta"):
        model = RNNSearchModel.build_model(model_config(state), task)
    for name, expected in model.state_dict().items():
        if state[name].shape != expected.shape:
            raise UserError(
                f"the arrays {', '.join(PARAMETERS[name])} do not fit the others: {name} would be "
                f"{tuple(state[name].shape)}, expected {tuple(expected.shape)}"
            )


def model_config(state: Mapping[str, Tensor]) -> RNNSearchConfig:
    """Return the configuration whose model has parameters of these shapes."""
    encoder, decoder = "encoder.network", "decoder.network"
    return RNNSearchConfig(
        encoder_embed_dim=state[f"{encoder}.embedding.weight"].size(1),
        encoder_hidden_size=state[f"{encoder}.forward_unit.recurrent_proposed"].size(0),
        decoder_embed_dim=state[f"{decoder}.embedding.weight"].size(1),
        decoder_hidden_size=state[f"{decoder}.unit.recurrent_proposed"].size(0),
        attention_size=state[f"{decoder}.alignment_model.energy_weight"].size(0),
        maxout_size=state[f"{decoder}.output.inner_weight"].size(1),
        output_layer="factorised",
    )


def import_parameters(
    params: Path,
    out: Path,
    source_words: Path | None = None,
    target_words: Path | None = None,
    languages: tuple[str, str] = ("en", "fr"),
) -> None:
    """Write a fairseq checkpoint and, beside it, the two dictionaries.

    Args:
        params: the authors' ``.npz``.
        out: the checkpoint.
        source_words, target_words: files with one word per line, in the order of the authors'
            numbers, from 2 to the last but one. Without them, numbers name the words.
        languages: the dictionaries become ``dict.<language>.txt``.
    """
    arrays = _read_arrays(params)
    try:
        state = state_dict_from_groundhog(arrays)
        _check_shapes(state)
    except UserError as mistake:
        raise UserError(f"{params}: {mistake}") from mistake
    except (RuntimeError, IndexError, ValueError, TypeError) as problem:  # impossible sizes
        raise UserError(
            f"{params}: the arrays do not fit each other ({reason(problem)})"
        ) from problem
    words = source_words, target_words
    dictionaries = [_dictionary(*of_side) for of_side in zip(_symbols(state), words, strict=True)]
    make_folder(out.parent)
    refuse_link_to_nothing(out)
    for language, dictionary in zip(languages, dictionaries, strict=True):
        with replacing(out.parent / f"dict.{language}.txt") as path:
            dictionary.save(str(path))
    options = vars(model_config(state)) | {"_name": "rnnsearch"}
    task = {"_name": "alignment_heatmap", "data": None}  # which readers name
    task |= {"source_lang": languages[0], "target_lang": languages[1]}
    sides = {"source": dictionaries[0], "target": dictionaries[1]}
    task_state = {compatibility.STATE: compatibility.describe(sides, languages)}
    write_whole(checkpoint_of_model(state, options, task, task_state), str(out))


def export_parameters(checkpoint: Path, out: Path) -> None:
    """Write a checkpoint's parameters as the authors' ``.npz``."""
    state = load_as_data(str(checkpoint))["model"]
    arrays = groundhog_from_state_dict(state)

    make_folder(out.parent)
    with replacing(out) as path, path.open("wb") as file:
        np.savez(file, **arrays)


def _read_arrays(path: Path) -> dict[str, np.ndarray]:
    try:
        with open_plain(path) as file, np.load(file, allow_pickle=False) as archive:
            arrays = dict(archive)
        if kinds := {array.dtype.kind for array in arrays.values()} - set("iuf"):
            raise ValueError(f"its arrays are of the kind {', '.join(sorted(kinds))}, no numbers")
        return arrays
    except FileNotFoundError as problem:
        raise UserError(f"{path} does not exist") from problem
    except Exception as problem:  # damaged files may raise anything
        raise UserError(
            f"{path} is not an .npz of plain arrays ({reason(problem)}); the authors' .pkl states "
            "are not read, because unpickling can run code"
        ) from problem


def _symbols(state: Mapping[str, Tensor]) -> list[int]:
    """Return the number of source and of target symbols."""
    sides = "encoder", "decoder"
    return [state[f"{side}.network.embedding.weight"].size(0) for side in sides]


def _dictionary(symbols: int, words: Path | None) -> Dictionary:
    dictionary = Dictionary()
    named = list(_read_words(words)) if words else [f"w{i + 2}" for i in range(symbols - 4)]
    if len(named) != symbols - 4:
        raise UserError(
            f"{words} has {counted(len(named), 'word')}, the parameters have {symbols - 4}"
        )
    for word in named:
        dictionary.add_symbol(word)
    if len(dictionary) != symbols:
        raise UserError(f"{words} names a word twice, or one of <s> <pad> </s> <unk>")
    return dictionary


def _read_words(path: Path) -> Iterator[str]:
    for number, line in enumerate(text_lines(path), 1):
        words = line.split()  # at every space of Unicode, as fairseq splits text
        if len(words) != 1:
            raise UserError(f"{path}, line {number}: one word expected, found {line!r:.60}")
        yield words[0]
