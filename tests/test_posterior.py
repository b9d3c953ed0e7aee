"""Alignment weights with the target word known: against an oracle in NumPy float64, and use."""

import numpy as np
import pytest
import torch
from models import EOS, SOURCES, TARGETS, arrays_of, batch_of, build_model, padded, random_model
from oracles import numpy_rnnsearch as oracle
from test_network import EXACT
from torch.testing import assert_close

from fairseq_rnnsearch.decoding.search.scorer import Scorer
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


@pytest.mark.parametrize("order", DECODER_ORDERS)
@pytest.mark.parametrize("kernels", ["reference", "fast"])
def test_weights_equal_the_oracle(order, kernels, monkeypatch):
    monkeypatch.setattr(forced_scoring, "_LOGITS", 20)  # two rows, hence several parts
    model = random_model(output_layer="factorised", decoder_order=order, kernels=kernels).eval()
    p, previous = arrays_of(model), padded([[EOS, *words[:-1]] for words in TARGETS])
    encoded = model.encoder(padded(SOURCES))
    logits, extra = model.decoder(previous, encoded, posterior=True)
    for row, (x, y) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        found = extra["attn"][0][row, : len(y), : len(x)]
        assert_close(found, torch.tensor(posterior(p, x, y, order)), **EXACT)
    # what the decoder reads, and so what it scores, is as before
    assert torch.equal(logits, model.decoder(previous, encoded)[0])


def test_a_model_without_attention_is_refused():
    model = build_model(fixed_context=True)
    with pytest.raises(UserError, match="posterior: the model has only"):
        scorer = Scorer(model.decoder.dictionary, posterior=True)
        scorer.generate([model], batch_of(SOURCES, TARGETS))
