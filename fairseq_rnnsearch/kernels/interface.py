"""What a backend offers, and what it is given.

A backend runs what takes the time: the loops over time, each of which holds everything that must
wait for the previous step and nothing else, and the cost of words among all of a dictionary.
Callers hand in all products that do not depend on a state and get all states back, so that a
backend is free to choose its own loop, its own backward pass and its own memory layout.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from torch import Tensor, nn

from fairseq_rnnsearch.kernels.decoder_steps import DecoderSteps
from fairseq_rnnsearch.paper.equations import (
    Attention,
    BiasedEmbedding,
    DeepOutput,
    Memory,
    OutputLayer,
    Unit,
)


class Direction(NamedTuple):
    """One pass over a sentence, from the first position to the last or in reverse."""

    inputs: Tensor  # (time, batch, 3n): what the unit adds at each position
    unit: Unit
    reverse: bool = False


class DecoderParts(NamedTuple):
    """All that a decoder consists of but for its first state."""

    embedding: BiasedEmbedding
    unit: Unit
    alignment_model: Attention | None  # None: RNNencdec
    readout: DeepOutput
    output: OutputLayer


class SearchStart(NamedTuple):
    """What the decoder of a search starts from."""

    order: str  # one of ``paper.network.DECODER_ORDERS``
    parts: DecoderParts
    memory: Memory | None  # what is attended to, one row per sentence; None: RNNencdec
    summary: Tensor  # (sentences, n): RNNencdec's context
    initial: Tensor  # (sentences, n): s_0
    sentences: Tensor  # (rows,): the sentence of each hypothesis


@runtime_checkable
class Backend(Protocol):
    """One implementation of all that is in this folder.

    Attributes:
        name: how ``--kernels`` and the log call it.
        place: what it runs on, for the log.
        needs: what it runs on and with, for a refusal.
        on_request: whether ``auto`` leaves it out.
    """

    name: str
    place: str
    needs: str
    on_request: bool

    def why_not(self, parts: Iterable[nn.Module]) -> str | None:
        """Return why these parts of a network cannot be run here, or None if they can."""

    def recurrence(
        self,
        directions: Sequence[Direction],
        initial: Tensor | None = None,
        present: Tensor | None = None,
    ) -> Tensor:
        """Return all hidden states of recurrences that do not depend on attention.

        Args:
            directions: one, or the two of the BiRNN of section 3.2.
            initial: hidden state before the first step, ``(batch, n)``; None: zeros.
            present: ``(time, batch)``, false where a position is padding; there the state is
                carried on unchanged. None: no padding.

        Returns:
            ``(time, batch, directions * n)``, position t's states at index t also in reverse.
        """

    def decoder_recurrence(
        self,
        word_inputs: Tensor,
        initial: Tensor,
        steps: int,
        memory: Memory,
        unit: Unit,
        alignment_model: Attention,
        foreseen: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Attend, update, attend, update ... for teacher-forced words.

        Step i attends with s_{i-1}, giving c_i, and then, as long as there are word inputs, forms
        s_i = f(s_{i-1}, word_inputs[i-1], c_i). The three orders of the decoder's step differ only
        in which word's input is handed in at i and in which state is read out.

        Args:
            word_inputs: ``(updates, batch, 3n)``, with updates either ``steps`` or one fewer.
            initial: s_0, ``(batch, n)``.
            steps: number of target positions.
            foreseen: V_a e(y_i) of each position, ``(steps, batch, n')``, with target foresight.

        Returns:
            hidden states s_0, s_1 ..., ``(updates + 1, batch, n)``; contexts,
            ``(steps, batch, 2n)``; alignment weights, ``(batch, steps, source)``.
        """

    def output_cost(
        self,
        t: Tensor,
        weight: Tensor,
        bias: Tensor,
        words: Tensor,
        label_smoothing: float = 0.0,
        present: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return what the right words cost, given the logits x = W t + b of the output layer.

        Args:
            t: ``(positions, l)``.
            weight: ``(symbols, l)``.
            bias: ``(symbols,)``.
            words: ``(positions,)``.
            label_smoothing: probability spread evenly over all symbols but the right one.
            present: ``(positions,)``, false where a position is padding, which costs nothing.
                None: no padding.

        Returns:
            the cost and, without gradient, -log p of the words; both summed, in float32 or wider,
            and equal without label smoothing.
        """

    def output_logits(self, t: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """Return all logits: ``(..., l)`` to ``(..., symbols)``."""

    def decoder_steps(self, start: SearchStart) -> DecoderSteps:
        """Return a search's decoder, for as many rows as there are hypotheses."""

    def prefers_steps(self, output: OutputLayer) -> bool:
        """Return whether a search by ``decoder_steps`` is now faster than one of fairseq's own."""

    def forget(self, parameters: Iterable[Tensor]) -> None:
        """Give back whatever is kept of parameters, which are about to be changed."""
