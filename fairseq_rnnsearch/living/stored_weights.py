"""The parameters of a model as the page stores them.

A matrix is rounded to 8 bits with one scale for each of its rows, the largest absolute value over
127; a vector stays float32, and so does everything with ``weights="float32"``.
"""

import base64
from typing import Any

import numpy as np

from fairseq_rnnsearch.engine.parameters import Parameters
from fairseq_rnnsearch.engine.shapes import SCALE
from fairseq_rnnsearch.models.folder import quantised


def stored_model(parameters: Parameters, weights: str) -> dict[str, Any]:
    """Return a model's options and parameters, for JSON.

    Args:
        weights: one of ``checks.PAGE_WEIGHTS``.
    """
    alignment = "additive" if parameters.has_alignment else "none"
    return {
        "options": {"order": parameters.order, "alignment": alignment},
        "tensors": {
            name: _stored(parameters[name].astype(np.float32), weights)
            for name in parameters.arrays
            if not name.endswith(SCALE)
        },
    }


def _stored(values: np.ndarray, weights: str) -> dict[str, Any]:
    if values.ndim < 2 or weights == "float32":
        return {"shape": values.shape, "values": _base64(values.astype("<f4")), "scales": None}
    steps, scales = quantised(values)
    return {
        "shape": values.shape, "values": _base64(steps), "scales": _base64(scales.astype("<f4")),
    }  # fmt: skip


def _base64(values: np.ndarray) -> str:
    return base64.b64encode(values.tobytes()).decode()
