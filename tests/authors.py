"""The numbers recorded from the authors' program: groundhog/README.md says what they are."""

import json
from pathlib import Path

import numpy as np

TESTS = Path(__file__).parent
GROUNDHOG = TESTS / "groundhog"
# what ``rnnsearch-check`` needs of them is in the package
PACKAGED = TESTS.parent / "fairseq_rnnsearch" / "conformance"
PARAMS = PACKAGED / "params.npz"


def recorded_numbers():
    """Everything that the authors' program computed for one batch, by groundhog/README.md's names.

    What there is of every parameter lies in one vector, in the order of ``params.npz``:
    ``grad/W1_dec_deep_softmax`` is a part of the vector ``grad``.
    """
    arrays, params = {}, authors_params()
    for file in (PACKAGED / "sentences.npz", GROUNDHOG / "reference.npz"):
        with np.load(file) as held:
            arrays.update(held)
    ends = np.cumsum([array.size for array in params.values()])
    for vector in [name for name, array in arrays.items() if array.shape == (ends[-1],)]:
        parts = np.split(arrays[vector], ends[:-1])
        for (name, array), part in zip(params.items(), parts, strict=True):
            arrays[f"{vector}/{name}"] = part.reshape(array.shape)
    return arrays


def authors_params(file=PARAMS):
    """The 40 arrays of a file in float64."""
    with np.load(file) as arrays:
        return {name: arrays[name].astype(np.float64) for name in arrays.files}


def recorded_searches(label):
    """The program's beam searches with one set of parameters, and what it changes in them.

    Returns:
        runs, and the arrays that differ from those of ``params.npz``.
    """
    runs = json.loads((GROUNDHOG / "beam.json").read_text())["runs"]
    changed = authors_params(GROUNDHOG / "beam_params.npz")
    names = ("W2_dec_deep_softmax", "b_dec_deep_softmax")
    return [run for run in runs if run["params"] == label], {
        name: changed[f"{label}/{name}"] for name in names
    }


SEARCHES = (
    *("no_id0_eos1", "no_id0_eos2_unk2", "scaled3_eos1_unk0", "scaled3_eos1_unk2"),
    *("scaled3_eos1_unk5", "scaled3_eos2_unk0", "scaled3_eos2_unk2", "scaled3_eos2_unk5"),
    *("scaled6_eos2_unk2", "scaled6_eos2_unk5"),
)
