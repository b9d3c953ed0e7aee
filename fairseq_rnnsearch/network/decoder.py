"""From annotations to scored target words (section 3.1, appendix A.2.2).

Three orders of one step are in print. With c_i = attend(s_{i-1}) in all of them:

    program     s_{i-1} has read y_{i-1};  p(y_i) from s_{i-1};  then s_i = f(s_{i-1}, y_i, c_i)
    appendix    p(y_i) from s_{i-1};  then s_i = f(s_{i-1}, y_{i-1}, c_i)
    section3    s_i = f(s_{i-1}, y_{i-1}, c_i);  p(y_i) from s_i

``program`` is the authors' own program and produced the paper's numbers. Before the first word
e(y_0) is the zero vector, without the embedding's bias.
"""

import torch
from torch import Tensor, nn

from fairseq_rnnsearch.equations import maxout
from fairseq_rnnsearch.kernels import (
    DecoderWeights,
    Memory,
    Steps,
    StepWeights,
    arranges,
    forget,
    runs_fast,
    select,
)
from fairseq_rnnsearch.network.encoder import EncodedSource
from fairseq_rnnsearch.network.layers import BiasedEmbedding, EmbeddedWords, GatedUnit, embed_words

DECODER_ORDERS = ("program", "appendix", "section3")


class AlignmentModel(nn.Module):
    """Parameters of the alignment model.

    Attributes:
        state_weight: ``(n', n)``: W_a.
        annotation_weight: ``(n', 2n)``: U_a.
        energy_weight: ``(n',)``: v_a.
    """

    def __init__(self, size: int, state_size: int, annotation_size: int) -> None:
        super().__init__()
        self.state_weight = nn.Parameter(torch.empty(size, state_size))
        self.annotation_weight = nn.Parameter(torch.empty(size, annotation_size))
        self.energy_weight = nn.Parameter(torch.empty(size))

    def keys(self, annotations: Tensor) -> Tensor:
        """U_a h: ``(batch, source, 2n)`` to ``(batch, source, n')``."""
        return annotations @ self.annotation_weight.T


class DeepOutput(nn.Module):
    """Parameters of the readout up to the maxout.

    Attributes:
        state_weight, word_weight, context_weight: ``(2l, n)``, ``(2l, m)``, ``(2l, 2n)``: U_o,
            V_o, C_o.
        bias: ``(2l,)``.
    """

    def __init__(
        self, maxout_size: int, state_size: int, word_size: int, context_size: int
    ) -> None:
        super().__init__()
        self.state_weight = nn.Parameter(torch.empty(2 * maxout_size, state_size))
        self.word_weight = nn.Parameter(torch.empty(2 * maxout_size, word_size))
        self.context_weight = nn.Parameter(torch.empty(2 * maxout_size, context_size))
        self.bias = nn.Parameter(torch.empty(2 * maxout_size))

    def forward(self, state: Tensor, words: EmbeddedWords, context: Tensor) -> Tensor:
        """t_i, ``(..., l)``: the maxout of ``equations.maxout_input``."""
        of_words = words.through(self.word_inputs)
        return maxout(state @ self.state_weight.T + of_words + context @ self.context_weight.T)

    def word_inputs(self, word: Tensor) -> Tensor:
        """V_o e(y) and the bias: ``(..., m)`` to ``(..., 2l)``."""
        return nn.functional.linear(word, self.word_weight, self.bias)


class OutputLayer(nn.Module):
    """W_o t + b_o, as one matrix or as the authors' pair of matrices.

    Attributes:
        inner_weight: ``(m, l)``; the factorised layer's only. W_o = weight @ inner_weight.
        weight: ``(words, l)``, or ``(words, m)`` when factorised.
        bias: ``(words,)``.
    """

    def __init__(self, words: int, maxout_size: int, inner_size: int | None = None) -> None:
        super().__init__()
        if inner_size is None:
            self.register_parameter("inner_weight", None)
        else:
            self.inner_weight = nn.Parameter(torch.empty(inner_size, maxout_size))
        self.weight = nn.Parameter(torch.empty(words, inner_size or maxout_size))
        self.bias = nn.Parameter(torch.empty(words))

    def inner(self, t: Tensor) -> Tensor:
        """``(..., l)`` to what ``weight`` multiplies."""
        return t if self.inner_weight is None else t @ self.inner_weight.T


