"""From a weight to a grey, for every way in which an alignment is drawn.

The script of pages, heatmap.js, cannot import Python and follows the same rule. So does
matplotlib with a map of as many colours. Tests hold them equal.
"""

import numpy as np

GREYS = 256


def grey(weights: np.ndarray, inverted: bool = False) -> np.ndarray:
    """Map weights to greys, 0 black and 255 white.

    The range from 0 to 1 is cut into ``GREYS`` equal parts; a weight outside gets the nearer end.

    Args:
        weights: of any shape. NaN is drawn as 0. Callers that can mark missing weights do so
            themselves.
        inverted: draw 0 white and 1 black.

    Returns:
        Bytes of the same shape.
    """
    weights = np.nan_to_num(np.asarray(weights, dtype=np.float64), nan=0.0)
    greys = np.minimum(np.floor(np.clip(weights, 0, 1) * GREYS), GREYS - 1).astype(np.uint8)
    return GREYS - 1 - greys if inverted else greys
