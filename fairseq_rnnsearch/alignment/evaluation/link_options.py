"""The options with which `aer` and `symmetrise` read files of links."""

import argparse
import sys
from pathlib import Path

from fairseq_rnnsearch.alignment.evaluation import links
from fairseq_rnnsearch.alignment.evaluation.subcommands import add_file, given_together
from fairseq_rnnsearch.errors import UsageError


def add_format(parser: argparse.ArgumentParser, option: str, files: str) -> None:
    """Add an option that names the format of some of the files."""
    parser.add_argument(
        option,
        choices=("auto", *links.FORMATS),
        default="auto",
        help=f"of {files} (default: %(default)s)",
    )


def add_reading(parser: argparse.ArgumentParser, files: tuple[str, ...]) -> None:
    """Add the options that say how to read the files with these names."""
    for option, help in {
        "--reverse": "files whose links have the target word first; a model of the other direction"
        " writes its own source first, which is our target: --reverse inverse",
        "--zero-based": "files whose words count from 0, whatever their format says",
        "--one-based": "files whose words count from 1, whatever their format says",
    }.items():
        parser.add_argument(option, nargs="+", choices=files, default=[], help=help)
    add_file(
        parser,
        "--source",
        "the tokenised source sentences: every link is checked against their words",
    )
    add_file(parser, "--target", "the tokenised target sentences")


def read_link_files(
    options: argparse.Namespace, paths: dict[str, Path], formats: dict[str, str]
) -> dict[str, links.LinkFile]:
    """Read files of links as the options say.

    Args:
        options: from `add_reading`.
        paths, formats: the files and their formats, by option name.

    Raises:
        UsageError: the options contradict each other or name a missing file; and as `read_links`.
    """
    for option, names in {
        "--reverse": options.reverse,
        "--zero-based": options.zero_based,
        "--one-based": options.one_based,
    }.items():
        for name in names:
            if name not in paths:
                raise UsageError(
                    f"{option} {name}: there is no such file; valid: {', '.join(paths)}"
                )
    if both := set(options.zero_based) & set(options.one_based):
        raise UsageError(f"--zero-based and --one-based both name {', '.join(sorted(both))}")
    pairs = None
    if given_together({"--source": options.source, "--target": options.target}):
        pairs = links.read_sentence_pairs(options.source, options.target)

    files = {}
    for name, path in paths.items():
        first_word = 0 if name in options.zero_based else 1 if name in options.one_based else None
        file = links.read_links(path, formats[name], first_word, name in options.reverse, pairs)
        if first_word is None:
            _warn_if_it_seems_to_count_from_1(name, file)
        files[name] = file
    if "inverse" in files and "inverse" not in options.reverse:
        forward = files.get("forward") or files["hypothesis"]
        _warn_if_it_seems_reversed(forward, files["inverse"])
    return files


def _warn_if_it_seems_reversed(forward: links.LinkFile, inverse: links.LinkFile) -> None:
    """Warn if more links of the other direction are in the first one the other way round."""
    pairs = list(zip(forward.links, inverse.links, strict=False))
    same = sum(len(there & back) for there, back in pairs)
    swapped = sum(len(there & {link[::-1] for link in back}) for there, back in pairs)
    if swapped > same:
        print(
            f"fairseq_rnnsearch: note: {inverse.path}: {swapped} of its links are in {forward.path}"
            f" the other way round, and {same} as they are; if its links have the target word"
            " first, say --reverse inverse",
            file=sys.stderr,
        )


def _warn_if_it_seems_to_count_from_1(name: str, file: links.LinkFile) -> None:
    """Warn about the most common mistake, which no number would reveal."""
    words = [word for sentence in file.links for link in sentence for word in link]
    if file.first_word == 0 and words and min(words) > 0:
        print(
            f"fairseq_rnnsearch: note: {file.path}: no link has a word 0; if its words count from"
            f" 1, say --one-based {name}",
            file=sys.stderr,
        )
