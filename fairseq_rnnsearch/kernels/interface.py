"""What goes into a time loop."""

from typing import NamedTuple

from torch import Tensor


class RecurrentWeights(NamedTuple):
    """Recurrent matrices of one gated unit."""

    gates: Tensor  # (2n, n): U_z above U_r
    proposed: Tensor  # (n, n): U


class DecoderWeights(NamedTuple):
    """Everything that the decoder multiplies inside its loop."""

    recurrent: RecurrentWeights
    context: Tensor  # (3n, 2n): C, C_z, C_r
    state: Tensor  # (n', n): W_a
    energy: Tensor  # (n',): v_a


class StepWeights(NamedTuple):
    """All that a step multiplies, in the shapes of ``network``."""

    embedding: Tensor  # (words, m)
    embedding_bias: Tensor  # (m,)
    input: Tensor  # (3n, m): W, W_z, W_r
    input_bias: Tensor  # (n,), of the proposed state
    loop: DecoderWeights  # without attention its last two are None
    readout_state: Tensor  # (2l, n): U_o
    readout_word: Tensor  # (2l, m): V_o
    readout_context: Tensor  # (2l, 2n): C_o
    readout_bias: Tensor  # (2l,)
    inner: Tensor | None  # (m, l), of a factorised output layer
    output: Tensor  # (words, l) or (words, m): W_o
    output_bias: Tensor  # (words,)


class Memory(NamedTuple):
    """One source sentence per row, as the alignment model reads it."""

    annotations: Tensor  # (batch, source, 2n): h
    keys: Tensor  # (batch, source, n'): U_a h
    padding: Tensor  # (batch, source), true where there is no word
