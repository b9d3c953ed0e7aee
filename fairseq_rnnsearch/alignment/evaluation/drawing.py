"""`alignments`: chosen alignments as pictures, the paper's Figure 3."""

import argparse
import re
from pathlib import Path

from fairseq_rnnsearch.alignment.evaluation.subcommands import add_file
from fairseq_rnnsearch.alignment.figures import (
    STYLES,
    Alignment,
    Look,
    parse_formats,
    read_alignments,
    write_gallery,
)
from fairseq_rnnsearch.command_line import usage
from fairseq_rnnsearch.errors import UsageError, UserError


def add_alignment_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `alignments`."""
    add_file(parser, "--alignments", "the jsonl", required=True)
    parser.add_argument("--ids", required=True, metavar="3,17", help="sentence numbers, from 0")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--format", default="svg", help="as for --heatmap-format (%(default)s)")
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
    with usage():
        formats = parse_formats(options.format)
    inputs = [("--alignments", options.alignments)]
    write_gallery(options.out, chosen, formats, look=look, inputs=inputs)


def parse_ids(text: str, count: int | None, option: str) -> list[int]:
    """Read sentence numbers such as ``"3,17"``, which count from 0 as everywhere.

    Args:
        text: the option's value.
        count: the number of sentences, if it is known.
        option: the option's name, for the message.

    Raises:
        UsageError: if the text is anything else, or a number is out of range.
    """
    ids: list[int] = []
    for part in text.split(","):
        if not re.fullmatch(r"\s*[0-9]{1,12}\s*", part):
            raise UsageError(f"{option} {text!r}: must be sentence numbers, from 0, such as 3,17")
        ids.append(int(part))
        if count is not None and ids[-1] >= count:
            raise UsageError(f"{option}: there is no sentence {ids[-1]}; valid: 0 to {count - 1}")
    return list(dict.fromkeys(ids))


def chosen_alignments(path: Path, ids: str, option: str) -> list[Alignment]:
    """Read some of the alignments that fairseq-generate wrote with ``--heatmap-format jsonl``.

    Args:
        path: the file.
        ids: sentence numbers such as ``"3,17"``.
        option: the name of the option with the numbers, for the message.

    Raises:
        UserError: if a number is malformed, is not in the file, or belongs to a sentence with an
            empty side; and as `read_alignments`.
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
