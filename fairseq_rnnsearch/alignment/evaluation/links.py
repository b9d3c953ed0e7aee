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

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from fairseq_rnnsearch.errors import UserError, counted
from fairseq_rnnsearch.files import text_lines

Link = tuple[int, int]
"""Source word and target word, from 0."""

FORMATS = ("naacl", "talp", "pharaoh")
_VALID = {
    "naacl": "a line `sentence i j` in whole numbers, then S or P and a confidence if wanted",
    "talp": "links like 3-2 (sure) and 3p2 (possible) with blanks between them",
    "pharaoh": "links like 3-2 with blanks between them",
}
# A minus sign is read so that the message can quote the number. Seven digits are plenty.
_WHOLE = r"(?:-0*(?=[1-9]))?[0-9]{1,7}"
_PAIR = re.compile(f"({_WHOLE})([-p])({_WHOLE})")
_POSSIBLE_PAIR = re.compile(f"{_WHOLE}p{_WHOLE}")
_NUMBER = re.compile(_WHOLE)
_CONFIDENCE = re.compile(r"[0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?")


@dataclass(frozen=True)
class SentenceLinks:
    """The links of one sentence pair."""

    sure: frozenset[Link] = frozenset()
    possible: frozenset[Link] = frozenset()
    """All links: the sure ones are possible too."""


@dataclass(frozen=True)
class LinkFile:
    """What a file of links holds."""

    path: Path
    format: str
    first_word: int
    """The number that the file gives to the first word of a sentence, 0 or 1."""
    sentences: tuple[SentenceLinks, ...]
    null_links: int
    """The number of omitted links to no word (naacl only)."""

    @property
    def links(self) -> list[frozenset[Link]]:
        """Return each sentence's links, sure or not, as all of a hypothesis's links count."""
        return [sentence.possible for sentence in self.sentences]


@dataclass(frozen=True)
class SentencePairs:
    """The lengths of the sentences that links join."""

    source: Path
    target: Path
    words: tuple[tuple[int, int], ...]
    """The numbers of words of the source and of the target sentence, for each pair."""


class _Entry(NamedTuple):
    """A link as it stands in the file."""

    line: int
    sentence: int
    """The sentence's number, from 0."""
    words: tuple[int, int]
    sure: bool
    text: str


def read_links(
    path: Path,
    format: str = "auto",
    first_word: int | None = None,
    reverse: bool = False,
    pairs: SentencePairs | None = None,
) -> LinkFile:
    """Read a file of links.

    A link given twice counts once; given as sure and as possible, it is sure.

    Args:
        path: the file.
        format: one of `FORMATS`, or "auto" to see from the file.
        first_word: 0 or 1, where the file does not count as its format does.
        reverse: the target word stands first in the file's links.
        pairs: the sentences, if every link is to be checked against them.

    Raises:
        UserError: the file cannot be read, a link is malformed, a word lies below the file's first
            word or outside its sentence, or the sentences are not those of `pairs`. The message
            names the file, the line, what was found and what would be valid.
    """
    path = Path(path)
    if format != "auto" and format not in FORMATS:
        raise UserError(f"format {format!r}: must be one of auto, {', '.join(FORMATS)}")
    lines = list(text_lines(path))
    if format == "auto":
        format = _format_of(lines)
    if first_word is None:
        first_word = 0 if format == "pharaoh" else 1
    elif format == "naacl" and first_word != 1:
        raise UserError(f"{path} is a naacl file; its words count from 1, 0 is not a word at all")

    if format == "naacl":
        entries = list(_naacl_entries(path, lines))
        count = max((entry.sentence + 1 for entry in entries), default=0)
    else:
        entries = list(_line_entries(path, lines, format))
        count = len(lines)
    if pairs is not None:
        count = _check_count(path, format, entries, count, pairs)

    # A naacl file may number its sentences as it likes: only those with links take memory.
    sure: defaultdict[int, set[Link]] = defaultdict(set)
    possible: defaultdict[int, set[Link]] = defaultdict(set)
    null_links = 0
    for entry in entries:
        if format == "naacl" and 0 in entry.words and min(entry.words) >= 0:
            null_links += 1
            continue
        link = _checked(path, format, first_word, reverse, pairs, entry)
        possible[entry.sentence].add(link)
        if entry.sure:
            sure[entry.sentence].add(link)
    sentences = [SentenceLinks()] * count
    for sentence, possible_links in possible.items():
        sentences[sentence] = SentenceLinks(frozenset(sure[sentence]), frozenset(possible_links))
    return LinkFile(path, format, first_word, tuple(sentences), null_links)


