"""Read files with one sentence per line, and find the sentences with only known words."""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fairseq_rnnsearch.errors import UserError, pluralize
from fairseq_rnnsearch.text.corpus import checked_lines
from reporting.options import add_file


def read_sentences(path: Path) -> list[str]:
    """Read a text file with a sentence a line.

    Lines end as fairseq and sacreBLEU end them: at LF and CRLF, not at U+2028 or a form feed.

    Raises:
        UserError: as `checked_lines`: there is no such file, it is empty, not UTF-8, ...
    """
    return [line.rstrip("\r\n") for line in checked_lines(path)]


def read_as_many(path: Path, count: int, other: Path) -> list[str]:
    """Read a file that must have ``count`` lines, as the file ``other`` has.

    Raises:
        UserError: it has more or fewer; and as `read_sentences`.
    """
    sentences = read_sentences(path)
    if len(sentences) != count:
        raise UserError(
            f"{path} has {pluralize(len(sentences), 'line')} but {other} has {count:,}; expected a"
            " line for each sentence"
        )
    return sentences


def read_known_words(path: Path) -> frozenset[str]:
    """Read fairseq's ``dict.en.txt`` (``word count``) or a shortlist, which has a word a line.

    Raises:
        UserError: a line holds anything else; and as `read_sentences`.
    """
    words = set()
    for number, line in enumerate(read_sentences(path), start=1):
        # fairseq separates its fields with one blank; its words may hold other spaces.
        fields = line.removesuffix(" #fairseq:overwrite").split(" ")
        if len(fields) > 2 or not fields[0] or (len(fields) == 2 and not fields[1].isdecimal()):
            raise UserError(
                f"{path}, line {number}: found {line[:60]!r}; expected a word, or a word and its"
                " count, as fairseq-preprocess writes them"
            )
        words.add(fields[0])
    return frozenset(words)


def known_sentences(
    source: Sequence[str],
    references: Sequence[Sequence[str]],
    source_words: frozenset[str],
    reference_words: frozenset[str],
) -> np.ndarray:
    """Tell which sentences are in the paper's "No UNK": those "without any unknown word in
    themselves and in the reference translations" (Table 1), as booleans, ``(sentences,)``.

    Raises:
        UserError: a dictionary has subword pieces and its texts have words, of which it then lacks
            those that are more than one piece.
    """
    _refuse_pieces("source", source_words, [source])
    _refuse_pieces("target", reference_words, references)
    return np.array(
        [
            source_words.issuperset(here.split())
            and all(reference_words.issuperset(there.split()) for there in translations)
            for here, *translations in zip(source, *references, strict=True)
        ],
        dtype=bool,
    )


def _refuse_pieces(side: str, words: frozenset[str], texts: Sequence[Sequence[str]]) -> None:
    piece = min((word for word in words if word.endswith("@@")), default=None)
    if piece and not any("@@" in sentence for text in texts for sentence in text):
        raise UserError(
            f"--{side}-dictionary has subword pieces, such as {piece}, but the {side} text has"
            " whole words; only a dictionary of words tells which of them are unknown"
        )


def add_dictionaries(parser: argparse.ArgumentParser) -> None:
    """Add the options that name the known words of both languages."""
    for side in ("source", "target"):
        add_file(
            parser,
            f"--{side}-dictionary",
            f"known {side} words, fairseq's dict.*.txt or a word a line: they decide which"
            " sentences are in the No-UNK subset",
        )
