"""What the paper measured, each value with its place, and which of its rows stands beside ours.

Bahdanau, Cho and Bengio, ICLR 2015. Figure 2 is printed without numbers and is not read off here.
"""

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.evaluation.command_line import add_list, check_names, named_values

NAME = "Bahdanau et al. (2015)"

BLEU = {
    "RNNencdec-30": (13.93, 24.19),
    "RNNsearch-30": (21.50, 31.44),
    "RNNencdec-50": (17.82, 26.71),
    "RNNsearch-50": (26.75, 34.16),
    "RNNsearch-50*": (28.45, 36.15),
    "Moses": (33.30, 35.63),
}
"""Table 1, section 5.1: BLEU on all of newstest2014 and on its sentences without unknown words."""


@dataclass(frozen=True)
class LearningStatistics:
    """A row of Table 2, appendix B.2."""

    updates: int
    epochs: float
    hours: int
    gpu: str
    train_nll: float
    dev_nll: float


TRAINING = {
    "RNNencdec-30": LearningStatistics(846_000, 6.4, 109, "TITAN BLACK", 28.1, 53.0),
    "RNNencdec-50": LearningStatistics(600_000, 4.5, 108, "Quadro K-6000", 44.0, 43.6),
    "RNNsearch-30": LearningStatistics(471_000, 3.6, 113, "TITAN BLACK", 26.7, 47.2),
    "RNNsearch-50": LearningStatistics(288_000, 2.2, 111, "Quadro K-6000", 40.7, 38.1),
    "RNNsearch-50*": LearningStatistics(667_000, 5.0, 252, "Quadro K-6000", 36.7, 35.2),
}
"""Table 2, appendix B.2, where RNNencdec is called RNNenc."""

LONG_SENTENCE = 30
"""Words of the source sentences in Table 3, appendix C: "30 words or more"."""

LONG_SENTENCES = (
    "An admitting privilege is the right of a doctor to admit a patient to a hospital or a medical"
    " centre to carry out a diagnosis or a procedure, based on his status as a health care worker"
    " at a hospital.",
    "This kind of experience is part of Disney's efforts to \"extend the lifetime of its series and"
    " build new relationships with audiences via digital platforms that are becoming ever more"
    ' important," he added.',
    "In a press conference on Thursday, Mr Blair stated that there was nothing in this video that"
    ' might constitute a "reasonable motive" that could lead to criminal charges being brought'
    " against the mayor.",
)
"""The sources of Table 3, appendix C, which are sentences of newstest2014."""

LONGEST_ON_AXIS = 60
"""Figure 2: the axis of the sentence lengths ends there, from 0."""
BLEU_ON_AXIS = 30
"""Figure 2: the axis of the BLEU scores ends there, from 0."""


def row_named(name: str) -> str | None:
    """Find the paper's row of this name, written as freely as `rnnsearch_50` or `RNNenc-50`."""
    return {_plain(row): row for row in BLEU}.get(_plain(name))


def _plain(name: str) -> str:
    plain = re.sub(r"[^a-z0-9*]", "", name.lower().replace("⋆", "*"))
    return re.sub(r"^rnnenc(?!dec)", "rnnencdec", plain)


def add_paper(parser: argparse.ArgumentParser) -> None:
    """Add the option that `rows_beside` reads."""
    add_list(
        parser,
        "--paper",
        "NAME=ROW",
        "the paper's row to put beside a system, or none (default: the row of the same name;"
        f" rows: {', '.join(BLEU)})",
    )


def rows_beside(options: argparse.Namespace, names: Sequence[str]) -> dict[str, str | None]:
    """Return the paper's row that stands beside each name, or None.

    Raises:
        UserError: the option names something that is no system, or a row that the paper lacks.
    """
    given = named_values(options.paper, "--paper")
    check_names(given, names, "--paper")
    for name, row in given.items():
        if row not in (*BLEU, "none"):
            raise UserError(
                f"--paper {name}={row}: the paper has no such row; valid: {', '.join(BLEU)}, none"
            )
    rows = {name: given.get(name) or row_named(name) for name in names}
    return {name: None if row == "none" else row for name, row in rows.items()}
