"""The paper's cost."""

import fairseq  # noqa: F401  (first, because it lets the parts be registered)

from fairseq_rnnsearch.plugin.criterions.alignment_heatmap import (
    AlignmentHeatmapCriterion,
    AlignmentHeatmapCriterionConfig,
)

__all__ = ["AlignmentHeatmapCriterion", "AlignmentHeatmapCriterionConfig"]
