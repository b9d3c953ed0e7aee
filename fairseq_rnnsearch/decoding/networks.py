"""What a ``Translator`` asks of its models, one batch at a time; without torch."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fairseq_rnnsearch.decoding.hypothesis import Hypothesis
from fairseq_rnnsearch.decoding.length_limit import LengthLimit

Sentences = Sequence[Sequence[int]]  # numbers of words, the end symbol last


class SearchSettings(NamedTuple):
    """The options of a search, see ``Translator.translate``."""

    beam: int
    lenpen: float
    forbid_unk: bool
    authors_search: bool
    length_limit: LengthLimit


class Networks(Protocol):
    """A model, or the models of an ensemble.

    Attributes:
        models: as modules of torch.
        has_alignment: whether one of them has attention.
    """

    @property
    def models(self) -> Sequence[Any]: ...

    @property
    def has_alignment(self) -> bool: ...

    def parameters(self) -> int:
        """Return how many numbers the models have."""

    def search(self, settings: SearchSettings, sources: Sentences) -> list[list[Hypothesis]]:
        """Return each sentence's hypotheses, best first."""

    def score(self, sources: Sentences, targets: Sentences, posterior: bool) -> list[Hypothesis]:
        """Return the given translations as hypotheses.

        Args:
            posterior: whether the weights are those of ``network.forced_scoring.posterior``.
        """

    def attribution(self, sources: Sentences, targets: Sentences) -> list[NDArray[np.floating]]:
        """Return how far each word's log p falls without each source position.

        See ``network.forced_scoring.leave_one_out``; ``(words, source positions)``.
        """
