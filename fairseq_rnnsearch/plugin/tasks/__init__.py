"""The translation task.

``alignment_heatmap`` trains, validates and translates; ``parallel_data`` reads the data and makes
the batches. ``task_options`` has the options of both, and ``heatmaps`` draws the alignments.
"""

import fairseq  # noqa: F401  (first, because this registers the parts)

from fairseq_rnnsearch.plugin.tasks.alignment_heatmap import AlignmentHeatmapTask
from fairseq_rnnsearch.plugin.tasks.task_options import AlignmentHeatmapConfig

__all__ = ["AlignmentHeatmapConfig", "AlignmentHeatmapTask"]
