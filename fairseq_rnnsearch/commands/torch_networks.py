"""Models that are modules of torch, on any device: ours, fairseq's or a user's own."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils._pytree import tree_map_only

from fairseq_rnnsearch.decoding.batches import batch_of
from fairseq_rnnsearch.decoding.decode import decode, has_alignment
from fairseq_rnnsearch.decoding.engine_networks import EngineNetworks, Sentences, searched
from fairseq_rnnsearch.decoding.module_steps import begin_of, networks_of
from fairseq_rnnsearch.decoding.search import Options
from fairseq_rnnsearch.decoding.search.history import Hypothesis
from fairseq_rnnsearch.decoding.search.scorer import Scorer
from fairseq_rnnsearch.engine.parameters import Parameters
from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.network import Decoder
from fairseq_rnnsearch.network.translation_model import custom_module


class TorchNetworks:
    """As `EngineNetworks`; calls share the models unchanged."""

    def __init__(
        self,
        models: Sequence[torch.nn.Module],
        source_dictionary: Any,
        target_dictionary: Any,
        *,
        left_pad_source: bool = False,
    ) -> None:
        self.models = list(models)
        for model in self.models:
            model.eval()
        self._pad, self._dictionary = source_dictionary.pad(), target_dictionary
        self._left_pad_source = left_pad_source

    @property
    def has_alignment(self) -> bool:
        return any(map(has_alignment, self.models))

    def as_parameters(self) -> list[Parameters]:
        for model in self.models:
            if part := custom_module(model):
                raise UserError(
                    f"the model has a custom module ({part}), and here only RNNsearch and "
                    "RNNencdec are known as they are"
                )
        return [
            Parameters(
                {name: x.detach().float().cpu().numpy() for name, x in model.named_parameters()},
                model.decoder.order,
            )
            for model in self.models
        ]

    def parameters(self) -> int:
        return sum(values.numel() for model in self.models for values in model.parameters())

    @torch.inference_mode()
    def search(
        self, options: Options, by_authors: bool, sources: Sentences
    ) -> list[list[Hypothesis]]:
        if not all(isinstance(model.decoder, Decoder) for model in self.models):
            return self._decoded(self._fairseq_generator(options, by_authors), sources)
        begins = begin_of(self.models, self._pad, options)
        several = len(self.models) > 1
        return searched(options, by_authors, begins, sources, self.has_alignment, several)

    def score(self, sources: Sentences, targets: Sentences, posterior: bool) -> list[Hypothesis]:
        if networks := networks_of(self.models):
            return EngineNetworks(networks).score(sources, targets, posterior)
        scorer = Scorer(self._dictionary, posterior=posterior)
        return [best for (best,) in self._decoded(scorer, sources, targets)]

    @torch.inference_mode()
    def attribution(self, sources: Sentences, targets: Sentences) -> list[NDArray[np.floating]]:
        if networks := networks_of(self.models):
            return EngineNetworks(networks).attribution(sources, targets)
        sample = self._batch(sources, targets)
        words, target = sample["net_input"]["src_tokens"], sample["target"]
        previous = sample["net_input"]["prev_output_tokens"]
        log_p = torch.stack(
            [
                model.decoder.leave_one_out(previous, model.encoder(words), target).double()
                for model in self.models
            ]
        ).logsumexp(dim=0)  # up to a constant the logarithm of the models' mean
        effects = (log_p[..., :1] - log_p[..., 1:]).cpu()
        is_source = words.ne(self._pad).cpu()
        return [
            effects[row, : len(target), is_source[row]].numpy()
            for row, target in zip(_rows_by_number(sample), targets, strict=True)
        ]

    def _fairseq_generator(self, options: Options, by_authors: bool) -> Any:
        """Return a search of fairseq's, for its models, which offer no steps."""
        from fairseq_rnnsearch.plugin.generators import (
            AuthorsSequenceGenerator,
            StepwiseGenerator,
        )

        search = AuthorsSequenceGenerator if by_authors else StepwiseGenerator
        names = ("beam_size", "len_penalty", "unk_penalty", "max_len_a", "max_len_b")
        chosen = {name: getattr(options, name) for name in names}
        return search(self.models, self._dictionary, **chosen)

    @torch.inference_mode()
    def _decoded(
        self, generator: Any, sources: Sentences, targets: Sentences | None = None
    ) -> list[list[Hypothesis]]:
        sample, eos = self._batch(sources, targets), self._dictionary.eos()
        scores = targets is not None
        beams = decode(generator, self.models, sample, self._pad, eos, scores=scores)
        return [[*map(hypothesis_of, beams[row])] for row in _rows_by_number(sample)]

    def _batch(self, sources: Sentences, targets: Sentences | None) -> dict:
        sides = [side and [*map(torch.tensor, side)] for side in (sources, targets)]
        batch = batch_of(*sides, self._pad, left_pad_source=self._left_pad_source)
        device = next(self.models[0].parameters()).device  # a model may have been moved
        return tree_map_only(torch.Tensor, lambda tensor: tensor.to(device), batch)


def _rows_by_number(sample: dict) -> list[int]:
    """Return the row of each sentence, in the order in which they were given."""
    return sample["id"].argsort().tolist()


def hypothesis_of(found: dict) -> Hypothesis:
    """Return a hypothesis of `decode` without torch."""
    weights = found["weights"]
    return Hypothesis(
        found["tokens"].tolist(),
        float(found["score"]),
        found["positional_scores"].double().cpu().numpy(),
        None if weights is None else weights.float().numpy(),
    )
