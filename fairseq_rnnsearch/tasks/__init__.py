"""The translation task."""

from fairseq_rnnsearch.tasks.alignment_heatmap import AlignmentHeatmapConfig, AlignmentHeatmapTask

__all__ = ["AlignmentHeatmapConfig", "AlignmentHeatmapTask"]
