"""Conversion of the authors' parameters to ours.

GroundHog multiplies row vectors, x W, so its matrices are the transposes of ours, and it names
them after its own layers. Its symbols are numbered 0 ``<s>``, 1 unknown, words by frequency, and
last the end of a sentence; fairseq's are 0 ``<s>``, 1 padding, 2 the end, 3 unknown, then words.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from fairseq.data import Dictionary
from torch import Tensor

from fairseq_rnnsearch.errors import UserError, pluralize
from fairseq_rnnsearch.files import replacing
from fairseq_rnnsearch.plugin.model import RNNSearchConfig
from fairseq_rnnsearch.runs.checkpoint import OwnFields, checkpoint_of_model
from fairseq_rnnsearch.runs.checkpoint_file import write_whole
from fairseq_rnnsearch.text import compatibility
from fairseq_rnnsearch.text.corpus import text_lines

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
    "encoder.embedding.weight": ("W_0_enc_approx_embdr",),
    "encoder.embedding.bias": ("b_0_enc_approx_embdr",),
    **_unit("encoder.forward_unit", "enc"),
    **_unit("encoder.backward_unit", "back_enc"),
    "decoder.initial_weight": ("W_0_dec_initializer_0",),
    "decoder.initial_bias": ("b_0_dec_initializer_0",),
    "decoder.embedding.weight": ("W_0_dec_approx_embdr",),
    "decoder.embedding.bias": ("b_0_dec_approx_embdr",),
    **_unit("decoder.unit", "dec"),
    "decoder.unit.context_weight": (
        "W_0_dec_dec_inputter_0",
        "W_0_dec_dec_updater_0",
        "W_0_dec_dec_reseter_0",
    ),
    "decoder.alignment_model.state_weight": ("B_dec_transition_0",),
    "decoder.alignment_model.annotation_weight": ("A_dec_transition_0",),
    "decoder.alignment_model.energy_weight": ("D_dec_transition_0",),
    "decoder.readout.state_weight": ("W_0_dec_hid_readout_0",),
    "decoder.readout.word_weight": ("W_0_dec_prev_readout_0",),
    "decoder.readout.context_weight": ("W_0_dec_repr_readout",),
    "decoder.readout.bias": ("b_0_dec_hid_readout_0",),
    "decoder.output.inner_weight": ("W1_dec_deep_softmax",),
    "decoder.output.weight": ("W2_dec_deep_softmax",),
    "decoder.output.bias": ("b_dec_deep_softmax",),
}
BY_SYMBOL = (
    "encoder.embedding.weight",
    "decoder.embedding.weight",
    "decoder.output.weight",
    "decoder.output.bias",
)


def fairseq_symbols(symbols: int) -> Tensor:
    """Return fairseq's number for each of the authors' symbols, ``(symbols,)``."""
    numbers = torch.arange(symbols) + 2
    numbers[0], numbers[1], numbers[-1] = 0, 3, 2
    return numbers


def state_dict_from_groundhog(arrays: Mapping[str, np.ndarray]) -> dict[str, Tensor]:
    """Return parameters of ``RNNSearchModel`` (factorised output), in the arrays' precision.

    Raises:
        UserError: naming arrays that are unknown: those of another model, which would be lost.
    """
    expected = {array for names in PARAMETERS.values() for array in names}
    if unknown := sorted(set(arrays) - expected):
        raise UserError(f"unknown arrays beside the authors' RNNsearch: {', '.join(unknown)}")
    state = {}
    for name, parts in PARAMETERS.items():
        blocks = [torch.from_numpy(np.array(arrays[part])) for part in parts]
        if not name.endswith("embedding.weight"):  # stored as rows
            blocks = [block.t() for block in blocks]
        value = torch.cat(blocks)
        if name.endswith("energy_weight"):
            value = value[0]
        if name in BY_SYMBOL:
            rows = value.new_zeros(value.size(0) + 1, *value.shape[1:])
            rows[fairseq_symbols(value.size(0))] = value
            value = rows
        state[name] = value.contiguous()
    state["decoder.output.bias"][1] = PAD_OUTPUT_BIAS
    return state


def model_config(state: Mapping[str, Tensor]) -> RNNSearchConfig:
    """Return the configuration whose model has parameters of these shapes."""
    return RNNSearchConfig(
        encoder_embed_dim=state["encoder.embedding.weight"].size(1),
        encoder_hidden_size=state["encoder.forward_unit.recurrent_proposed"].size(0),
        decoder_embed_dim=state["decoder.embedding.weight"].size(1),
        decoder_hidden_size=state["decoder.unit.recurrent_proposed"].size(0),
        attention_size=state["decoder.alignment_model.energy_weight"].size(0),
        maxout_size=state["decoder.output.inner_weight"].size(1),
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
    with np.load(params, allow_pickle=False) as archive:  # unpickling can run code
        state = state_dict_from_groundhog(archive)
    words = source_words, target_words
    dictionaries = [
        _dictionary(state[f"{side}.embedding.weight"].size(0), of_side)
        for side, of_side in zip(("encoder", "decoder"), words, strict=True)
    ]
    out.parent.mkdir(parents=True, exist_ok=True)
    for language, dictionary in zip(languages, dictionaries, strict=True):
        with replacing(out.parent / f"dict.{language}.txt") as path:
            dictionary.save(str(path))
    options = vars(model_config(state)) | {"_name": "rnnsearch"}
    task = {"_name": "alignment_heatmap", "data": None}  # which readers name
    task |= {"source_lang": languages[0], "target_lang": languages[1]}
    sides = {"source": dictionaries[0], "target": dictionaries[1]}
    own = OwnFields(dictionaries=compatibility.describe(sides, languages))
    write_whole(checkpoint_of_model(state, options, task, own), str(out))


def _dictionary(symbols: int, words: Path | None) -> Dictionary:
    dictionary = Dictionary()
    for word in text_lines(words) if words else [f"w{i + 2}" for i in range(symbols - 4)]:
        dictionary.add_symbol(word.strip())
    if len(dictionary) != symbols:
        raise UserError(
            f"{words} names {pluralize(len(dictionary) - 4, 'word')}, each once and none like"
            f" <unk>; the parameters have {symbols - 4}"
        )
    return dictionary
