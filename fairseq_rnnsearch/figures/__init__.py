"""Words and alignment weights to pictures; knows neither fairseq nor torch.

Weights are `(target, source)` everywhere, as in the paper's Figure 3: target words down the
y axis, source words along the x axis.
"""

from fairseq_rnnsearch.figures.heatmap import draw_heatmap, save_heatmap
from fairseq_rnnsearch.figures.page import write_page

__all__ = ["draw_heatmap", "save_heatmap", "write_page"]
