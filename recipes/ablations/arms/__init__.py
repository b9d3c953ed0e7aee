"""RNNsearch with one ingredient changed.

    fairseq-train ... --user-dir recipes/ablations/arms --arch forward_encoder

Loaded instead of the plugin, this folder registers the plugin and these architectures. Each is a
function that changes a newly built network and initialises what it replaced (``--initialization``).
Parts without fast kernels run on the reference kernels, as the log says.
"""

from arms import changes, location_alignment, long_short_term_memory, product_alignment

__all__ = ["changes", "location_alignment", "long_short_term_memory", "product_alignment"]
