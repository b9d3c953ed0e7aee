"""A search works on parts: as many sentences at once as fit, words in runs, blocks.

A file of tests that begins with ``pytestmark = pytest.mark.usefixtures("blocks")`` and imports
``blocks`` runs each of its tests twice, with the parts as they are and, in the slow part, with the
smallest ones. Tests with ``either_blocks`` run with both in the quick part too.
"""

import pytest

from fairseq_rnnsearch.decoding.search import torch_steps
from fairseq_rnnsearch.engine import choice
from fairseq_rnnsearch.network import forced_scoring

SMALLEST = [
    (torch_steps, "RUN", 1),
    (choice, "RUN", 1),
    (forced_scoring, "_LOGITS", 1),
]


either_blocks = pytest.mark.parametrize("blocks", ["whole", "in parts"], indirect=True)


@pytest.fixture(params=["whole", pytest.param("in parts", marks=pytest.mark.slow)])
def blocks(request, monkeypatch):
    if request.param == "in parts":
        for module, name, smallest in SMALLEST:
            assert getattr(module, name) > smallest
            monkeypatch.setattr(module, name, smallest)
