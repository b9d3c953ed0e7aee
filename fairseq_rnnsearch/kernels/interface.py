"""The interface of a backend.

A backend runs the expensive parts: the loops over time, reduced to what must wait for the previous
step, and the cost of words over the whole dictionary. Callers hand in all products that do not
depend on a state and get all states back, so that a backend is free to choose its own loop,
backward pass and memory layout.
"""

from collections.abc import Callable, Iterable, Sequence
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
    """All parts of a decoder except its initial state."""

    embedding: BiasedEmbedding
    unit: Unit
    alignment_model: Attention | None  # None: RNNencdec
    readout: DeepOutput
    output: OutputLayer


class SearchStart(NamedTuple):
    """What a search's decoder starts from."""

    order: str  # one of ``network.DECODER_ORDERS``
    parts: DecoderParts
    memory: Memory | None  # annotations and keys, one row per sentence; None: RNNencdec
    summary: Tensor  # (sentences, n): RNNencdec's context
    initial: Tensor  # (sentences, n): s_0
    sentences: Tensor  # (rows,): the sentence of each hypothesis


@runtime_checkable
class Backend(Protocol):
    """One implementation of the kernels.

    Attributes:
        name: its name for ``--kernels`` and in the log.
        place: the device it runs on, for the log.
        needs: the devices and types it needs, for error messages.
    """

    name: str
    place: str
    needs: str

    def why_not(self, parts: Iterable[nn.Module]) -> str | None:
        """Return why this backend cannot run these parts of a network, or None if it can."""

    def vectors(self, words: Tensor, embedding: BiasedEmbedding) -> Tensor:
        """Return the vectors of words: ``(...)`` to ``(..., m)``."""

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
            present: ``(time, batch)``, false for padding, which leaves the state unchanged.
                None: no padding.

        Returns:
            ``(time, batch, directions * n)``; index t has position t's states, also in reverse.
        """

    def decoder_recurrence(
        self,
        word_inputs: Tensor,
        initial: Tensor,
        steps: int,
        memory: Memory,
        unit: Unit,
        alignment_model: Attention,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Attend, update, attend, update ... for teacher-forced words.

        Step i attends with s_{i-1}, giving c_i, and then, while there are word inputs, computes
        s_i = f(s_{i-1}, word_inputs[i-1], c_i). The three decoder orders differ only in the word
        whose input they pass at i and in the state that they read out.

        Args:
            word_inputs: ``(updates, batch, 3n)``, with updates either ``steps`` or one fewer.
            initial: s_0, ``(batch, n)``.
            steps: number of target positions.

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
        """Return the cost of the correct words under the output layer's logits x = W t + b.

        Args:
            t: ``(positions, l)``.
            weight: ``(symbols, l)``.
            bias: ``(symbols,)``.
            words: ``(positions,)``.
            label_smoothing: probability spread evenly over all symbols but the correct one.
            present: ``(positions,)``, false for padding, which costs nothing. None: no padding.

        Returns:
            the cost and, without a gradient, -log p of the words; both summed, in float32 or
            wider, and equal without label smoothing.
        """

    def training_cost(
        self,
        function: Callable[..., tuple[Tensor, Tensor, Tensor | None]],
        model: nn.Module,
        words: Sequence[Tensor],
        pads: Sequence[int],
        label_smoothing: float,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return the cost of a batch to train on, -log p, and alignment weights.

        Only the cost may be differentiated, once, with respect to the model's parameters, and
        before the next batch's cost is computed. Until then the gradients are valid; those that are
        in the parameters' ``grad`` stay valid.

        Args:
            function: computes them from the words and ``label_smoothing``.
            model: all that it depends on besides.
            words: source words, previous words and correct words, each ``(batch, time)``.
            pads: the padding symbol of each.
        """

    def output_logits(self, t: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """Return all logits: ``(..., l)`` to ``(..., symbols)``."""

    def decoder_steps(self, start: SearchStart) -> DecoderSteps:
        """Return a search's decoder, with one row per hypothesis."""

    def forget(self, parameters: Iterable[Tensor]) -> None:
        """Drop whatever is cached for parameters that are about to change."""
