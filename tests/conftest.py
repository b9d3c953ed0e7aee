"""Fixtures for the numbers recorded from the authors' program.

They lie outside the repository, in ``shared/`` beside the checkout or where RNNSEARCH_SHARED says.
"""

import os
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture(scope="session")
def groundhog_dir():
    """Directory with params.npz, reference_f64.npz, beam_params.npz and beam_f64.json."""
    named = os.environ.get("RNNSEARCH_SHARED")
    shared = Path(named) if named else Path(__file__).resolve().parents[2] / "shared"
    directory = shared / "groundhog"
    if not directory.is_dir():
        if named:  # asked for by name: skipping would hide the mistake
            pytest.fail(f"RNNSEARCH_SHARED={named!r}: there is no directory {directory}")
        pytest.skip(f"the authors' numbers are not here: no {directory} (set RNNSEARCH_SHARED)")
    return directory


@pytest.fixture(scope="session")
def reference(groundhog_dir):
    """reference_f64.npz as a mapping; an array is read from the file when it is asked for."""
    with np.load(groundhog_dir / "reference_f64.npz") as arrays:
        yield arrays


@pytest.fixture
def groundhog_params(groundhog_dir):
    """The 40 arrays of params.npz in float64, a fresh copy for each test."""
    with np.load(groundhog_dir / "params.npz") as arrays:
        return {name: arrays[name].astype(np.float64) for name in arrays.files}
