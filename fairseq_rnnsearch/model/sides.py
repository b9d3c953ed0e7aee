"""The networks' two sides, as searches, scorers and fairseq call them.

`EncoderSide` and `DecoderSide` stand before a class that takes the dictionary: one of fairseq's, or
a ``torch.nn.Module``. The mathematics is in ``paper.network``.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from fairseq_rnnsearch.kernels import DecoderSteps
from fairseq_rnnsearch.kernels.accuracy import accurate_type
from fairseq_rnnsearch.model.precision import in_compute_dtype
from fairseq_rnnsearch.paper.network import Decoder, EncodedSource, Encoder, given_words


class EncoderOut(NamedTuple):
    """What the encoder passes to the decoder.

    Attributes:
        source: one row per sentence, whatever rows a search selects.
        sentences: ``(rows,)``, the row of ``source`` that each row or hypothesis translates; None,
            before a search selects any: each its own.
    """

    source: EncodedSource
    sentences: Tensor | None = None

    def select(self, new_order: Tensor) -> "EncoderOut":
        """Return the rows in a new order, without copying ``source``."""
        if self.sentences is not None:
            new_order = self.sentences.index_select(0, new_order)
        return EncoderOut(self.source, new_order)

    def by_row(self) -> EncodedSource:
        """Return the sentence of each row."""
        if self.sentences is None:
            return self.source
        return EncodedSource(*(part.index_select(0, self.sentences) for part in self.source))


class _Side:
    """A network with its dictionary, in its type for products, a ``--compute-dtype``."""

    def __init__(self, dictionary: Any, network: Encoder | Decoder, compute_dtype: str) -> None:
        super().__init__(dictionary)
        self.network, self.compute_dtype = network, compute_dtype


class EncoderSide(_Side):
    """A ``paper.network.Encoder``."""

    @in_compute_dtype
    def forward(self, src_tokens: Tensor, src_lengths: Tensor | None = None, **_) -> EncoderOut:
        """Encode word numbers, ``(batch, source)``, padded on either side."""
        return EncoderOut(self.network(src_tokens, src_tokens.eq(self.dictionary.pad())))


class DecoderSide(_Side):
    """A ``paper.network.Decoder``, a ``StepwiseDecoder`` for the search."""

    @property
    def has_alignment(self) -> bool:
        """Whether there are alignment weights; RNNencdec has none."""
        return self.network.alignment_model is not None

    @in_compute_dtype
    def features(
        self, prev_output_tokens: Tensor, encoder_out: EncoderOut, posterior: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """Read the words before each position, ``(batch, target)``.

        With ``posterior``, the weights are those of ``paper.network.given_words.posterior``.

        Returns:
            t_i, ``(batch, target, l)``, and weights, ``(batch, target, source)``, or None.
        """
        leading = _leading_padding(prev_output_tokens, self.dictionary.pad())
        words = _roll_rows(prev_output_tokens, -leading)
        source = encoder_out.by_row()
        if posterior:
            following = self._words_after(words)
            t, alpha = given_words.posterior(self.network, words, source, following)
        else:
            t, alpha = self.network(words, source)
        t = _roll_rows(t, leading)
        # fairseq's criterion with alignment views them as a matrix
        return t, None if alpha is None else _roll_rows(alpha, leading).contiguous()

    def _words_after(self, previous: Tensor) -> Tensor:
        """Return the word at each position, which is the next one's previous word."""
        words = nn.functional.pad(previous[:, 1:], (0, 1), value=self.dictionary.eos())
        return words.masked_fill(words.eq(self.dictionary.pad()), self.dictionary.eos())

    @in_compute_dtype
    def without_each(
        self,
        prev_output_tokens: Tensor,
        encoder_out: EncoderOut,
        target: Tensor,
        ranks: Tensor | None = None,
    ) -> Tensor | None:
        """See ``paper.network.given_words.without_each``; target words are padded on the right."""
        source = encoder_out.by_row()
        return given_words.without_each(self.network, prev_output_tokens, source, target, ranks)

    @in_compute_dtype
    def output_layer(self, features: Tensor) -> Tensor:
        """Turn t_i into logits."""
        return self.network.logits(features)

    def get_normalized_probs(self, net_output, log_probs: bool, sample=None) -> Tensor:
        """Return the softmax of the logits, in float32 or wider."""
        logits = net_output[0]
        softmax = torch.log_softmax if log_probs else torch.softmax
        return softmax(logits, dim=-1, dtype=accurate_type(logits.dtype))

    @in_compute_dtype
    def begin(self, encoder_out: EncoderOut) -> DecoderSteps:
        """Return the decoder for a search, see ``kernels.DecoderSteps``."""
        source, sentences = encoder_out
        if sentences is None:
            sentences = torch.arange(len(source.padding), device=source.padding.device)
        return self.network.steps(source, sentences)


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
