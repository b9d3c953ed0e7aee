"""Target foresight (Peter, Nix and Ney, 2017): attention that reads the word being aligned.

    e_ij = v_a . tanh(W_a s_{i-1} + U_a h_j + V_a e(y_i))

That word is known when given sentences are aligned, and unknown in a search: such models align
(``rnnsearch-align --user-dir recipes/hansards/foresight``) and do not translate.

    fairseq-train ... --user-dir recipes/hansards/foresight --arch foresight_alone \
        --finetune-from-model checkpoints/checkpoint_best.pt

V_a starts at zero, so training starts from the other model's attention. ``foresight_alone`` trains
only the alignment model. ``foresight`` trains all parameters and needs ``--guided-alignment``:
without links to follow, attention would reveal the word to the decoder by where it points, and
would not align.
"""

import torch
from fairseq.models import register_model
from torch import Tensor, nn

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.kernels import DecoderSteps
from fairseq_rnnsearch.network import EncodedSource, EncoderOut
from fairseq_rnnsearch.network.decoder import Positions
from fairseq_rnnsearch.network.embedded_words import embed_words
from fairseq_rnnsearch.paper.equations import AlignmentModel
from fairseq_rnnsearch.paper.equations.linear import linear
from fairseq_rnnsearch.plugin.fairseq_networks import RNNSearchDecoder
from fairseq_rnnsearch.plugin.model import RNNSearchConfig, RNNSearchModel

V_A = "decoder.alignment_model.foresight_weight"


class ForesightAlignment(AlignmentModel):
    """The energies of the module docstring, on the reference kernels.

    Attributes:
        foresight_weight: ``(n', m)``: V_a.
    """

    def __init__(self, other: AlignmentModel, word_size: int) -> None:
        size, annotation_size = other.annotation_weight.shape
        super().__init__(size, other.state_weight.size(1), annotation_size)
        self.load_state_dict(other.state_dict())
        self.foresight_weight = nn.Parameter(torch.zeros(size, word_size))

    def energies(self, s: Tensor, keys: Tensor) -> Tensor:
        """Return e_i; the kernels ask for one position after the other."""
        W_a, v_a = self.state_weight, self.energy_weight
        query = s.to(W_a.dtype) @ W_a.T + next(self.of_words).unsqueeze(1)
        hidden = torch.tanh(query.unsqueeze(2) + keys.unsqueeze(1))
        return (hidden * v_a).sum(dim=-1)


class ForesightDecoder(RNNSearchDecoder):
    """A decoder whose attention reads the words of all positions."""

    def positions(self, previous: Tensor, source: EncodedSource) -> Positions:
        """Run the recurrence over given words; each is the next position's previous word."""
        words = nn.functional.pad(previous[:, 1:], (0, 1), value=self.dictionary.eos())
        words = words.masked_fill(words.eq(self.dictionary.pad()), self.dictionary.eos())
        y = embed_words(words.T, self.embedding, self.embedding_dropout, self.backend)
        V_a = self.alignment_model.foresight_weight
        of_words = y.through(lambda e: linear(e, V_a))  # (target, batch, n')
        self.alignment_model.of_words = iter(of_words.unbind())
        return super().positions(previous, source)

    def begin(self, encoder_out: EncoderOut) -> DecoderSteps:
        """Refuse to search.

        Raises:
            UserError: always.
        """
        raise UserError(
            "the model reads the word that a search would look for, and cannot translate; "
            "rnnsearch-align aligns given sentences with it"
        )


@register_model("foresight", dataclass=RNNSearchConfig)
class ForesightModel(RNNSearchModel):
    """RNNsearch with target foresight."""

    @classmethod
    def build_model(cls, cfg: RNNSearchConfig, task) -> "ForesightModel":
        """Build RNNsearch, and let its attention read the words."""
        model = super().build_model(cfg, task)
        decoder = model.decoder
        decoder.__class__ = ForesightDecoder
        decoder.alignment_model = ForesightAlignment(
            decoder.alignment_model, decoder.embedding.weight.size(1)
        )
        return model

    def load_state_dict(self, state_dict, *args, **options) -> object:
        """Load a model with or without target foresight."""
        state_dict = {V_A: torch.zeros_like(self.get_parameter(V_A)), **state_dict}
        return super().load_state_dict(state_dict, *args, **options)


@register_model("foresight_alone", dataclass=RNNSearchConfig)
class ForesightAloneModel(ForesightModel):
    """RNNsearch with target foresight that trains only its alignment model."""

    @classmethod
    def build_model(cls, cfg: RNNSearchConfig, task) -> "ForesightAloneModel":
        """Build the model, and freeze all but its alignment model."""
        model = super().build_model(cfg, task).requires_grad_(False)
        model.decoder.alignment_model.requires_grad_(True)
        return model
