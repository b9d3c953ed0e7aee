"""From annotations to scored target words (section 3.1, appendix A.2.2).

Three orders of one step have been published, all with c_i = attend(s_{i-1}):

    program     s_{i-1} has read y_{i-1};  p(y_i) from s_{i-1};  then s_i = f(s_{i-1}, y_i, c_i)
    appendix    p(y_i) from s_{i-1};  then s_i = f(s_{i-1}, y_{i-1}, c_i)
    section3    s_i = f(s_{i-1}, y_{i-1}, c_i);  p(y_i) from s_i

``program`` is the authors' program, which produced the paper's numbers. Before the first word,
e(y_0) is the zero vector, without the embedding's bias.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from fairseq_rnnsearch.checks import DECODER_ORDERS
from fairseq_rnnsearch.kernels import (
    DecoderParts,
    DecoderSteps,
    Direction,
    Reference,
    RunByBackend,
)
from fairseq_rnnsearch.network import forced_scoring
from fairseq_rnnsearch.network.embedded_words import EmbeddedWords, embed_words
from fairseq_rnnsearch.network.encoder import EncodedSource, EncoderOut
from fairseq_rnnsearch.network.precision import in_compute_dtype
from fairseq_rnnsearch.paper.equations import (
    AlignmentModel,
    BiasedEmbedding,
    DeepOutput,
    GatedUnit,
    Memory,
    OutputLayer,
)


class Positions(NamedTuple):
    """The readout's inputs for given words, time-major, and the alignment weights."""

    states: Tensor  # (target, batch, n): the states that it reads
    word_inputs: Tensor  # (target, batch, 2l): what the previous words add
    contexts: Tensor  # (target, batch, 2n): c_i; RNNencdec: n
    alignment: Tensor | None  # (batch, target, source); None for RNNencdec


