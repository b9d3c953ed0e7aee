"""Chosen sentences: side by side, the paper's Table 3; their alignments, its Figure 3."""

import re
from collections.abc import Sequence
from pathlib import Path

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.evaluation import paper
from fairseq_rnnsearch.evaluation.tables import Column, Row, Table
from fairseq_rnnsearch.evaluation.texts import System, TestSet
from fairseq_rnnsearch.figures import Alignment, read_alignments

_FEW = 3  # as in the paper's Table 3


def parse_ids(text: str, count: int | None, option: str) -> list[int]:
    """``"3,17"`` to sentence numbers, which count from 0 as everywhere.

    Args:
        text: the option's value.
        count: of sentences, if it is known.
        option: for the message.

    Raises:
        UserError: anything else, or a number that no sentence has.
    """
    ids = []
    for part in text.split(","):
        if not re.fullmatch(r"\s*[0-9]{1,12}\s*", part):
            raise UserError(f"{option} {text!r}: must be sentence numbers, from 0, such as 3,17")
        ids.append(int(part))
        if count is not None and ids[-1] >= count:
            raise UserError(f"{option}: there is no sentence {ids[-1]}; valid are 0 to {count - 1}")
    return ids


def parse_ids_or_choose(text: str | None, test: TestSet) -> list[int]:
    """The sentences of ``--examples``, or else those of `choose`."""
    return choose(test) if text is None else parse_ids(text, len(test.source), "--examples")


def choose(test: TestSet) -> list[int]:
    """The paper's three sentences where the test set has them, or its first long ones."""
    theirs = {_letters(sentence) for sentence in paper.LONG_SENTENCES}
    sources = test.detokenised_source or test.source
    found = [number for number, source in enumerate(sources) if _letters(source) in theirs]
    if found:
        return found
    long = (test.lengths() >= paper.LONG_SENTENCE).nonzero()[0]
    return [int(number) for number in long[:_FEW]]


def chosen_alignments(path: Path, ids: str, option: str) -> list[Alignment]:
    """Some of the alignments that fairseq-generate wrote with ``--heatmap-format jsonl``.

    Raises:
        UserError: ids that are none, that the file does not have, or whose sentence has no words
            on a side; and as `figures.read_alignments`.
    """
    alignments = read_alignments(path)
    chosen = []
    for number in parse_ids(ids, None, option):
        if number not in alignments:
            raise UserError(
                f"{option}: {path} has no sentence {number}; its {len(alignments)} sentences are"
                f" between {min(alignments)} and {max(alignments)}"
            )
        chosen.append(alignments[number])
        if not chosen[-1].weights.size:
            raise UserError(f"{option}: sentence {number} of {path} has no words to draw")
    return chosen


def tables(test: TestSet, systems: Sequence[System], ids: Sequence[int]) -> list[Table]:
    """A table for each sentence: source, reference, and every system's translation.

    Each line is shown detokenised where that text was given.
    """
    sources = test.detokenised_source or test.source
    references = test.detokenised_reference or test.reference
    lengths = test.lengths()
    columns = (Column("", numeric=False, kind="minor"), Column("", numeric=False))
    return [
        Table(
            columns,
            (
                Row(("Source", sources[number])),
                Row(("Reference", references[number])),
                *(
                    Row((system.name, (system.detokenised or system.tokens)[number]))
                    for system in systems
                ),
            ),
            title=f"Sentence {number}, {lengths[number]} source words",
            prose=True,
        )
        for number in ids
    ]


def _letters(sentence: str) -> str:
    """Without what tokenisation changes: blanks and punctuation."""
    sentence = re.sub(r"&\w+;|&#\d+;", "", sentence)  # Moses' tokeniser writes &quot; and &apos;
    return re.sub(r"[\W_]", "", sentence).lower()
