"""The parameters of a model as the page stores them.

A matrix is rounded to 8 bits with one scale for each of its rows, the largest absolute value over
127; a vector stays float32, and so does everything with ``weights="float32"``.
"""

import base64
from typing import Any

import numpy as np
import torch

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.models.folder import quantised
from fairseq_rnnsearch.network.translation_model import custom_module


def stored_model(model: torch.nn.Module, weights: str) -> dict[str, Any]:
    """Return a model's options and parameters, for JSON.

    Args:
        weights: one of ``checks.PAGE_WEIGHTS``.

    Raises:
        UserError: if the page cannot compute the model.
    """
    return {
        "options": _options(model),
        "tensors": {
            name: _stored(parameter.detach().float().cpu().numpy(), weights)
            for name, parameter in model.named_parameters()
        },
    }


def _options(model: torch.nn.Module) -> dict[str, str]:
    if part := custom_module(model):
        raise UserError(
            f"the checkpoint holds a model with a custom module ({part}); the page computes "
            "RNNsearch and RNNencdec as they are"
        )
    alignment = "none" if model.decoder.alignment_model is None else "additive"
    return {"order": model.decoder.order, "alignment": alignment}


def _stored(values: np.ndarray, weights: str) -> dict[str, Any]:
    if values.ndim < 2 or weights == "float32":
        return {"shape": values.shape, "values": _base64(values.astype("<f4")), "scales": None}
    steps, scales = quantised(values)
    return {
        "shape": values.shape, "values": _base64(steps), "scales": _base64(scales.astype("<f4")),
    }  # fmt: skip


def _base64(values: np.ndarray) -> str:
    return base64.b64encode(values.tobytes()).decode()
