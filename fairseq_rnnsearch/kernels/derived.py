"""What the hand-derived passes of ``cpu`` and ``gpu`` share: one type of operands, and no graph.

``cpu.recurrence`` and ``cpu.decoder_loop`` derive the gradients; ``gpu`` orders the same equations
otherwise.

Under ``torch.autocast``, or with parameters narrower than float32, the operands of products are in
that type; everything else, states and their gradients above all, is in float32.
"""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from fairseq_rnnsearch.paper.equations import (
    AlignmentModel,
    BiasedEmbedding,
    DeepOutput,
    GatedUnit,
    Memory,
    OutputLayer,
)
from fairseq_rnnsearch.paper.equations.linear import autocast_type

# the equations that the passes and steps are derived from
DERIVED_FROM = {AlignmentModel, BiasedEmbedding, DeepOutput, GatedUnit, OutputLayer}
# float16 would need the logits' gradients scaled before rounding
TYPES = {torch.float32, torch.float64, torch.bfloat16}


def obstacle(parts: Iterable[nn.Module], *, on_cpu: bool) -> str | None:
    """Return why hand-derived kernels cannot run these parts, or None; see ``Reference.why_not``.

    Under ``torch.autocast``, float32 and bfloat16 may be mixed.
    """
    parts = list(parts)
    parameters = [parameter for part in parts for parameter in part.parameters()]
    devices = {parameter.device.type for parameter in parameters}
    if "cpu" in devices and not on_cpu:
        return "device cpu"
    for part in parts:
        if type(part) not in DERIVED_FROM:
            return type(part).__name__
    types = {parameter.dtype for parameter in parameters}
    for device in devices:
        if on_cpu and device != "cpu":
            return f"device {device}"
        if operands := autocast_type(device):
            types.add(operands)
            types -= {torch.float32} if torch.bfloat16 in types else set()
    if len(types) < 2 and types <= TYPES:
        return None
    return " beside ".join(sorted(f"{dtype}".removeprefix("torch.") for dtype in types))


def apply(function: type[torch.autograd.Function], *args: object) -> Tensor | tuple[Tensor, ...]:
    """Run a function whose first argument is autocast's type, or None if autocast is off.

    Inside, autocast is off: the function casts its operands itself.
    """
    kind = _kind_of(args)
    operands = autocast_type(kind)
    with torch.autocast(kind, enabled=False):
        return function.apply(operands, *args)


def first_order(backward: Callable) -> Callable:
    """Let a backward pass run under autocast, and forbid differentiating it.

    Raises:
        NotImplementedError: by the pass, if second-order gradients are requested.
    """

    def run(*args: object) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise NotImplementedError(
                "the fast kernels have no second-order gradients (create_graph=True): "
                "use --kernels reference"
            )
        with torch.autocast(_kind_of(args), enabled=False):
            return backward(*args)

    return run


def decoder_tensors(
    word_inputs: Tensor,
    initial: Tensor,
    steps: int,
    memory: Memory,
    unit: GatedUnit,
    alignment_model: AlignmentModel,
) -> tuple[int | Tensor, ...]:
    """Return the arguments of ``Reference.decoder_recurrence`` as a pass takes them.

    Autograd sees the tensors that it is given, and none inside of modules.
    """
    of_memory = memory.padding, word_inputs, initial, memory.annotations, memory.keys
    of_unit = unit.recurrent_gates, unit.recurrent_proposed, unit.context_weight
    of_model = alignment_model.state_weight, alignment_model.energy_weight
    return steps, *of_memory, *of_unit, *of_model


def accurate_type(dtype: torch.dtype) -> torch.dtype:
    """Return float32 or a wider type: in which to sum numbers of a type."""
    return torch.promote_types(dtype, torch.float32)


def slices(length: int, step: int) -> list[slice]:
    """Split ``length`` rows into slices of ``step``; the last may be shorter."""
    return [slice(start, min(start + step, length)) for start in range(0, length, step)]


def smoothing(label_smoothing: float, symbols: int) -> tuple[float, float]:
    """Return the weights of the word's cost and of every symbol's cost.

    As in fairseq, the probability is spread over all symbols but the correct one.
    """
    spread = label_smoothing / (symbols - 1)
    return 1 - label_smoothing - spread, spread


def _kind_of(args: tuple[object, ...]) -> str:
    """Return the device type of the first tensor among the arguments, or "cpu" without one."""
    return next((x.device.type for x in args if isinstance(x, Tensor)), "cpu")