def read_sentence_pairs(source: Path, target: Path) -> SentencePairs:
    """Read the lengths of tokenised sentences, one a line.

    Raises:
        UserError: a file cannot be read, or their numbers of lines differ.
    """
    sources, targets = (
        [len(line.split()) for line in text_lines(path)] for path in (source, target)
    )
    if len(sources) != len(targets):
        raise UserError(
            f"{source} has {counted(len(sources), 'line')} but {target} has {len(targets):,}; each"
            " line of the one must translate the same line of the other"
        )
    return SentencePairs(source, target, tuple(zip(sources, targets, strict=True)))


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
    what = f"links of sentence {in_file}" if file.format == "naacl" else counted(in_file, "line")
    raise UserError(
        f"{file.path} has {what}, but {other} has {counted(count, 'sentence')}; expected a file of"
        " the same sentences, with an empty line (in naacl: no line) for one without links"
    )


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


def _malformed(path: Path, line: int, text: str, format: str) -> UserError:
    hint = "; links like 3p2 are format talp" if _POSSIBLE_PAIR.fullmatch(text) else ""
    return UserError(
        f"{path}, line {line}: found {text!r:.60}; valid in format {format} is {_VALID[format]}"
        f"{hint}"
    )


def _check_count(
    path: Path, format: str, entries: Sequence[_Entry], count: int, pairs: SentencePairs
) -> int:
    """Return the number of sentences, which is that of the text."""
    expected = len(pairs.words)
    if format != "naacl" and count != expected:
        raise UserError(
            f"{path} has {counted(count, 'line')} but {pairs.source} has {expected:,}; expected a"
            " line for each sentence, empty if it has no links"
        )
    for entry in entries:
        if entry.sentence >= expected:
            raise UserError(
                f"{path}, line {entry.line}: found sentence {entry.sentence + 1} in"
                f" {entry.text!r:.60}, but {pairs.source} has {expected}; valid: 1 to {expected}"
            )
    return expected


def _checked(
    path: Path,
    format: str,
    first_word: int,
    reverse: bool,
    pairs: SentencePairs | None,
    entry: _Entry,
) -> Link:
    """Return the link as (source, target) from 0, if there are such words."""
    where = f"{path}, line {entry.line}: found word"
    if min(entry.words) < first_word:
        hint = ""
        if format != "naacl" and min(entry.words) == 0:
            hint = " (a file that counts from 0 is named in --zero-based)"
        raise UserError(
            f"{where} {min(entry.words)} in {entry.text!r:.60}; words count from {first_word}"
            f" here{hint}"
        )
    first, second = (word - first_word for word in entry.words)
    link = (second, first) if reverse else (first, second)
    if pairs is not None:
        for side, text, word, words in zip(
            ("source", "target"),
            (pairs.source, pairs.target),
            link,
            pairs.words[entry.sentence],
            strict=True,
        ):
            if word >= words:
                valid = f"{first_word} to {first_word + words - 1}" if words else "none"
                raise UserError(
                    f"{where} {word + first_word} of the {side} in {entry.text!r:.60}, but sentence"
                    f" {entry.sentence + 1} of {text} has {words} word{'s' * (words != 1)}; counted"
                    f" from {first_word}, valid: {valid}"
                )
    return link
