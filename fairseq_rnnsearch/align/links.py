"""Links between words, which may be in files of three formats.

Formats, named as `--format` takes them:

    naacl     One link a line: `sentence i j`, then optionally `S` (sure, the default) or `P`
              (possible), then optionally a confidence, which is not used. Everything counts
              from 1; the workshop's files pad the sentence number, as in `0001 3 2 P`. A sentence
              without links has no line. A word 0 stands for "no word": the workshop published its
              gold with such null links and without. Scores are usually reported without them, so
              null links are left out on both sides and counted.
    talp      One sentence a line: `3-2` sure, `3p2` possible, words from 1.
    pharaoh   One sentence a line: `2-1`, words from 0, all links sure.

`auto` takes a file for naacl if its first word is a number alone, for talp if any link has a `p`,
else for pharaoh. So name the format of a talp file with only sure links: its words count from 1.
"""

import argparse
import functools
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from fairseq_rnnsearch.errors import UserError, pluralize
from fairseq_rnnsearch.text.corpus import text_lines

Link = tuple[int, int]  # source word and target word, from 0

_VALID = {
    "naacl": "a line `sentence i j` in whole numbers, then S or P and a confidence if wanted",
    "talp": "links like 3-2 (sure) and 3p2 (possible) with blanks between them",
    "pharaoh": "links like 3-2 with blanks between them",
}
# A minus sign is read so that the message can quote the number. Seven digits are plenty.
_WHOLE = r"(?:-0*(?=[1-9]))?[0-9]{1,7}"
_PAIR = re.compile(rf"({_WHOLE})([-p])({_WHOLE})(?::[0-9.]+)?")  # a score is not used
_POSSIBLE_PAIR = re.compile(f"{_WHOLE}p{_WHOLE}")
_NUMBER = re.compile(_WHOLE)
_PHARAOH = re.compile(r"\s*(?:[0-9]{1,7}-[0-9]{1,7}(?:\s+|$))*", re.ASCII)
_CONFIDENCE = re.compile(r"[0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?")


@dataclass(frozen=True)
class SentenceLinks:
    """The links of one sentence pair: the sure ones, and all, as these are possible too."""

    sure: frozenset[Link] = frozenset()
    possible: frozenset[Link] = frozenset()


@dataclass(frozen=True)
class LinkFile:
    """What a file of links holds.

    Attributes:
        first_word: the number that the file gives to the first word of a sentence, 0 or 1.
        null_links: the number of omitted links to no word (naacl only).
    """

    path: Path
    format: str
    first_word: int
    sentences: tuple[SentenceLinks, ...]
    null_links: int

    @property
    def links(self) -> list[frozenset[Link]]:
        """Return each sentence's links, sure or not, as all of a hypothesis's links count."""
        return [sentence.possible for sentence in self.sentences]


class _Entry(NamedTuple):
    """A link as it stands in the file, but for the sentence's number, which counts from 0."""

    line: int
    sentence: int
    words: tuple[int, int]
    sure: bool
    text: str


def read_links(
    path: Path, format: str = "auto", first_word: int | None = None, reverse: bool = False
) -> LinkFile:
    """Read a file of links.

    A link given twice counts once; given as sure and as possible, it is sure.

    Args:
        path: the file.
        format: one of `FORMATS`, or "auto" to see from the file.
        first_word: 0 or 1, where the file does not count as its format does.
        reverse: the target word stands first in the file's links.

    Raises:
        UserError: the file cannot be read, a link is malformed, or a word lies below the file's
            first word.
    """
    path = Path(path)
    lines = list(text_lines(path))
    if format == "auto":
        format = _format_of(lines)
    if first_word is None:
        first_word = 0 if format == "pharaoh" else 1
    elif format == "naacl" and first_word != 1:
        raise UserError(f"{path} is a naacl file; its words count from 1, 0 is not a word at all")
    entries = list(FORMATS[format](path, lines))
    count = len(lines)
    if format == "naacl":
        count = max((entry.sentence + 1 for entry in entries), default=0)

    # A naacl file may number its sentences as it likes: only those with links take memory.
    sure: defaultdict[int, set[Link]] = defaultdict(set)
    possible: defaultdict[int, set[Link]] = defaultdict(set)
    null_links = 0
    for entry in entries:
        if format == "naacl" and 0 in entry.words and min(entry.words) >= 0:
            null_links += 1
            continue
        link = _from_0(path, format, first_word, entry)
        link = link[::-1] if reverse else link
        possible[entry.sentence].add(link)
        if entry.sure:
            sure[entry.sentence].add(link)
    none = SentenceLinks()
    sentences = tuple(
        SentenceLinks(frozenset(sure[i]), frozenset(possible[i])) if i in possible else none
        for i in range(count)
    )
    return LinkFile(path, format, first_word, sentences, null_links)


def same_sentences(file: LinkFile, count: int, other: Path) -> LinkFile:
    """Return the file with that number of sentences; naacl files do not show empty ones at their
    end.

    Raises:
        UserError: if a naacl file has more sentences, or another file more or fewer.
    """
    in_file = len(file.sentences)
    if in_file == count:
        return file
    if file.format == "naacl" and in_file < count:
        return replace(file, sentences=file.sentences + (SentenceLinks(),) * (count - in_file))
    what = f"links of sentence {in_file}" if file.format == "naacl" else pluralize(in_file, "line")
    raise UserError(
        f"{file.path} has {what}, but {other} has {pluralize(count, 'sentence')}; expected a file"
        " of the same sentences, with an empty line (in naacl: no line) for one without links"
    )


