"""What the fast backends share: passes derived by hand, which run on any device.

``decoder_loop`` is the decoder's recurrence and its gradients, ``operations`` what it computes
beside matrix products, in torch, and ``passes`` what all such passes need. ``cpu`` and ``gpu`` give
them their own products and operations.
"""

from fairseq_rnnsearch.paper.equations import (
    AlignmentModel,
    BiasedEmbedding,
    DeepOutput,
    GatedUnit,
    OutputLayer,
)

# the equations that passes and steps are derived from
DERIVED_FROM = {AlignmentModel, BiasedEmbedding, DeepOutput, GatedUnit, OutputLayer}
