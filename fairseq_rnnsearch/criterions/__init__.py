"""The paper's cost."""

from fairseq_rnnsearch.criterions.alignment_heatmap import (
    AlignmentHeatmapCriterion,
    AlignmentHeatmapCriterionConfig,
)

__all__ = ["AlignmentHeatmapCriterion", "AlignmentHeatmapCriterionConfig"]
