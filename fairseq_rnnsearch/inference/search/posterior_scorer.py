"""Scores given words, and aligns them by posterior weights."""

from collections.abc import Sequence

import torch
from fairseq.sequence_scorer import SequenceScorer

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.inference.search.generator import StepwiseDecoder


class PosteriorScorer(SequenceScorer):
    """fairseq's scorer with the alignment weights of ``paper.network.Decoder.posterior``."""

    @torch.no_grad()
    def generate(self, models: Sequence[torch.nn.Module], sample: dict, **options) -> list:
        """Score the given words of a batch.

        Raises:
            UserError: for a model that has no such weights.
        """
        for model in models:
            decoder = model.decoder
            if not (isinstance(decoder, StepwiseDecoder) and decoder.has_alignment):
                raise UserError(
                    f"posterior: {type(model).__name__} has only the weights with which it attends "
                    "before it knows the word; RNNsearch has those given the word too"
                )
        given = {**sample, "net_input": {**sample["net_input"], "posterior": True}}
        return super().generate(models, given, **options)
