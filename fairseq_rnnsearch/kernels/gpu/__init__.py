"""The GPU backend: the hand-derived passes in few launches, without synchronisation.

A sequence of small operations leaves a GPU idle, as launching one takes longer than running it. So
the encoder's two directions take each step together (``joint_recurrence``), the decoder runs
``derived.decoder_loop``, and Triton, if installed, fuses each group of elementwise operations into
one launch (``fused_...``). On CUDA, each loop is recorded once for batches of similar lengths and
then launched as a whole (``recordings``). Nothing here waits for the device. A search uses the
steps of ``reference``, whose products take far longer than their launches.
"""

from collections.abc import Iterable, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from fairseq_rnnsearch.devices import runs_triton
from fairseq_rnnsearch.kernels.derived import DERIVED_FROM, decoder_loop
from fairseq_rnnsearch.kernels.derived.operations import Operations
from fairseq_rnnsearch.kernels.derived.passes import Primitives
from fairseq_rnnsearch.kernels.gpu import joint_recurrence, masked_cost
from fairseq_rnnsearch.kernels.gpu.recordings import CudaRecording, Recordings
from fairseq_rnnsearch.kernels.interface import Direction
from fairseq_rnnsearch.kernels.reference import Reference
from fairseq_rnnsearch.paper.equations import AlignmentModel, GatedUnit, Memory

TYPES = {torch.float32, torch.float64, torch.bfloat16}


class GPU(Reference):
    """The backend for a GPU; see ``Backend`` for what the functions do.

    Everything else is inherited from ``reference``, which runs on any device.

    Args:
        recordings: the recorded loops, for devices that can record.
    """

    name, place = "gpu", "a GPU"
    needs = "a GPU, all in one of float32, float64 and bfloat16"
    on_request = True  # until a GPU has shown that they are right and faster
    output_cost = staticmethod(masked_cost.output_cost)

    def __init__(self, recordings: Recordings | None = None) -> None:
        self._recordings = recordings or Recordings(CudaRecording)

    def why_not(self, parts: Iterable[nn.Module]) -> str | None:
        parts = list(parts)
        parameters = [parameter for part in parts for parameter in part.parameters()]
        if any(parameter.device.type == "cpu" for parameter in parameters):
            return "device cpu"
        for part in parts:
            if type(part) not in DERIVED_FROM:
                return type(part).__name__
        types = {parameter.dtype for parameter in parameters}
        kind = parameters[0].device.type
        if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
            types.add(torch.get_autocast_dtype(kind))
            types -= {torch.float32} if torch.bfloat16 in types else set()
        # float16 would need the logits' gradients scaled before rounding
        if len(types) == 1 and types < TYPES:
            return None
        return " beside ".join(sorted(f"{dtype}".removeprefix("torch.") for dtype in types))

    def recurrence(
        self,
        directions: Sequence[Direction],
        initial: Tensor | None = None,
        present: Tensor | None = None,
    ) -> Tensor:
        steps, batch, _ = directions[0].inputs.shape
        more = self._recordings.padding(directions[0].inputs, steps)
        if more:
            if present is None and any(way.reverse for way in directions):
                present = torch.ones(steps, batch, dtype=torch.bool).to(directions[0].inputs.device)
            present = None if present is None else _longer(present, 0, more, False)
            directions = [way._replace(inputs=_longer(way.inputs, 0, more)) for way in directions]
        primitives = self._primitives(directions[0].inputs)
        return joint_recurrence.recurrence(directions, initial, present, primitives)[:steps]

    def decoder_recurrence(
        self,
        word_inputs: Tensor,
        initial: Tensor,
        steps: int,
        memory: Memory,
        unit: GatedUnit,
        alignment_model: AlignmentModel,
        foreseen: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        updates, source = len(word_inputs), memory.padding.size(1)
        if more := self._recordings.padding(word_inputs, source):
            annotations, keys, padding = memory
            memory = Memory(
                *(_longer(part, 1, more) for part in (annotations, keys)),
                _longer(padding, 1, more, True),
            )
        more = self._recordings.padding(word_inputs, steps)
        if more:
            word_inputs = _longer(word_inputs, 0, more)
            foreseen = None if foreseen is None else _longer(foreseen, 0, more)
        primitives = self._primitives(word_inputs)
        states, contexts, alignment = decoder_loop.decoder_recurrence(
            primitives, word_inputs, initial, steps + more, memory, unit, alignment_model, foreseen
        )
        return states[: updates + 1], contexts[:steps], alignment[:, :steps, :source]

    def prefers_steps(self, output: object) -> bool:
        return True

    def _primitives(self, like: Tensor) -> Primitives:
        operations = _in_triton if runs_triton(like) else _by_torch
        return Primitives(operations, _product, self._recordings.run)


def _by_torch(operands: torch.dtype) -> Operations:
    return Operations()


def _in_triton(operands: torch.dtype) -> Operations:
    from fairseq_rnnsearch.kernels.gpu.fused_steps import FusedOperations

    return FusedOperations()


def _product(weight: Tensor) -> partial:
    return partial(nn.functional.linear, weight=weight)


def _longer(x: Tensor, dim: int, more: int, value: float = 0.0) -> Tensor:
    """Return a tensor with ``more`` rows of a value appended to a dimension."""
    before = (0, 0) * (x.dim() - 1 - dim)
    return nn.functional.pad(x, (*before, 0, more), value=value)