class Decoder(nn.Module):
    """The decoder of RNNsearch, or of RNNencdec when it has no alignment model.

    Args:
        words: size of the target dictionary.
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
        kernels: the implementation of the time loops, one of ``kernels.KERNELS``.

    Raises:
        ValueError: for an unknown order.
    """

    def __init__(
        self,
        words: int,
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
    ) -> None:
        super().__init__()
        if order not in DECODER_ORDERS:
            raise ValueError(f"decoder order must be one of {DECODER_ORDERS}, not {order!r}")
        self.order = order
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
        self.kernels, self.kernels_name = select(kernels), kernels

    def remember(self, source: EncodedSource) -> Memory | None:
        """What every step of a sentence reads, computed once; None for RNNencdec."""
        if self.alignment_model is None:
            return None
        keys = self.alignment_model.keys(source.annotations)
        return Memory(source.annotations, keys, source.padding)

    def initial_state(self, source: EncodedSource) -> Tensor:
        """s_0 = tanh(W_s summary + b), ``(batch, n)``."""
        x = nn.functional.linear(source.summary, self.initial_weight, self.initial_bias)
        return torch.tanh(x.to(self.initial_bias.dtype))  # under autocast too

    def forward(self, previous: Tensor, source: EncodedSource) -> tuple[Tensor, Tensor | None]:
        """Score given words, all positions at once as far as the recurrence allows.

        Args:
            previous: ``(batch, target)``, the word before each position. Column 0 stands for y_0
                whatever it holds. Padding on the right does no harm.

        Returns:
            t_i, ``(batch, target, l)``, for ``output``; alignment weights,
            ``(batch, target, source)``, or None for RNNencdec.
        """
        steps = previous.size(1)
        y = self._embed(previous.T)
        # y_1 .. y_{T-1}, y_0 .. y_{T-2} or y_0 .. y_{T-1}: what the updates consume
        updates = {"program": slice(1, None), "appendix": slice(-1), "section3": slice(None)}
        word_inputs = y.through(self.unit.inputs, updates[self.order])
        s_0 = self.initial_state(source)
        memory = self.remember(source)
        if memory is None:
            c = source.summary
            inputs = word_inputs + c @ self.unit.context_weight.T
            following = self.kernels.gated_recurrence(inputs, s_0, self.unit.recurrent)
            states = torch.cat((s_0.unsqueeze(0), following))
            contexts, alignment = c.expand(steps, -1, -1), None
        else:
            states, contexts, alignment = self.kernels.decoder_recurrence(
                word_inputs, s_0, steps, memory, self._loop_weights()
            )
        read = states[1:] if self.order == "section3" else states[:steps]
        t = self.readout_dropout(self.readout(read, y, contexts))
        return t.transpose(0, 1), alignment

    def steps(self, source: EncodedSource, sentences: Tensor) -> Steps:
        """The decoder one position at a time, as beam search needs it; equals ``forward``.

        Args:
            source: from the encoder, one row per sentence.
            sentences: ``(rows,)``, the row of ``source`` that each hypothesis translates.
        """
        weights = StepWeights(
            self.embedding.weight,
            self.embedding.bias,
            self.unit.input_weight,
            self.unit.input_bias,
            self._loop_weights(),
            self.readout.state_weight,
            self.readout.word_weight,
            self.readout.context_weight,
            self.readout.bias,
            self.output.inner_weight,
            self.output.weight,
            self.output.bias,
        )
        return self.kernels.decoder_steps(
            self.order,
            weights,
            self.remember(source),
            source.summary,
            self.initial_state(source),
            sentences,
        )

    @property
    def steps_are_fast(self) -> bool:
        """Whether ``steps`` would be those of the fast kernels."""
        runs = runs_fast(self.kernels_name, *self.parameters())
        return runs and arranges(self.output.weight)

    def logits(self, t: Tensor) -> Tensor:
        """t_i to unnormalised log-probabilities: ``(..., l)`` to ``(..., words)``."""
        output = self.output
        return self.kernels.output_logits(output.inner(t), output.weight, output.bias)

    def train(self, mode: bool = True) -> "Decoder":
        """As any module; what searches have kept of the weights is not theirs for long."""
        if mode:
            forget(self.parameters())
        return super().train(mode)

    def cost(self, t: Tensor, words: Tensor, label_smoothing: float) -> tuple[Tensor, Tensor]:
        """What given words cost, and their -log p, summed; ``(positions, l)``, ``(positions,)``."""
        output = self.output
        return self.kernels.output_cost(
            output.inner(t), output.weight, output.bias, words, label_smoothing
        )

    def _embed(self, previous: Tensor) -> EmbeddedWords:
        """e(y) for time-major words, with the zero vector first."""
        later = embed_words(previous[1:], self.embedding, self.embedding_dropout)
        rows = torch.cat((later.rows.new_zeros(1, *later.rows.shape[1:]), later.rows))
        if later.place is None:
            return EmbeddedWords(rows, None)
        return EmbeddedWords(rows, nn.functional.pad(later.place + 1, (0, 0, 1, 0)))

    def _loop_weights(self) -> DecoderWeights:
        alignment = self.alignment_model
        return DecoderWeights(
            self.unit.recurrent,
            self.unit.context_weight,
            None if alignment is None else alignment.state_weight,
            None if alignment is None else alignment.energy_weight,
        )
