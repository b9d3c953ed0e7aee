"""Models that are modules of torch, on any device: ours, fairseq's or a user's own."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils._pytree import tree_map_only

from fairseq_rnnsearch.decoding.batches import batch_of, naming_the_batch
from fairseq_rnnsearch.decoding.decode import decode, has_alignment, soft_alignment
from fairseq_rnnsearch.decoding.engine_networks import (
    Alternatives,
    EngineNetworks,
    Read,
    Reader,
    Sentences,
    attribution,
    scored,
    searched,
)
from fairseq_rnnsearch.decoding.module_steps import begin_of, networks_of
from fairseq_rnnsearch.decoding.search import Options
from fairseq_rnnsearch.decoding.search.beam_search import NO_POSTERIOR
from fairseq_rnnsearch.decoding.search.history import Hypothesis
from fairseq_rnnsearch.engine.parameters import Parameters
from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.kernels.derived import accurate_type
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
            sample = self._batch(sources, None, self._left_pad_source)
            generator = self._fairseq_generator(options, by_authors)
            beams = decode(generator, self.models, sample, self._pad, self._dictionary.eos())
            return [[*map(hypothesis_of, beams[row])] for row in _rows_by_number(sample)]
        begins = begin_of(self.models, self._pad, options)
        several = len(self.models) > 1
        return searched(options, by_authors, begins, sources, self.has_alignment, several)

    def score(self, sources: Sentences, targets: Sentences, posterior: bool) -> list[Hypothesis]:
        if networks := networks_of(self.models):
            return EngineNetworks(networks).score(sources, targets, posterior)
        decoders = [model.decoder for model in self.models]
        if posterior and not all(isinstance(x, Decoder) and x.has_alignment for x in decoders):
            raise UserError(NO_POSTERIOR)
        return scored(self._readers(sources, targets), targets, posterior)

    def attribution(self, sources: Sentences, targets: Sentences) -> list[NDArray[np.floating]]:
        if networks := networks_of(self.models):
            return EngineNetworks(networks).attribution(sources, targets)
        return attribution(self._readers(sources, targets), sources)

    def _readers(self, sources: Sentences, targets: Sentences) -> list[Reader]:
        return [partial(self._forced, model, sources, targets) for model in self.models]

    @torch.inference_mode()
    def _forced(
        self,
        model: torch.nn.Module,
        sources: Sentences,
        targets: Sentences,
        alternatives: Alternatives | None = None,
        *,
        alone: bool = False,
    ) -> Read:
        """Let a model read given words; an `engine_networks.Reader`."""
        is_plain = alternatives is None and not alone
        sample = self._batch(sources, targets, self._left_pad_source and is_plain)
        given, target = sample["net_input"], sample["target"]
        source, rereads = given["src_tokens"], None
        with naming_the_batch(sample):
            output = model(**given)
            log_p = model.get_normalized_probs(output, log_probs=True)
            log_p = log_p.gather(2, target.unsqueeze(2)).squeeze(2)
            weights = soft_alignment(output, target, source)
            if not is_plain:
                words = given["prev_output_tokens"], model.encoder(source), target
                rereads = model.decoder.reread(*words, alternatives)
        rows, is_source = _rows_by_number(sample), source.ne(self._pad).cpu().numpy()
        log_p, weights, rereads = (
            [
                None if x is None else x[row, : len(words)].to(dtype).cpu().numpy()
                for row, words in zip(rows, targets, strict=True)
            ]
            for x, dtype in (
                (log_p, torch.double),
                (weights, accurate_type(log_p.dtype)),
                (rereads, torch.double),
            )
        )
        if weights[0] is not None:
            weights = [x[:, is_source[row]] for x, row in zip(weights, rows, strict=True)]
        return log_p, weights, rereads

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

    def _batch(self, sources: Sentences, targets: Sentences | None, left: bool) -> dict:
        sides = [side and [*map(torch.tensor, side)] for side in (sources, targets)]
        batch = batch_of(*sides, self._pad, left_pad_source=left)
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
