"""The paper's cost."""

import fairseq  # noqa: F401  (first, because this registers the parts)

from fairseq_rnnsearch.plugin.criterions.alignment_heatmap import (
    AlignmentHeatmapCriterion,
    AlignmentHeatmapCriterionConfig,
)

__all__ = ["AlignmentHeatmapCriterion", "AlignmentHeatmapCriterionConfig"]
