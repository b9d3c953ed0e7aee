"""The translation task."""

import fairseq  # noqa: F401  (first, because it lets the parts be registered)

from fairseq_rnnsearch.tasks.alignment_heatmap import AlignmentHeatmapConfig, AlignmentHeatmapTask

__all__ = ["AlignmentHeatmapConfig", "AlignmentHeatmapTask"]
