"""Models of folders in the engine: on a CPU, without torch."""

from collections.abc import Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairseq_rnnsearch.decoding import engine_networks
from fairseq_rnnsearch.decoding.hypothesis import Hypothesis
from fairseq_rnnsearch.decoding.networks import Networks, SearchSettings, Sentences
from fairseq_rnnsearch.engine.shapes import SCALE
from fairseq_rnnsearch.models.folder import ModelFolder

if TYPE_CHECKING:
    from torch import nn


class EngineNetworks:
    """See ``decoding.networks.Networks``.

    Whoever takes a look at the modules may change them: from then on they compute.
    """

    def __init__(self, folders: Sequence[ModelFolder], compute_dtype: str) -> None:
        self._folders, self._compute_dtype = folders, compute_dtype

    @cached_property
    def _modules(self) -> Networks:
        from fairseq_rnnsearch.commands.torch_networks import TorchNetworks

        models = [folder.model for folder in self._folders]
        for model in models:
            model.compute_in("float32")  # as the engine, whatever they were trained in
        return TorchNetworks(models, *self._dictionaries)

    @cached_property
    def _networks(self) -> list[engine_networks.Network]:
        return [
            engine_networks.network_of(folder.for_engine, self._compute_dtype)
            for folder in self._folders
        ]

    @property
    def _dictionaries(self) -> tuple[Any, Any]:
        return self._folders[0].dictionaries

    @property
    def models(self) -> "Sequence[nn.Module]":
        """See `Networks`."""
        return self._modules.models

    @property
    def has_alignment(self) -> bool:
        """See `Networks`."""
        return any(network.has_alignment for network in self._networks)

    def parameters(self) -> int:
        """See `Networks`."""
        return sum(
            array.size
            for folder in self._folders
            for name, array in folder.parameters.items()
            if not name.endswith(SCALE)
        )

    def search(self, settings: SearchSettings, sources: Sentences) -> list[list[Hypothesis]]:
        """See `Networks`."""
        if "_modules" in vars(self):
            return self._modules.search(settings, sources)
        begin = partial(engine_networks.begin, self._networks)
        options = engine_networks.options_of(settings, self._dictionaries[1])
        given = settings, options, begin, sources, self.has_alignment
        return engine_networks.searched(*given)

    def score(self, sources: Sentences, targets: Sentences, posterior: bool) -> list[Hypothesis]:
        """See `Networks`."""
        if "_modules" in vars(self):
            return self._modules.score(sources, targets, posterior)
        return engine_networks.scored(self._networks, sources, targets, posterior)

    def attribution(self, sources: Sentences, targets: Sentences) -> list[NDArray[np.floating]]:
        """See `Networks`."""
        if "_modules" in vars(self):
            return self._modules.attribution(sources, targets)
        return engine_networks.attribution(self._networks, sources, targets)
