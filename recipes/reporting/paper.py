"""What the paper measured, each value with its place, and which of its rows stands beside ours.

Bahdanau, Cho and Bengio, ICLR 2015. Figure 2 is printed without numbers and is not read off here.
"""

import argparse
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fairseq_rnnsearch.errors import UserError
from reporting.options import add_list, check_names, named_values

BLEU = {
    "RNNencdec-30": (13.93, 24.19),
    "RNNsearch-30": (21.50, 31.44),
    "RNNencdec-50": (17.82, 26.71),
    "RNNsearch-50": (26.75, 34.16),
    "RNNsearch-50*": (28.45, 36.15),
    "Moses": (33.30, 35.63),
}
"""Table 1, section 5.1: BLEU on all of newstest2014 and on its sentences without unknown words."""

REPRODUCTION_NAME = "Berard 2018"

REPRODUCTION = {
    "RNNsearch-50*": 29.2,
    "RNNsearch-50*, UNK by dictionary": 31.1,
    "RNNsearch-50*, Adam": 29.9,
    "RNNsearch-50*, Adam, joint BPE": 34.7,
}
"""The paper's experiment, repeated by others: tokenised BLEU on all of newstest2014.

A. Berard, PhD thesis, Lille 2018, Table 4.6. The first row is an exact copy with Adadelta, of which
the second has the unknown words replaced.
"""

ACCEPTED = 1.0
"""BLEU by which a faithful RNNsearch-50* may differ from the reproduction."""


@dataclass(frozen=True)
class LearningStatistics:
    """A row of Table 2, appendix B.2."""

    updates: int
    epochs: float
    hours: int
    device: str
    train_nats: float
    """Negative log-likelihood of a training sentence, as `valid_nats` of a development sentence."""
    valid_nats: float


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


def row_named(name: str, rows: Iterable[str] = BLEU) -> str | None:
    """Find the row of this name, written as freely as `rnnsearch_50` or `RNNenc-50`."""
    return {_plain(row): row for row in rows}.get(_plain(name))


def _plain(name: str) -> str:
    plain = re.sub(r"[^a-z0-9*]", "", name.lower().replace("⋆", "*"))
    return re.sub(r"^rnnenc(?!dec)", "rnnencdec", plain)


def is_its_test_set(sentences: Iterable[str]) -> bool:
    """Tell whether sentences hold those of Table 3, and so are the source of newstest2014."""
    long_sentences = set(map(letters, LONG_SENTENCES))
    return long_sentences <= set(map(letters, sentences))


def letters(sentence: str) -> str:
    """Leave out what tokenisation changes: blanks, punctuation and case."""
    sentence = re.sub(r"&\w+;|&#\d+;", "", sentence)  # Moses' tokeniser writes &quot; and &apos;
    return re.sub(r"[\W_]", "", sentence).lower()


@dataclass(frozen=True)
class PaperRows:
    """What of the paper's tables is shown.

    Attributes:
        beside: the paper's row beside each system, or None.
        further: whether the rows without a counterpart are shown below.
        is_its_test_set: whether the systems' scores are of newstest2014, as the paper's are.
    """

    beside: Mapping[str, str | None]
    further: bool = False
    is_its_test_set: bool = False

    @property
    def are_shown(self) -> bool:
        """Whether anything of the paper's is shown."""
        return self.further or any(self.beside.values())

    def without_counterpart(self, rows: Iterable[str]) -> list[str]:
        """Return those of the paper's rows that stand below, in their order."""
        return [row for row in rows if self.further and row not in self.beside.values()]

    def reproduction(self, name: str) -> float | None:
        """Return what the reproduction has for a system, by its paper's row or by its name."""
        row = self.beside.get(name) or (row_named(name, REPRODUCTION) if self.further else None)
        return REPRODUCTION.get(row) if row else None

    def reproductions_without_counterpart(self) -> list[str]:
        """Return those rows of the reproduction alone that stand below the paper's."""
        counterparts = {row_named(name, REPRODUCTION) for name in self.beside}
        return [row for row in REPRODUCTION if self.further and row not in (*BLEU, *counterparts)]

    def verdict(self, name: str, bleu: float) -> str | None:
        """Say whether the BLEU of newstest2014 of a system is that of a faithful RNNsearch-50*.

        It returns None for other systems.
        """
        row = "RNNsearch-50*"
        if self.beside[name] != row:
            return None
        distance = round(bleu - REPRODUCTION[row], 2)
        band = f"{REPRODUCTION[row]} ± {ACCEPTED:g}, {REPRODUCTION_NAME}'s exact copy"
        band += " (with beam 8 and scores divided by length)"
        if abs(distance) <= ACCEPTED:
            return f"{name}: {bleu:.2f} lies within {band}."
        side = "above" if distance > 0 else "below"
        return f"{name}: {bleu:.2f} lies {abs(distance) - ACCEPTED:.2f} {side} {band}."


def add_paper(parser: argparse.ArgumentParser) -> None:
    """Add the options that `rows_beside` reads."""
    parser.add_argument(
        "--paper-rows",
        choices=("auto", "show", "hide"),
        default="auto",
        help="the paper's values, which are of newstest2014, English to French: show them, hide"
        " them, or show them where that is the test set (default: %(default)s)",
    )
    add_list(
        parser,
        "--paper",
        "NAME=ROW",
        "the paper's row to put beside a system whatever the test set, or none (default, where they"
        f" are shown: the row of the same name; rows: {', '.join(BLEU)})",
    )


def rows_beside(
    options: argparse.Namespace, names: Sequence[str], is_its_test_set: bool = False
) -> PaperRows:
    """Return what of the paper's tables is shown beside and below these names.

    Raises:
        UserError: the options name something that is no system, or a row that the paper lacks.
    """
    given = named_values(options.paper, "--paper")
    check_names(given, names, "--paper")
    for name, row in given.items():
        if row not in (*BLEU, "none"):
            raise UserError(
                f"--paper {name}={row}: the paper has no such row; valid: {', '.join(BLEU)}, none"
            )
    shown = {"auto": is_its_test_set, "show": True, "hide": False}[options.paper_rows]
    rows = {name: given.get(name) or (row_named(name) if shown else None) for name in names}
    beside = {name: None if row == "none" else row for name, row in rows.items()}
    return PaperRows(beside, shown, is_its_test_set)
