"""A model's parameters as arrays, whoever has stored them."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fairseq_rnnsearch.engine.shapes import SCALE, check_shapes, shapes_of


class Parameters:
    """The arrays of one model, by the names that its module has for them.

    Attributes:
        order: of a decoder's step, see ``network.decoder``.
        pad, eos, unk: the target's symbols.
        n, d: units of the encoder, in each direction, and of the decoder.
        words: symbols of the target.
        has_alignment, is_factorised: false for RNNencdec; whether W_o is a pair of matrices.

    Raises:
        ValueError: if a parameter is missing or has another shape than the others ask for.
    """

    def __init__(
        self, arrays: Mapping[str, NDArray], order: str, pad: int = 1, eos: int = 2, unk: int = 3
    ) -> None:
        self.arrays, self.order = arrays, order
        self.pad, self.eos, self.unk = pad, eos, unk

        def size(name: str) -> int:
            return len(arrays.get(name, ()))

        self.n, self.d = size("encoder.forward_unit.input_bias"), size("decoder.initial_bias")
        self.words, keys = size("decoder.output.bias"), "decoder.alignment_model.energy_weight"
        self.has_alignment = keys in arrays
        self.is_factorised = "decoder.output.inner_weight" in arrays
        shapes = shapes_of(
            size("encoder.embedding.weight"),
            self.words,
            encoder_embed_dim=size("encoder.embedding.bias"),
            encoder_hidden_size=self.n,
            decoder_embed_dim=size("decoder.embedding.bias"),
            decoder_hidden_size=self.d,
            attention_size=size(keys),
            maxout_size=size("decoder.readout.bias") // 2,
            decoder_order=order,
            output_layer="factorised" if self.is_factorised else "single",
            fixed_context=not self.has_alignment,
        )
        check_shapes(arrays, shapes)

    @property
    def dtype(self) -> np.dtype:
        """The type to compute in: float64, or float32 for any narrower one."""
        return np.result_type(self.arrays["decoder.output.bias"].dtype, np.float32)

    @property
    def matrices(self) -> dict[str, list[str]]:
        """The matrices that multiply the same, and are stacked: notes read the annotations.

        ``word`` reads the previous word, ``query`` the state.
        """
        unit, readout, attention = (
            f"decoder.{part}." for part in ("unit", "readout", "alignment_model")
        )
        notes, query = [f"{part}context_weight" for part in (unit, readout)], []
        if self.has_alignment:
            notes.append(attention + "annotation_weight")
            query.append(attention + "state_weight")
        inner = {"inner": ["decoder.output.inner_weight"]} if self.is_factorised else {}
        return inner | {
            "initial": ["decoder.initial_weight"],
            "notes": notes,
            "word": [unit + "input_weight", readout + "word_weight"],
            "query": [*query, readout + "state_weight"],
            "output": ["decoder.output.weight"],
        }

    @property
    def word_bias(self) -> NDArray:
        """The biases of all that the matrices ``word`` give: gates have none."""
        of_unit, of_readout = self["decoder.unit.input_bias"], self["decoder.readout.bias"]
        return np.concatenate((np.pad(of_unit, (0, 2 * len(of_unit))), of_readout))

    def __getitem__(self, name: str) -> NDArray:
        """Return a parameter in the type to compute in."""
        return self.stacked(name)

    def stacked(self, *names: str) -> NDArray:
        """Return matrices with as many columns below each other, in the type to compute in."""
        whole = []
        for name in names:  # a folder may have only some of them in 8 bits
            steps, scales = self.stored(name)
            whole.append(steps if scales is None else steps * scales[:, None])
        return np.ascontiguousarray(_joined(whole), self.dtype)

    def stored(self, *names: str) -> tuple[NDArray, NDArray | None]:
        """Return stored matrices below each other, and their rows' scales, if all have some."""
        return _joined([self.arrays[name] for name in names]), (
            _joined([self.arrays[name + SCALE] for name in names])
            if all(name + SCALE in self.arrays for name in names)
            else None
        )

    def embedded(self, side: str, words: Sequence[int]) -> NDArray:
        """Return the vectors of words, ``(words, m)``, of the encoder or decoder."""
        name = f"{side}.embedding.weight"
        rows = self.arrays[name][words].astype(self.dtype)
        if name + SCALE in self.arrays:
            rows *= self.arrays[name + SCALE][words, None]
        return rows + self.arrays[f"{side}.embedding.bias"]


def _joined(arrays: Sequence[NDArray]) -> NDArray:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
