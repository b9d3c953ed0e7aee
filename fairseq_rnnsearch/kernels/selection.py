"""Which implementation of the time loops and of the cost runs."""

import logging
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import NamedTuple

from torch import Tensor

from fairseq_rnnsearch.kernels import fast, reference

KERNELS = ("auto", "reference", "fast")

logger = logging.getLogger(__name__)


class Kernels(NamedTuple):
    """One implementation; see ``reference`` for what the functions do."""

    gated_recurrence: Callable
    bidirectional_recurrence: Callable
    decoder_recurrence: Callable
    output_cost: Callable
    decoder_steps: Callable
    output_logits: Callable


def select(name: str) -> Kernels:
    """The implementation of that name.

    ``auto`` is ``fast`` wherever that runs and ``reference`` elsewhere, decided at each call, since
    a model may be moved. The log tells once which one runs and why.

    Raises:
        ValueError: for an unknown name; later, when ``fast`` is given what it cannot work on.
    """
    if name not in KERNELS:
        raise ValueError(f"kernels must be one of {KERNELS}, not {name!r}")
    return Kernels(*(partial(_run, name, function) for function in Kernels._fields))


def runs_fast(name: str, *tensors: Tensor) -> bool:
    """Whether the implementation of that name works on these as ``fast`` does."""
    return name != "reference" and fast.why_not(*tensors) is None


def _run(name: str, function: str, *args: object, **kwargs: object) -> Tensor | tuple[Tensor, ...]:
    obstacle = fast.why_not(*_floating(args))
    if name == "fast" and obstacle:
        raise ValueError(
            f"--kernels fast runs on a CPU, all in one of float32, float64 and bfloat16, and not "
            f"with {obstacle}: use --kernels auto or reference"
        )
    implementation = reference if name == "reference" or obstacle else fast
    _announce(implementation.__name__.rpartition(".")[-1], name, obstacle)
    return getattr(implementation, function)(*args, **kwargs)


def _floating(args: tuple) -> Iterator[Tensor]:
    """The floating-point tensors in arguments, and in tuples of them."""
    for arg in args:
        if isinstance(arg, tuple):
            yield from _floating(arg)
        elif isinstance(arg, Tensor) and arg.is_floating_point():
            yield arg


@cache
def _announce(chosen: str, name: str, obstacle: str | None) -> None:
    why = "" if name != "auto" else f": no fast ones for {obstacle}" if obstacle else ": on a CPU"
    logger.info("%s kernels run recurrences and cost (--kernels %s%s)", chosen, name, why)
