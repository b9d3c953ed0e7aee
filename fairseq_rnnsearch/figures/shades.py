"""From a weight to a grey, for every way in which an alignment is drawn.

The script of pages, heatmap.js, cannot import Python and follows the same rule. So does
matplotlib with a map of as many colours. Tests hold them equal.
"""

import numpy as np

GREYS = 256


def grey(weights: np.ndarray) -> np.ndarray:
    """Map weights to greys, 0 black and 255 white.

    The range from 0 to 1 is cut into ``GREYS`` equal parts; a weight outside gets the nearer end.

    Args:
        weights: of any shape. NaN becomes black: who can show that it is no weight does so.

    Returns:
        Bytes of the same shape.
    """
    weights = np.nan_to_num(np.asarray(weights, dtype=np.float64), nan=0.0)
    return np.minimum(np.floor(np.clip(weights, 0, 1) * GREYS), GREYS - 1).astype(np.uint8)
