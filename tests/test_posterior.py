"""Alignment weights with the target word known: against an oracle in NumPy float64, and use."""

import numpy as np
import pytest
import torch
from models import SOURCES, TARGETS, arrays_of, build_model, networks, random_model
from numpy.testing import assert_allclose
from oracles import numpy_rnnsearch as oracle

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.network import DECODER_ORDERS, forced_scoring


def posterior(p, x, y, order):
    """alpha_ij p(y_i | s, y_{i-1}, h_j) over its sum over j, (Ty, Tx), in slow loops."""
    annotations, y_prev, rows = oracle.encode(p, x), None, []
    s = oracle.initial_state(p, annotations)
    for word in y:
        c, alpha = oracle.attend(p, annotations, s)
        following = oracle.transition(p, s, word if order == "program" else y_prev, c)
        read = following if order == "section3" else s
        joint = [
            alpha[j] * np.exp(oracle.readout(p, read, y_prev, h)[word])
            for j, h in enumerate(annotations)
        ]
        rows.append(np.array(joint) / sum(joint))
        s, y_prev = following, word
    return np.array(rows)


WAYS = {  # kernels, type, and how close weights are
    "torch": ("reference", torch.float64, 1e-10),
    "NumPy": ("fast", torch.float64, 1e-6),  # attention is rounded to float32
    "C": ("fast", torch.float32, 1e-5),
}


@pytest.mark.parametrize("order", DECODER_ORDERS)
@pytest.mark.parametrize("way", WAYS)
def test_weights_equal_the_oracle(order, way, monkeypatch):
    """Of sentences whose targets end in another order than they are sorted in."""
    monkeypatch.setattr(forced_scoring, "_LOGITS", 20)  # two rows, hence several parts
    kernels, dtype, atol = WAYS[way]
    model = random_model(output_layer="factorised", decoder_order=order, kernels=kernels)
    model, sides = model.to(dtype), (SOURCES, TARGETS[::-1])
    found, plain = (networks(model).score(*sides, posterior) for posterior in (True, False))
    for one, before, x, y in zip(found, plain, *sides, strict=True):
        assert_allclose(one.weights, posterior(arrays_of(model), x, y, order), rtol=0, atol=atol)
        # what the decoder reads, and so what it scores, is as before
        assert_allclose(one.log_p, before.log_p, rtol=0, atol=0)


def test_a_model_without_attention_is_refused():
    for kernels in ("reference", "fast"):
        model = build_model(fixed_context=True, kernels=kernels)
        with pytest.raises(UserError, match="posterior: the model has only"):
            networks(model).score(SOURCES, TARGETS, posterior=True)
