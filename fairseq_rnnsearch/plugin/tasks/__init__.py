"""The translation task, in four steps, of which each builds on the one before.

``parallel_data`` reads and batches, ``training`` trains and validates, ``translating`` searches and
scores, and ``alignment_heatmap`` shows what attention did.
"""

import fairseq  # noqa: F401  (first, because it lets the parts be registered)

from fairseq_rnnsearch.plugin.tasks.alignment_heatmap import (
    AlignmentHeatmapConfig,
    AlignmentHeatmapTask,
)

__all__ = ["AlignmentHeatmapConfig", "AlignmentHeatmapTask"]
