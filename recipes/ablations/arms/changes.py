"""Arms that are short changes of the paper's own parts."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from arms.arm import Start, arm
from fairseq_rnnsearch.network import Decoder, EncodedSource, Encoder
from fairseq_rnnsearch.paper.equations import AlignmentModel, DeepOutput, GatedUnit


@arm
def forward_encoder(encoder: Encoder, decoder: Decoder, start: Start) -> None:
    """Annotate each word only with the words before it; s_0 comes from the last word's state."""
    n, m = encoder.forward_unit.hidden_size, decoder.embedding.weight.size(1)
    states = decoder.unit.hidden_size
    encoder.backward_unit = None
    decoder.unit = GatedUnit(m, states, n)
    decoder.alignment_model = AlignmentModel(len(decoder.alignment_model.energy_weight), states, n)
    decoder.readout = DeepOutput(len(decoder.readout.bias) // 2, states, m, n)
    start(decoder)


@arm
def tanh_readout(encoder: Encoder, decoder: Decoder, start: Start) -> None:
    """Make t_i the tanh of l numbers instead of the larger of each two of 2l."""
    l, n = decoder.output.weight.size(1), decoder.unit.hidden_size
    m, context = decoder.embedding.weight.size(1), decoder.readout.context_weight.size(1)
    decoder.readout = TanhReadout(l, n, m, context)
    start(decoder)


class TanhReadout(nn.Module):
    """t_i = tanh(U_o s + V_o e(y_{i-1}) + C_o c_i + b), with matrices of l rows."""

    def __init__(self, size: int, state_size: int, word_size: int, context_size: int) -> None:
        super().__init__()
        self.state_weight = nn.Parameter(torch.empty(size, state_size))
        self.word_weight = nn.Parameter(torch.empty(size, word_size))
        self.context_weight = nn.Parameter(torch.empty(size, context_size))
        self.bias = nn.Parameter(torch.empty(size))

    init_weights = DeepOutput.init_weights

    def forward(self, s: Tensor, y: Tensor, c: Tensor) -> Tensor:
        """Return t_i, ``(..., l)``, of states, embedded previous words and contexts."""
        return self.given_word_inputs(s, self.word_inputs(y), c)

    def word_inputs(self, y: Tensor) -> Tensor:
        """Return V_o e(y) + b: ``(..., m)`` to ``(..., l)``."""
        return nn.functional.linear(y, self.word_weight, self.bias)

    def given_word_inputs(self, s: Tensor, of_words: Tensor, c: Tensor) -> Tensor:
        """Return what ``forward`` does, given the words' ``word_inputs``."""
        x = s @ self.state_weight.T + of_words + c @ self.context_weight.T
        # A bfloat16 tanh is 1 from 3.5 on, and passes no gradient there.
        return torch.tanh(x.to(self.bias.dtype))


@arm
def start_from_mean(encoder: Encoder, decoder: Decoder, start: Start) -> None:
    """Compute s_0 from the mean of the annotations instead of the backward state."""
    annotation = 2 * encoder.forward_unit.hidden_size
    decoder.initial_weight = nn.Parameter(decoder.initial_weight.new_empty(
        decoder.unit.hidden_size, annotation))  # fmt: skip
    start(decoder)
    _begin_by(decoder, mean_of_annotations)


@arm
def start_from_zero(encoder: Encoder, decoder: Decoder, start: Start) -> None:
    """Let s_0 be zero: W_s and its bias start at zero and stay there."""
    for parameter in (decoder.initial_weight, decoder.initial_bias):
        parameter.zero_().requires_grad_(False)


def mean_of_annotations(source: EncodedSource) -> EncodedSource:
    """Return a sentence whose summary is the mean of its annotations, ``(batch, 2n)``."""
    present = (~source.padding).unsqueeze(-1).to(source.annotations.dtype)
    mean = (source.annotations * present).sum(1) / present.sum(1)
    return source._replace(summary=mean)


def _begin_by(decoder: Decoder, summarise: Callable[[EncodedSource], EncodedSource]) -> None:
    class Beginning(type(decoder)):
        def initial_state(self, source: EncodedSource) -> Tensor:
            return super().initial_state(summarise(source))

    decoder.__class__ = Beginning


@arm
def reset_after(encoder: Encoder, decoder: Decoder, start: Start) -> None:
    """Reset after the recurrent product, as ``torch.nn.GRU`` does, instead of before it."""
    for unit in (encoder.forward_unit, encoder.backward_unit, decoder.unit):
        unit.__class__ = ResetAfter


class ResetAfter(GatedUnit):
    """The gated unit with h~ = tanh(x + r o [U h]) instead of tanh(x + U [r o h])."""

    def step(self, inputs: Tensor, h: Tensor) -> Tensor:
        """Return the state after one step, see ``GatedUnit.step``."""
        n, gates, U = h.size(-1), self.recurrent_gates, self.recurrent_proposed
        x, x_zr = inputs.to(h.dtype).split((n, 2 * n), dim=-1)
        z, r = torch.sigmoid(x_zr + h.to(gates.dtype) @ gates.T).chunk(2, dim=-1)
        proposed = torch.tanh(x + r * (h.to(U.dtype) @ U.T))
        return torch.lerp(h, proposed, z)
