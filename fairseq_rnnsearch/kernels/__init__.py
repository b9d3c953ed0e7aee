"""The backends that run the expensive computations, and the choice between them.

``--kernels`` names a backend (see ``Reference``): ``reference`` is plain PyTorch, ``fast``
(``cpu``) has hand-derived backward passes and compiled steps, ``gpu`` runs them in few launches.
To add one, add it to ``BACKENDS``. Nothing outside this folder asks which one runs.
"""

import logging
from collections.abc import Iterable, Sequence
from functools import cache

from torch import nn

from fairseq_rnnsearch.kernels.cached import forget
from fairseq_rnnsearch.kernels.cpu import CPU
from fairseq_rnnsearch.kernels.decoder_steps import DecoderSteps
from fairseq_rnnsearch.kernels.gpu import GPU
from fairseq_rnnsearch.kernels.reference import DecoderParts, Direction, Reference
from fairseq_rnnsearch.paper.equations.linear import autocast_type

__all__ = [
    "BACKENDS",
    "KERNELS",
    "DecoderParts",
    "DecoderSteps",
    "Direction",
    "Reference",
    "RunByBackend",
    "choose",
    "forget",
]

# ``auto`` takes the first that can run the network; the last runs anything
BACKENDS: dict[str, Reference] = {backend.name: backend for backend in (CPU(), GPU(), Reference())}
KERNELS = ("auto", *reversed(BACKENDS))

logger = logging.getLogger(__name__)


class RunByBackend(nn.Module):
    """An encoder or decoder whose time loops a backend runs.

    The backend is chosen once per device and type that the parameters are moved or cast to.

    Args:
        kernels: one of ``KERNELS``; the attribute may be changed at any time. ``kernels_in_use``
            has what runs.
    """

    def __init__(self, kernels: str) -> None:
        nn.Module.__init__(self)  # skips the constructor of a fairseq class that is also a base
        self.kernels = kernels
        self._chosen: dict[tuple, str] = {}  # backend names, by all that the choice depends on

    def kernels_in_use(self) -> set[str]:
        """Return the names of the backends that have run it so far."""
        return set(self._chosen.values())

    def train(self, mode: bool = True) -> "RunByBackend":
        """Switch as any module does, and drop what translating has cached for the weights."""
        if mode:
            forget(self.parameters())
        return super().train(mode)

    def backend_for(self, parts: Iterable[nn.Module | None], side: str) -> Reference:
        """Return the backend that runs these parts; see ``choose``.

        A checkpoint may name kernels that this machine lacks. Outside training, ``auto`` then
        replaces them.
        """
        one = next(self.parameters())
        device = one.device.type
        key = self.kernels, self.training, device, one.dtype, autocast_type(device)
        if key not in self._chosen:
            name, parts = self.kernels, [part for part in parts if part is not None]
            if not self.training and name != "auto" and BACKENDS[name].why_not(parts):
                name = "auto"
            self._chosen[key] = choose(name, parts, side).name
        return BACKENDS[self._chosen[key]]


def choose(name: str, parts: Sequence[nn.Module], of: str) -> Reference:
    """Return the named backend for parts of a network, as they are now.

    Log once which backend runs, and why.

    Args:
        of: what the parts belong to, for the log.

    Raises:
        ValueError: if the named backend cannot run them.
    """
    refusals = []
    for backend in BACKENDS.values() if name == "auto" else [BACKENDS[name]]:
        obstacle = backend.why_not(parts)
        if obstacle is None:
            break
        if not obstacle.startswith("device "):  # a CPU's log says nothing about GPU kernels
            refusals.append(f"no {backend.name} ones for {obstacle}")
    else:
        raise ValueError(
            f"--kernels {name} runs on {backend.needs}, and not with {obstacle}: "
            "use --kernels auto or reference"
        )
    why = f": {', '.join(refusals) or f'on {backend.place}'}" if name == "auto" else ""
    _announce(backend.name, of, name, why)
    return backend


@cache
def _announce(running: str, of: str, name: str, why: str) -> None:
    logger.info("%s kernels run the %s (--kernels %s%s)", running, of, name, why)
