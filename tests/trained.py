"""Corpora and models that the tests of the commands share, each made once.

Where pytest-xdist runs several workers, the first that needs one makes it, and the others wait for
it.
"""

import fcntl
import logging
import os
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest
from commands import (
    LAST_ONLY,
    MODEL,
    PAPER,
    SHORTLIST,
    Finished,
    preprocess,
    train,
    write_text,
)
from launchpad import Launchpad, warm

EPOCHS = 7
# wide enough to learn the language in 420 updates
LEARNING = (
    "--arch rnnsearch_tiny --encoder-embed-dim 24 --encoder-hidden-size 48 --decoder-embed-dim 24"
    " --decoder-hidden-size 48 --attention-size 48 --maxout-size 24"
    " --criterion alignment_heatmap --cost-scale sentence --clip-norm 1"
)
Made = TypeVar("Made")


def made_once(tmp_path_factory, name: str, make: Callable[[Path], Made]) -> Made:
    """Return what `make` returns for a folder that all workers share; only one of them calls it."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    result = folder.with_suffix(".pickle")
    with open(folder.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not result.exists():
            result.write_bytes(pickle.dumps(make(folder)))
    return pickle.loads(result.read_bytes())


@dataclass(frozen=True)
class Corpus:
    """Text and what fairseq-preprocess has made of it."""

    text: Path
    data: Path
    preprocessing: Finished


@dataclass(frozen=True)
class Trained:
    """A training that went to its end, and its data."""

    corpus: Corpus
    folder: Path
    training: Finished
    epochs: int

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint_last.pt"


def _corpus(folder: Path, *more: object, **sizes: int) -> Corpus:
    text = write_text(folder / "text", **sizes)
    return Corpus(text, folder / "data", preprocess(text, folder / "data", *more).ok())


def _learned(folder: Path, *preprocessing: str, batch_size: int = 10, drawn: int = 4) -> Trained:
    corpus = _corpus(folder, *preprocessing, train=600, valid=50, test=60)
    training = train(
        corpus.data,
        folder / "model",
        LEARNING,
        "--optimizer adam --lr 0.02 --lr-scheduler polynomial_decay",
        f"--total-num-update {600 * EPOCHS // batch_size} --batch-size {batch_size}",
        f"--max-epoch {EPOCHS} --keep-last-epochs 2 --heatmap-samples {drawn}",
    )
    return Trained(corpus, folder / "model", training.ok(), EPOCHS)


@pytest.fixture(scope="session")
def learned(tmp_path_factory) -> Trained:
    """A model that translates the counting language."""
    return made_once(tmp_path_factory, "learned", _learned)


@pytest.fixture(scope="session")
def learned_shortlist(tmp_path_factory) -> Trained:
    """A model with a shortlist of ten words a side, which produces unknown words.

    210 updates suffice, because no test asks how well it translates.
    """
    shortlist = f"--nwordssrc {SHORTLIST} --nwordstgt {SHORTLIST}"
    options = {"batch_size": 20, "drawn": 0}
    return made_once(
        tmp_path_factory, "shortlist", lambda folder: _learned(folder, shortlist, **options)
    )


@pytest.fixture(scope="session")
def small_corpus(tmp_path_factory) -> Corpus:
    """103 training pairs: six batches of twenty, the last of three."""
    return made_once(
        tmp_path_factory, "small", lambda folder: _corpus(folder, train=103, valid=11, test=13)
    )


@pytest.fixture(scope="session")
def barely_trained(tmp_path_factory, small_corpus) -> Trained:
    """A model that has seen two batches: good enough for what does not depend on the model."""

    def make(folder: Path) -> Trained:
        training = train(small_corpus.data, folder, f"{MODEL} {PAPER} {LAST_ONLY} --max-update 2")
        return Trained(small_corpus, folder, training.ok(), epochs=1)

    return made_once(tmp_path_factory, "barely", make)


@pytest.fixture(scope="session")
def launchpad() -> Launchpad:
    """Where commands begin without importing everything anew."""
    return warm()


@pytest.fixture(name="train")
def train_in_this_process(small_corpus, caplog):
    """A function that trains in a folder with options, and returns what was logged."""
    from trainings import train_here  # imports fairseq, which some test files do without

    caplog.set_level(logging.INFO)

    def train(folder: Path, **options: object) -> str:
        caplog.clear()
        train_here(small_corpus.data, folder, **options)
        return caplog.text

    return train


@pytest.fixture
def patched():
    """What is replaced while a checkpoint is read, in commands and in `load`."""
    from fairseq_rnnsearch.runs import patches

    with patches.reading_as_data():
        yield
