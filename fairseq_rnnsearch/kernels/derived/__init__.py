"""Hand-derived backward passes.

``decoder_loop`` has the decoder's recurrence and its gradients, into which ``cpu`` plugs its own
products and operations, ``operations`` the elementwise operations in PyTorch, and ``passes`` what
all such passes need. ``gpu`` orders the same equations otherwise.
"""

from fairseq_rnnsearch.paper.equations import (
    AlignmentModel,
    BiasedEmbedding,
    DeepOutput,
    GatedUnit,
    OutputLayer,
)

# the equations whose passes and steps are derived here
DERIVED_FROM = {AlignmentModel, BiasedEmbedding, DeepOutput, GatedUnit, OutputLayer}
