"""The GPU backend: hand-derived passes in Triton, in few launches, without synchronisation.

A sequence of small operations leaves a GPU idle, as launching one takes longer than running it. So
the encoder's two directions take each step together (``joint_recurrence``), the decoder's loop has
four launches a step (``attentive_recurrence``), and a product of a few rows is one launch with the
elementwise operations that follow it (``products``, ``attention``). A word's gradients are added up
by one program (``word_vectors``). On CUDA, a training's cost and its gradients are recorded once
for batches of similar lengths, and then launched together (``recordings``). Nothing here waits for
the device. Without Triton, for float64, and for sentences longer than ``attention.LONGEST``, the
loops are those of ``reference``; and so are a search's steps, whose products take far longer than
their launches.
"""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from fairseq_rnnsearch.kernels.derived import obstacle
from fairseq_rnnsearch.kernels.devices import runs_triton
from fairseq_rnnsearch.kernels.gpu import masked_cost
from fairseq_rnnsearch.kernels.gpu.recordings import CudaRecording, Recordings
from fairseq_rnnsearch.kernels.reference import Direction, Reference
from fairseq_rnnsearch.paper.equations import (
    AlignmentModel,
    BiasedEmbedding,
    GatedUnit,
    Memory,
)


class GPU(Reference):
    """The backend for a GPU; see ``Reference`` for what the functions do.

    Everything else is inherited from ``reference``, which runs on any device.
    """

    name, place = "gpu", "a GPU"
    needs = "a GPU, all in one of float32, float64 and bfloat16"
    output_cost = staticmethod(masked_cost.output_cost)

    def __init__(self) -> None:
        self.training_cost = Recordings(CudaRecording).cost

    def why_not(self, parts: Iterable[nn.Module]) -> str | None:
        return obstacle(parts, on_cpu=False)

    def vectors(self, words: Tensor, embedding: BiasedEmbedding) -> Tensor:
        if not runs_triton(embedding.weight) or type(embedding) is not BiasedEmbedding:
            return super().vectors(words, embedding)
        from fairseq_rnnsearch.kernels.gpu import word_vectors

        return word_vectors.vectors(words, embedding.weight) + embedding.bias

    def recurrence(
        self,
        directions: Sequence[Direction],
        initial: Tensor | None = None,
        present: Tensor | None = None,
    ) -> Tensor:
        if not _takes(directions[0].inputs):
            return super().recurrence(directions, initial, present)
        from fairseq_rnnsearch.kernels.gpu import joint_recurrence

        return joint_recurrence.recurrence(directions, initial, present)

    def decoder_recurrence(
        self,
        word_inputs: Tensor,
        initial: Tensor,
        steps: int,
        memory: Memory,
        unit: GatedUnit,
        alignment_model: AlignmentModel,
    ) -> tuple[Tensor, Tensor, Tensor]:
        given = word_inputs, initial, steps, memory, unit, alignment_model
        if not _takes(word_inputs):
            return super().decoder_recurrence(*given)
        from fairseq_rnnsearch.kernels.gpu import attention, attentive_recurrence

        if memory.padding.size(1) > attention.LONGEST:
            return super().decoder_recurrence(*given)
        return attentive_recurrence.decoder_recurrence(*given)


def _takes(inputs: Tensor) -> bool:
    """Tell whether a loop over these inputs runs in Triton, which multiplies no float64."""
    return runs_triton(inputs) and inputs.dtype != torch.float64
