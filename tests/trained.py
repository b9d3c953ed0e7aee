"""Corpora and models that the tests of the commands share, each made once.

A test module takes these fixtures with ``pytest_plugins = ["trained"]``.
"""

from dataclasses import dataclass
from pathlib import Path

import pytest
from commands import (
    LAST_ONLY,
    MODEL,
    PAPER,
    SHORTLIST,
    Finished,
    preprocess,
    together,
    train,
    write_text,
)
from launchpad import Launchpad, warm

EPOCHS = 20


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


def _learned(corpus: Corpus, folder: Path) -> Trained:
    return Trained(
        corpus,
        folder,
        train(
            corpus.data,
            folder,
            f"{MODEL} --criterion alignment_heatmap --cost-scale sentence --clip-norm 1",
            "--optimizer adam --lr 0.01 --lr-scheduler polynomial_decay --total-num-update 1200",
            f"--batch-size 10 --max-epoch {EPOCHS} --keep-last-epochs 2",
        ).ok(),
        EPOCHS,
    )


@pytest.fixture(scope="session")
def everything_learned(tmp_path_factory) -> tuple[Trained, Trained]:
    """Trainings with all words and with a shortlist of ten a side, at the same time."""
    folder = tmp_path_factory.mktemp("learned")

    def learn(name: str, *more: str) -> Trained:
        corpus = _corpus(folder / name, *more, train=600, valid=50, test=60)
        return _learned(corpus, folder / name / "model")

    shortlist = f"--nwordssrc {SHORTLIST} --nwordstgt {SHORTLIST}"
    return tuple(together(lambda: learn("full"), lambda: learn("shortlist", shortlist)))


@pytest.fixture(scope="session")
def learned(everything_learned) -> Trained:
    """A model that translates the counting language."""
    return everything_learned[0]


@pytest.fixture(scope="session")
def learned_shortlist(everything_learned) -> Trained:
    """A model that produces unknown words."""
    return everything_learned[1]


@pytest.fixture(scope="session")
def small_corpus(tmp_path_factory) -> Corpus:
    """103 training pairs: six batches of twenty, the last of three."""
    return _corpus(tmp_path_factory.mktemp("small"), train=103, valid=11, test=13)


@pytest.fixture(scope="session")
def barely_trained(tmp_path_factory, small_corpus) -> Trained:
    """A model that has seen two batches: good enough for what does not depend on the model."""
    folder = tmp_path_factory.mktemp("barely") / "model"
    training = train(small_corpus.data, folder, f"{MODEL} {PAPER} {LAST_ONLY} --max-update 2")
    return Trained(small_corpus, folder, training.ok(), epochs=1)


@pytest.fixture(scope="session")
def launchpad() -> Launchpad:
    """Where commands begin without importing everything anew."""
    return warm()
