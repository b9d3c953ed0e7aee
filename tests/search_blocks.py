"""A search works on parts: as many sentences at once as fit, words in runs, kept words, blocks.

A file of tests that begins with ``pytestmark = pytest.mark.usefixtures("blocks")`` and imports
``blocks`` runs each of its tests twice, with the parts as they are and, in the slow part, with the
smallest ones. Tests with ``either_blocks`` run with both in the quick part too.
"""

import pytest

from fairseq_rnnsearch.decoding.search import beam_search, candidates
from fairseq_rnnsearch.kernels.cpu import operations, word_inputs
from fairseq_rnnsearch.network import forced_scoring

SMALLEST = [
    (beam_search, "LOGITS", 1),  # one sentence at a time
    (candidates, "RUN", 1),
    (word_inputs, "BYTES", 1),  # the words of one step
    (operations, "BLOCK", 1),
    (forced_scoring, "_LOGITS", 1),
]


either_blocks = pytest.mark.parametrize("blocks", ["whole", "in parts"], indirect=True)


@pytest.fixture(params=["whole", pytest.param("in parts", marks=pytest.mark.slow)])
def blocks(request, monkeypatch):
    if request.param == "in parts":
        for module, name, smallest in SMALLEST:
            assert getattr(module, name) > smallest
            monkeypatch.setattr(module, name, smallest)
        candidates._places.cache_clear()  # which were those of longer runs
        request.addfinalizer(candidates._places.cache_clear)
