"""The options with which `aer` and `symmetrise` read files of links."""

import argparse
import sys
from pathlib import Path

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.evaluation import links
from fairseq_rnnsearch.evaluation.symmetrisation import symmetrise


def add_reading(parser: argparse.ArgumentParser, files: tuple[str, ...]) -> None:
    parser.add_argument(
        "--reverse",
        nargs="+",
        choices=files,
        default=[],
        help="files whose links have the target word first; a model of the other direction "
        "writes its own source first, which is our target: --reverse inverse",
    )
    for number, word in enumerate(("zero", "one")):
        parser.add_argument(
            f"--{word}-based",
            nargs="+",
            choices=files,
            default=[],
            help=f"files whose words count from {number}, whatever their format says",
        )
    parser.add_argument(
        "--source",
        type=Path,
        metavar="FILE",
        help="the tokenised source sentences: every link is checked against their words",
    )
    parser.add_argument(
        "--target", type=Path, metavar="FILE", help="the tokenised target sentences"
    )


def read(
    options: argparse.Namespace, paths: dict[str, Path], formats: dict[str, str]
) -> dict[str, links.LinkFile]:
    """The files as the options say to read them."""
    for option in ("reverse", "zero_based", "one_based"):
        for name in getattr(options, option):
            if name not in paths:
                raise UserError(
                    f"--{option.replace('_', '-')} {name}: there is no such file; valid:"
                    f" {', '.join(paths)}"
                )
    if both := set(options.zero_based) & set(options.one_based):
        raise UserError(f"--zero-based and --one-based both name {', '.join(sorted(both))}")
    if (options.source is None) != (options.target is None):
        raise UserError("--source and --target belong together: give both or neither")
    pairs = options.source and links.read_sentence_pairs(options.source, options.target)

    files = {}
    for name, path in paths.items():
        first_word = 0 if name in options.zero_based else 1 if name in options.one_based else None
        file = links.read_links(path, formats[name], first_word, name in options.reverse, pairs)
        if first_word is None:
            _warn_if_it_seems_to_count_from_1(name, file)
        files[name] = file
    return files


def joined(
    forward: links.LinkFile, inverse: links.LinkFile, method: str
) -> list[frozenset[links.Link]]:
    return [
        symmetrise(there, back, method)
        for there, back in zip(forward.links, inverse.links, strict=True)
    ]


def _warn_if_it_seems_to_count_from_1(name: str, file: links.LinkFile) -> None:
    """The commonest mistake of all, and one that no number would show."""
    words = [word for sentence in file.links for link in sentence for word in link]
    if file.first_word == 0 and words and min(words) > 0:
        print(
            f"fairseq_rnnsearch: note: {file.path}: no link has a word 0; if its words count from"
            f" 1, say --one-based {name}",
            file=sys.stderr,
        )
