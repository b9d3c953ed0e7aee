"""Hand-derived backward passes, which the fast backends share and which run on any device.

``decoder_loop`` has the decoder's recurrence and its gradients, ``operations`` the elementwise
operations in PyTorch, and ``passes`` what all such passes need. ``cpu`` and ``gpu`` plug in their
own products and operations.
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