class Decoder(RunByBackend):
    """The decoder of RNNsearch, or, without an alignment model, of RNNencdec.

    Args:
        dictionary: the target symbols; it has a length, ``pad()`` and ``eos()``.
        embedding_size: m.
        hidden_size: n of the decoder.
        summary_size: n of the encoder, what s_0 is computed from.
        context_size: 2n of the encoder (RNNsearch) or n (RNNencdec).
        alignment_size: n', or None for RNNencdec, whose context is always the summary.
        maxout_size: l.
        order: one of ``DECODER_ORDERS``.
        factorised_output: store W_o as the authors' pair of matrices, m wide in between.
        embedding_dropout, readout_dropout: probabilities of dropping an element of an embedded
            word and of t_i, while training.
        kernels: what runs the time loops, one of ``kernels.KERNELS``.
        compute_dtype: the type of the operands of products, see ``network.precision``.

    Raises:
        ValueError: for an unknown order.
    """

    def __init__(
        self,
        dictionary: Any,
        embedding_size: int,
        hidden_size: int,
        *,
        summary_size: int,
        context_size: int,
        alignment_size: int | None,
        maxout_size: int,
        order: str = "program",
        factorised_output: bool = False,
        embedding_dropout: float = 0.0,
        readout_dropout: float = 0.0,
        kernels: str = "auto",
        compute_dtype: str = "float32",
    ) -> None:
        super().__init__(kernels)
        if order not in DECODER_ORDERS:
            raise ValueError(f"decoder order must be one of {DECODER_ORDERS}, not {order!r}")
        self.order = order
        self.dictionary, self.compute_dtype = dictionary, compute_dtype
        words = len(dictionary)
        self.embedding = BiasedEmbedding(words, embedding_size)
        self.initial_weight = nn.Parameter(torch.empty(hidden_size, summary_size))
        self.initial_bias = nn.Parameter(torch.empty(hidden_size))
        self.unit = GatedUnit(embedding_size, hidden_size, context_size)
        self.alignment_model = (
            AlignmentModel(alignment_size, hidden_size, context_size) if alignment_size else None
        )
        self.readout = DeepOutput(maxout_size, hidden_size, embedding_size, context_size)
        self.output = OutputLayer(words, maxout_size, embedding_size if factorised_output else None)
        self.embedding_dropout = nn.Dropout(embedding_dropout)
        self.readout_dropout = nn.Dropout(readout_dropout)

    def init_weights(self) -> None:
        """Start as in appendix B.1."""
        nn.init.normal_(self.initial_weight, std=0.01)
        nn.init.zeros_(self.initial_bias)
        for part in self.parts:
            if part is not None:
                part.init_weights()

    # --- batches, as searches, scorers and fairseq hand them in ---------------------------------

    @property
    def has_alignment(self) -> bool:
        """Whether there are alignment weights; RNNencdec has none."""
        return self.alignment_model is not None

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: EncoderOut,
        **_: object,
    ) -> tuple[Tensor, dict]:
        """Return logits ``(batch, target, words)`` and ``{"attn": [weights]}``, or None there."""
        t, alpha = self.features(prev_output_tokens, encoder_out)
        return self.output_layer(t), {"attn": None if alpha is None else [alpha]}

    @in_compute_dtype
    def features(
        self, prev_output_tokens: Tensor, encoder_out: EncoderOut
    ) -> tuple[Tensor, Tensor | None]:
        """Read the words before each position, ``(batch, target)``.

        Returns:
            t_i, ``(batch, target, l)``, and weights, ``(batch, target, source)``, or None.
        """
        leading = _leading_padding(prev_output_tokens, self.dictionary.pad())
        words = _roll_rows(prev_output_tokens, -leading)
        t, alpha = self.teacher_forced(words, encoder_out.by_row())
        t = _roll_rows(t, leading)
        # fairseq's criterion with alignment views them as a matrix
        return t, None if alpha is None else _roll_rows(alpha, leading).contiguous()

    @in_compute_dtype
    def cost(
        self,
        prev_output_tokens: Tensor,
        encoder_out: EncoderOut,
        target: Tensor,
        label_smoothing: float,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return the cost of the correct words, without ever storing all logits.

        Args:
            prev_output_tokens, target: words, ``(batch, target)``.

        Returns:
            the summed cost of all words but padding, their summed -log p, and the alignment
            weights, ``(batch, target, source)``, or None.
        """
        t, alpha = self.features(prev_output_tokens, encoder_out)
        words = target.flatten()
        present = words.ne(self.dictionary.pad())
        return *self.output_cost(t.flatten(0, 1), words, label_smoothing, present), alpha

    @in_compute_dtype
    def reread(
        self,
        prev_output_tokens: Tensor,
        encoder_out: EncoderOut,
        target: Tensor,
        alternatives: forced_scoring.Alternatives | None,
    ) -> Tensor:
        """See ``forced_scoring.reread``; target words are padded on the right."""
        source = encoder_out.by_row()
        return forced_scoring.reread(self, prev_output_tokens, source, target, alternatives)

    @in_compute_dtype
    def output_layer(self, features: Tensor) -> Tensor:
        """Return unnormalised log-probabilities: t_i, ``(..., l)``, to ``(..., words)``."""
        output = self.output
        return nn.functional.linear(output.inner(features), output.weight, output.bias)

    @in_compute_dtype
    def begin(self, encoder_out: EncoderOut) -> DecoderSteps:
        """Return the decoder one position at a time, for a search; equals ``teacher_forced``."""
        source, sentences = encoder_out
        if sentences is None:
            sentences = torch.arange(len(source.padding), device=source.padding.device)
        memory, s_0 = self.remember(source), self.initial_state(source)
        return DecoderSteps(self.order, self.parts, memory, source.summary, s_0, sentences)

    # --- the equations, on words without padding on the left -----------------------------------

    def remember(self, source: EncodedSource) -> Memory | None:
        """Compute once what every step of a sentence reads; None for RNNencdec."""
        if self.alignment_model is None:
            return None
        keys = self.alignment_model.keys(source.annotations)
        return Memory(source.annotations, keys, source.padding)

    def initial_state(self, source: EncodedSource) -> Tensor:
        """Return s_0 = tanh(W_s summary + b), ``(batch, n)``."""
        x = nn.functional.linear(source.summary, self.initial_weight, self.initial_bias)
        return torch.tanh(x.to(self.initial_bias.dtype))  # under autocast too

    def teacher_forced(
        self, previous: Tensor, source: EncodedSource
    ) -> tuple[Tensor, Tensor | None]:
        """Read given words, all positions at once as far as the recurrence allows.

        Args:
            previous: ``(batch, target)``, the word before each position. Column 0 counts as y_0,
                whatever it holds. Padding on the right is harmless.

        Returns:
            t_i, ``(batch, target, l)``, for ``output``; alignment weights,
            ``(batch, target, source)``, or None for RNNencdec.
        """
        *read, alignment = self.positions(previous, source)
        t = self.readout_dropout(self.readout.given_word_inputs(*read))
        return t.transpose(0, 1), alignment

    def positions(self, previous: Tensor, source: EncodedSource) -> Positions:
        """Run the recurrence over given words; arguments as for ``teacher_forced``."""
        steps, backend = previous.size(1), self.backend
        y = self.embed(previous.T)
        # the words that the updates read: y_1 .. y_{T-1}, y_0 .. y_{T-2} or y_0 .. y_{T-1}
        updates = {"program": slice(1, None), "appendix": slice(-1), "section3": slice(None)}
        word_inputs = y.through(self.unit.word_inputs, updates[self.order])
        s_0 = self.initial_state(source)
        memory = self.remember(source)
        if memory is None:
            c = source.summary
            inputs = word_inputs + self.unit.context_inputs(c)
            following = backend.recurrence([Direction(inputs, self.unit)], s_0)
            states = torch.cat((s_0.unsqueeze(0), following))
            contexts, alignment = c.expand(steps, -1, -1), None
        else:
            states, contexts, alignment = backend.decoder_recurrence(
                word_inputs, s_0, steps, memory, self.unit, self.alignment_model
            )
        read = states[1:] if self.order == "section3" else states[:steps]
        return Positions(read, y.through(self.readout.word_inputs), contexts, alignment)

    @property
    def parts(self) -> DecoderParts:
        """The parts that run at each step."""
        return DecoderParts(
            self.embedding, self.unit, self.alignment_model, self.readout, self.output
        )

    @property
    def backend(self) -> Reference:
        """The backend that runs the decoder on its parameters' current device.

        Raises:
            ValueError: if ``kernels`` names one that cannot.
        """
        return self.backend_for(self.parts, "decoder")

    def output_cost(
        self, t: Tensor, words: Tensor, label_smoothing: float, present: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the cost of given words, and their -log p, both summed.

        Args:
            t: t_i, ``(positions, l)``.
            words: ``(positions,)``.
            present: ``(positions,)``, false for padding, which is removed before any product,
                except on a GPU, where counting it would mean waiting.
        """
        if words.device.type == "cpu":
            rows = present.nonzero().squeeze(1)
            t, words, present = t.index_select(0, rows), words.index_select(0, rows), None
        output = self.output
        return self.backend.output_cost(
            output.inner(t), output.weight, output.bias, words, label_smoothing, present
        )

    def embed(self, previous: Tensor) -> EmbeddedWords:
        """Return e(y) for time-major words, with the zero vector first."""
        later = embed_words(previous[1:], self.embedding, self.embedding_dropout, self.backend)
        rows = torch.cat((later.rows.new_zeros(1, *later.rows.shape[1:]), later.rows))
        if later.place is None:
            return EmbeddedWords(rows, None)
        return EmbeddedWords(rows, nn.functional.pad(later.place + 1, (0, 0, 1, 0)))


def _leading_padding(tokens: Tensor, pad: int) -> Tensor:
    """Return the number of leading pads in each row, ``(batch,)``."""
    return tokens.eq(pad).long().cumprod(dim=1).sum(dim=1)


def _roll_rows(x: Tensor, shift: Tensor) -> Tensor:
    """Move row i of ``(batch, time, ...)`` by ``shift[i]`` positions to the right, cyclically."""
    if x.device.type == "cpu" and not shift.any():  # a GPU's answer would mean waiting
        return x
    time = torch.arange(x.size(1), device=x.device)
    index = (time - shift.unsqueeze(1)) % x.size(1)
    return x.gather(1, index.view(*index.shape, *[1] * (x.dim() - 2)).expand(x.shape))
