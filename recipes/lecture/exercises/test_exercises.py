"""`pytest recipes/lecture/exercises` counts the functions that give the authors' numbers."""

import attention
import decoder
import encoder
import pytest

from fairseq_rnnsearch import check

FUNCTIONS = [
    *((attention, name) for name in ("energies", "weights", "context")),
    *((decoder, name) for name in ("state", "readout")),
    (encoder, "encode"),
]


@pytest.mark.parametrize(("file", "name"), FUNCTIONS, ids=[name for _, name in FUNCTIONS])
def test_function(file, name):
    is_right = check(file, name).ok
    assert is_right  # and not the report, which names the fault