def pharaoh_words(name: str, number: int, line: str) -> list[int]:
    """Return the words of a line of links like 3-2, the source's and the target's in turn.

    Raises:
        UserError: with the file's name and the line's number, if it has anything else.
    """
    if not _PHARAOH.fullmatch(line):
        wrong = next(word for word in line.split() if not _PHARAOH.fullmatch(word))
        raise _malformed(name, number, wrong, "pharaoh")
    return list(map(int, line.replace("-", " ").split()))


def _format_of(lines: Sequence[str]) -> str:
    first_line = next((line.split() for line in lines if line.strip()), [""])
    if _NUMBER.fullmatch(first_line[0]):
        return "naacl"
    if any(_POSSIBLE_PAIR.fullmatch(word) for line in lines for word in line.split()):
        return "talp"
    return "pharaoh"


def _line_entries(path: Path, lines: Sequence[str], format: str) -> Iterator[_Entry]:
    for i, line in enumerate(lines):
        for text in line.split():
            parts = _PAIR.fullmatch(text)
            if not parts or (format == "pharaoh" and parts[2] == "p"):
                raise _malformed(path, i + 1, text, format)
            yield _Entry(i + 1, i, (int(parts[1]), int(parts[3])), parts[2] == "-", text)


def _naacl_entries(path: Path, lines: Sequence[str]) -> Iterator[_Entry]:
    for i, line in enumerate(lines):
        fields = line.split()
        if not fields:
            continue
        numbers, rest = fields[:3], fields[3:]
        sure = True
        if rest and rest[0] in ("S", "P"):
            sure = rest.pop(0) == "S"
        if rest and _CONFIDENCE.fullmatch(rest[0]):
            rest.pop(0)
        if rest or len(numbers) < 3 or not all(map(_NUMBER.fullmatch, numbers)):
            raise _malformed(path, i + 1, line.strip(), "naacl")
        sentence, *words = map(int, numbers)
        if sentence < 1:
            raise UserError(
                f"{path}, line {i + 1}: found sentence {sentence} in {line.strip()!r:.60};"
                " sentences count from 1"
            )
        yield _Entry(i + 1, sentence - 1, (words[0], words[1]), sure, line.strip())


def _malformed(path: Path | str, line: int, text: str, format: str) -> UserError:
    hint = "; links like 3p2 are format talp" if _POSSIBLE_PAIR.fullmatch(text) else ""
    return UserError(
        f"{path}, line {line}: found {text!r:.60}; valid in format {format} is {_VALID[format]}"
        f"{hint}"
    )


def _from_0(path: Path, format: str, first_word: int, entry: _Entry) -> Link:
    """Return the link counted from 0."""
    if min(entry.words) < first_word:
        counts_from_0 = format != "naacl" and min(entry.words) == 0
        hint = " (a file that counts from 0 is named in --zero-based)" * counts_from_0
        raise UserError(
            f"{path}, line {entry.line}: found word {min(entry.words)} in {entry.text!r:.60};"
            f" words count from {first_word} here{hint}"
        )
    return entry.words[0] - first_word, entry.words[1] - first_word


FORMATS: dict[str, Callable[[Path, Sequence[str]], Iterator[_Entry]]] = {
    "naacl": _naacl_entries,
    "talp": functools.partial(_line_entries, format="talp"),
    "pharaoh": functools.partial(_line_entries, format="pharaoh"),
}


# --- options --------------------------------------------------------------------------------------


def add_format(parser: argparse.ArgumentParser, option: str, files: str) -> None:
    """Add an option that names the format of some of the files."""
    parser.add_argument(
        option,
        choices=("auto", *FORMATS),
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


def read_link_files(
    options: argparse.Namespace, paths: dict[str, Path], formats: dict[str, str]
) -> dict[str, LinkFile]:
    """Read files of links as the options say.

    Args:
        options: from `add_reading`.
        paths, formats: the files and their formats, by the names that `add_reading` took.
    """
    files = {}
    for name, path in paths.items():
        first_word = 0 if name in options.zero_based else 1 if name in options.one_based else None
        file = read_links(path, formats[name], first_word, name in options.reverse)
        if first_word is None:
            _warn_if_it_seems_to_count_from_1(name, file)
        files[name] = file
    if "inverse" in files and "inverse" not in options.reverse:
        forward = files.get("forward") or files["hypothesis"]
        _warn_if_it_seems_reversed(forward, files["inverse"])
    return files


def _warn_if_it_seems_reversed(forward: LinkFile, inverse: LinkFile) -> None:
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


def _warn_if_it_seems_to_count_from_1(name: str, file: LinkFile) -> None:
    """Warn about the most common mistake, which no number would reveal."""
    words = [word for sentence in file.links for link in sentence for word in link]
    if file.first_word == 0 and words and min(words) > 0:
        print(
            f"fairseq_rnnsearch: note: {file.path}: no link has a word 0; if its words count from"
            f" 1, say --one-based {name}",
            file=sys.stderr,
        )
