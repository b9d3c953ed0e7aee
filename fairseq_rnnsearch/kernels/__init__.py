"""What takes the time, and the choice of who runs it.

``--kernels`` names a backend, see ``interface.Backend``: ``reference`` is the plain one, ``fast``
(``cpu``) has backward passes derived by hand and compiled steps, ``gpu`` has them in few launches.
Another one is another entry of ``BACKENDS``. Nothing outside this folder asks which one runs.
"""

import logging
from collections.abc import Iterable
from functools import cache

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
    "SearchStart",
    "check_name",
    "choose",
    "forget",
]

# ``auto`` takes the first that can run a network; the last can run all
BACKENDS: dict[str, Backend] = {backend.name: backend for backend in (CPU(), GPU(), Reference())}
KERNELS = ("auto", *reversed(BACKENDS))

logger = logging.getLogger(__name__)


def check_name(name: str) -> str:
    """Return a name of ``KERNELS``.

    Raises:
        ValueError: for another one.
    """
    if name not in KERNELS:
        raise ValueError(f"kernels must be one of {KERNELS}, not {name!r}")
    return name


def choose(name: str, parts: Iterable[nn.Module | None], of: str) -> Backend:
    """Return the backend of a name for parts of a network as they are now.

    A model may be moved, and so the choice is made anew for each batch. The log tells once which
    backend runs, and why.

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
            if obstacle is None:
                break
            if not obstacle.startswith("device "):  # that a GPU's are not for a CPU goes unsaid
                refusals.append(f"no {backend.name} ones for {obstacle}")
        why = f": {', '.join(refusals) or f'on {backend.place}'}"
    _announce(backend.name, of, name, why)
    return backend


def forget(parameters: Iterable[Tensor]) -> None:
    """Give back whatever a backend keeps of parameters, which are about to be changed."""
    parameters = list(parameters)
    for backend in BACKENDS.values():
        backend.forget(parameters)


@cache
def _announce(running: str, of: str, name: str, why: str) -> None:
    logger.info("%s kernels run the %s (--kernels %s%s)", running, of, name, why)
