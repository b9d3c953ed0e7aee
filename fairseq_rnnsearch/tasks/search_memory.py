"""How much memory a search takes, from the models' estimates and the generator's limits."""

from collections.abc import Sequence
from typing import Any

import torch
from fairseq.sequence_generator import SequenceGenerator
from fairseq.sequence_scorer import SequenceScorer

from fairseq_rnnsearch.search.generator import longest_translation
from fairseq_rnnsearch.tasks.batch_limit import Estimate


def search_memory(
    generator: SequenceGenerator | SequenceScorer, models: Sequence[torch.nn.Module]
) -> Estimate | None:
    """Of all models together; None: one of them has no estimate."""
    if not all(hasattr(model, "search_memory") for model in models):
        return None
    if isinstance(generator, SequenceScorer):
        estimates = [model.training_memory(all_logits=True) for model in models]
    else:
        estimates = [model.search_memory(generator.beam_size) for model in models]
    return lambda *sizes: sum(estimate(*sizes) for estimate in estimates)


def target_positions(
    generator: SequenceGenerator | SequenceScorer, source: Any, target: Any
) -> Any:
    """Of the longest translation that may be found, or of the given one.

    Args:
        source, target: arrays of positions; ``target`` may be None where there is none given.
    """
    if isinstance(generator, SequenceScorer):
        return target
    return longest_translation(generator, source) + 1
