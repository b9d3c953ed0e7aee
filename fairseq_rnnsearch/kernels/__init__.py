"""What takes the time, and the choice of who runs it.

``--kernels`` names a backend, see ``interface.Backend``: ``reference`` is the plain one, ``fast``
(``cpu``) has backward passes derived by hand and compiled steps, ``gpu`` has them in few launches.
Another one is another entry of ``BACKENDS``. Nothing outside this folder asks which one runs.
"""

import logging
from collections.abc import Iterable
from functools import cache

import torch
from torch import Tensor, nn

from fairseq_rnnsearch.kernels.cpu import CPU
from fairseq_rnnsearch.kernels.decoder_steps import DecoderSteps
from fairseq_rnnsearch.kernels.gpu import GPU
from fairseq_rnnsearch.kernels.interface import (
    Backend,
    DecoderParts,
    Direction,
    SearchStart,
)
from fairseq_rnnsearch.kernels.reference import Reference

__all__ = [
    "BACKENDS",
    "KERNELS",
    "Backend",
    "DecoderParts",
    "DecoderSteps",
    "Direction",
    "RunByBackend",
    "SearchStart",
    "choose",
    "forget",
]

# ``auto`` takes the first that can run a network and need not be named; the last can run all
BACKENDS: dict[str, Backend] = {backend.name: backend for backend in (CPU(), GPU(), Reference())}
KERNELS = ("auto", *reversed(BACKENDS))

logger = logging.getLogger(__name__)


class RunByBackend(nn.Module):
    """A side of the network whose time loops a backend runs.

    Which one is decided once for each device and type that its parameters are moved or cast to.

    Args:
        kernels: who runs the loops, one of ``KERNELS``.

    Raises:
        ValueError: for another one.
    """

    def __init__(self, kernels: str) -> None:
        super().__init__()
        if kernels not in KERNELS:
            raise ValueError(f"kernels must be one of {KERNELS}, not {kernels!r}")
        self.kernels = kernels
        self._chosen: dict[tuple, str] = {}  # names of backends, by what the choice depends on

    def use_kernels(self, name: str) -> None:
        """Let others run the loops from now on.

        Args:
            name: one of ``KERNELS``.
        """
        self.kernels = name

    def backend_for(self, parts: Iterable[nn.Module | None], side: str) -> Backend:
        """Return who runs these parts; see ``choose``.

        A trained model may have been told of kernels that another machine has: where they cannot
        run, ``auto`` takes their place unless the model is being trained.
        """
        one = next(self.parameters())
        device = one.device.type
        key = self.kernels, self.training, device, one.dtype, _autocast_type(device)
        if key not in self._chosen:
            name, parts = self.kernels, [part for part in parts if part is not None]
            if not self.training and name != "auto" and BACKENDS[name].why_not(parts):
                name = "auto"
            self._chosen[key] = choose(name, parts, side).name
        return BACKENDS[self._chosen[key]]


def choose(name: str, parts: Iterable[nn.Module | None], of: str) -> Backend:
    """Return the backend of a name for parts of a network as they are now.

    The log tells once which backend runs, and why.

    Args:
        of: what these are the parts of, for the log.

    Raises:
        ValueError: when the backend of that name cannot run them.
    """
    parts = [part for part in parts if part is not None]
    if name != "auto":
        backend, why = BACKENDS[name], ""
        if obstacle := backend.why_not(parts):
            raise ValueError(
                f"--kernels {name} runs on {backend.needs}, and not with {obstacle}: "
                "use --kernels auto or reference"
            )
    else:
        refusals = []
        for backend in BACKENDS.values():
            obstacle = backend.why_not(parts)
            if obstacle is None and not backend.on_request:
                break
            if obstacle is None:
                refusals.append(f"no GPU has run the {backend.name} ones yet, which must be named")
            elif not obstacle.startswith("device "):  # that a GPU's are not for a CPU goes unsaid
                refusals.append(f"no {backend.name} ones for {obstacle}")
        why = f": {', '.join(refusals) or f'on {backend.place}'}"
    _announce(backend.name, of, name, why)
    return backend


def forget(parameters: Iterable[Tensor]) -> None:
    """Give back whatever a backend keeps of parameters, which are about to be changed."""
    parameters = list(parameters)
    for backend in BACKENDS.values():
        backend.forget(parameters)


def _autocast_type(device: str) -> torch.dtype | None:
    """Return the type that autocast casts to on a kind of device, or None where it is off."""
    if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
        return torch.get_autocast_dtype(device)
    return None


@cache
def _announce(running: str, of: str, name: str, why: str) -> None:
    logger.info("%s kernels run the %s (--kernels %s%s)", running, of, name, why)
