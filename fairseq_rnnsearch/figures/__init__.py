"""From words and alignment weights to pictures; nothing here knows fairseq or torch.

Weights are `(target, source)` everywhere, as in the paper's Figure 3: target words down the
y axis, source words along the x axis.
"""

from fairseq_rnnsearch.figures.alignment import Alignment
from fairseq_rnnsearch.figures.gallery import Gallery, parse_formats, parse_samples, write_gallery
from fairseq_rnnsearch.figures.heatmap import draw_heatmap, save_heatmap
from fairseq_rnnsearch.figures.jsonl import read_alignments
from fairseq_rnnsearch.figures.pictures import STYLES, Look
from fairseq_rnnsearch.figures.terminal import text_heatmap

__all__ = [
    "STYLES",
    "Alignment",
    "Gallery",
    "Look",
    "draw_heatmap",
    "parse_formats",
    "parse_samples",
    "read_alignments",
    "save_heatmap",
    "text_heatmap",
    "write_gallery",
]
