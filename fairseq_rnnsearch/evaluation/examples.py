"""`examples` and `alignments`: chosen sentences side by side, the paper's Table 3, and their
alignments as pictures, its Figure 3."""

import argparse
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.evaluation import paper
from fairseq_rnnsearch.evaluation.command_line import add_file
from fairseq_rnnsearch.evaluation.tables import Column, Table, markdown
from fairseq_rnnsearch.evaluation.texts import System, TestSet, add_texts, read_texts
from fairseq_rnnsearch.figures import (
    STYLES,
    Alignment,
    Look,
    parse_formats,
    read_alignments,
    write_gallery,
)

_FEW = 3  # sentences, as in the paper's Table 3


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `examples`."""
    add_texts(parser)
    add_choice(parser)


def add_choice(parser: argparse.ArgumentParser) -> None:
    """Add the option that `read_choice` reads."""
    parser.add_argument(
        "--examples",
        metavar="3,17",
        help="sentence numbers, from 0 (default: the paper's three sentences, where the source has"
        " them, or else the first three of 30 words or more)",
    )


def run(options: argparse.Namespace) -> None:
    """Print source, reference and every system's translation of chosen sentences (Table 3)."""
    test, systems = read_texts(options)
    print("\n\n".join(map(markdown, example_tables(test, systems, read_choice(options, test)))))


def add_alignment_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `alignments`."""
    add_file(parser, "--alignments", "the jsonl", required=True)
    parser.add_argument("--ids", required=True, metavar="3,17", help="sentence numbers, from 0")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--format", default="svg", help="as of --heatmap-format (%(default)s)")
    parser.add_argument(
        "--style",
        choices=tuple(STYLES),
        default="paper",
        help="white on black, black on white, or large for a slide (%(default)s)",
    )


def draw_alignments(options: argparse.Namespace) -> None:
    """Draw chosen alignments that fairseq-generate wrote with --heatmap-format jsonl (Figure 3)."""
    chosen = chosen_alignments(options.alignments, options.ids, "--ids")
    look = Look(options.style, f"Alignments of {options.alignments}")
    write_gallery(options.out, chosen, parse_formats(options.format), look=look)


# --- the choice ---------------------------------------------------------------------------------


def parse_ids(text: str, count: int | None, option: str) -> list[int]:
    """Read sentence numbers such as ``"3,17"``, which count from 0 as everywhere.

    Args:
        text: the option's value.
        count: the number of sentences, if it is known.
        option: the option's name, for the message.

    Raises:
        UserError: the text is anything else, or has a number that no sentence has.
    """
    ids = []
    for part in text.split(","):
        if not re.fullmatch(r"\s*[0-9]{1,12}\s*", part):
            raise UserError(f"{option} {text!r}: must be sentence numbers, from 0, such as 3,17")
        ids.append(int(part))
        if count is not None and ids[-1] >= count:
            raise UserError(f"{option}: there is no sentence {ids[-1]}; valid are 0 to {count - 1}")
    return ids


def read_choice(options: argparse.Namespace, test: TestSet) -> list[int]:
    """Return the sentences of ``--examples``; without it, the paper's three sentences where the
    test set has them, or its first long ones.

    Raises:
        UserError: as `parse_ids`.
    """
    if options.examples is not None:
        return parse_ids(options.examples, len(test.source["tokens"]), "--examples")
    theirs = set(map(paper.letters, paper.LONG_SENTENCES))
    source = map(paper.letters, _shown(test.source))
    found = [number for number, sentence in enumerate(source) if sentence in theirs]
    if found:
        return found
    return (test.lengths() >= paper.LONG_SENTENCE).nonzero()[0][:_FEW].tolist()


def chosen_alignments(path: Path, ids: str, option: str) -> list[Alignment]:
    """Read some of the alignments that fairseq-generate wrote with ``--heatmap-format jsonl``.

    Args:
        path: the file.
        ids: sentence numbers such as ``"3,17"``.
        option: the name of the option with the numbers, for the message.

    Raises:
        UserError: a number is none, is not in the file, or belongs to a sentence without words on
            one side; and as `read_alignments`.
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


# --- the tables ---------------------------------------------------------------------------------


def example_tables(test: TestSet, systems: Sequence[System], ids: Sequence[int]) -> list[Table]:
    """Make a table for each sentence: source, reference, and every system's translation.

    Each line is shown detokenised where that text was given.
    """
    lengths = test.lengths()
    who, what = Column("", numeric=False, kind="minor"), Column("", numeric=False)
    lines = [("Source", _shown(test.source))]
    references = _shown(test.references)
    for place, reference in enumerate(references, start=1):
        lines.append(("Reference" if len(references) == 1 else f"Reference {place}", reference))
    lines += [(system.name, _shown(system.translations)) for system in systems]
    return [
        Table(
            [{who: name, what: text[number]} for name, text in lines],
            title=f"Sentence {number}, {lengths[number]} source words",
            prose=True,
        )
        for number in ids
    ]


def _shown(texts: Mapping[str, list]) -> list:
    """Return the detokenised text where it was given, or else the tokens."""
    return texts.get("detokenised", texts["tokens"])
