"""The translation task.

``alignment_heatmap`` trains, validates and translates; ``parallel_data`` reads the data and makes
the batches. ``task_options`` has the options of both, and ``heatmaps`` draws what attention did.
"""

import fairseq  # noqa: F401  (first, because it lets the parts be registered)

from fairseq_rnnsearch.plugin.tasks.alignment_heatmap import AlignmentHeatmapTask
from fairseq_rnnsearch.plugin.tasks.task_options import AlignmentHeatmapConfig

__all__ = ["AlignmentHeatmapConfig", "AlignmentHeatmapTask"]
