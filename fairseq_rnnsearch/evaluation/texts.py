"""Sentences, dictionaries and the systems that are compared, read from plain text files."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fairseq_rnnsearch.data.corpus import check_text
from fairseq_rnnsearch.errors import UserError


def read_sentences(path: Path) -> list[str]:
    """The lines of a text file, a sentence a line.

    Lines end as fairseq and sacreBLEU end them: at LF and CRLF, not at U+2028 or a form feed.

    Raises:
        UserError: as `data.corpus.check_text`: no such file, empty, not UTF-8, ...
    """
    check_text(path)
    with open(path, encoding="utf-8") as file:
        return [line.rstrip("\n") for line in file]


def read_as_many(path: Path, count: int, other: Path) -> list[str]:
    """The lines of a file that must have ``count``, as ``other`` has.

    Raises:
        UserError: another number of lines, or as `read_sentences`.
    """
    sentences = read_sentences(path)
    if len(sentences) != count:
        raise UserError(
            f"{path} has {len(sentences)} lines but {other} has {count}; valid is a line for each"
            " sentence"
        )
    return sentences


def read_dictionary(path: Path) -> frozenset[str]:
    """The known words: fairseq's ``dict.en.txt`` (``word count``) or a shortlist, a word a line.

    Raises:
        UserError: a line that holds anything else, or as `read_sentences`.
    """
    words = set()
    for number, line in enumerate(read_sentences(path), start=1):
        # fairseq separates its fields with one blank; its words may hold other spaces
        fields = line.removesuffix(" #fairseq:overwrite").split(" ")
        if len(fields) > 2 or not fields[0] or (len(fields) == 2 and not fields[1].isdecimal()):
            raise UserError(
                f"{path}, line {number}: found {line[:60]!r}; valid is a word, or a word and its"
                " count, as fairseq-preprocess writes them"
            )
        words.add(fields[0])
    return frozenset(words)


def known_sentences(
    source: Sequence[str],
    reference: Sequence[str],
    source_words: frozenset[str],
    reference_words: frozenset[str],
) -> np.ndarray:
    """The paper's "No UNK": sentences "without any unknown word in themselves and in the
    reference translations" (Table 1), as booleans, ``(sentences,)``."""
    return np.array(
        [
            source_words.issuperset(here.split()) and reference_words.issuperset(there.split())
            for here, there in zip(source, reference, strict=True)
        ],
        dtype=bool,
    )


@dataclass(frozen=True)
class System:
    """A system's translations of the test set; lists have a line for each sentence."""

    name: str
    tokens: list[str]
    detokenised: list[str] | None = None
    tokens_without_unk: list[str] | None = None
    """Of a search that may not generate UNK: of all sentences, or of those of the subset."""
    detokenised_without_unk: list[str] | None = None

    @property
    def searched_without_unk(self) -> bool:
        """Or else the No-UNK subset is scored as it was translated with all sentences."""
        return self.tokens_without_unk is not None or self.detokenised_without_unk is not None


@dataclass(frozen=True)
class TestSet:
    """The sentences that were translated."""

    __test__ = False  # its name is no test's

    source: list[str]
    reference: list[str]
    detokenised_reference: list[str] | None = None
    detokenised_source: list[str] | None = None
    known: np.ndarray | None = None
    """Sentences of the No-UNK subset; None without dictionaries."""

    def lengths(self) -> np.ndarray:
        """Words of each source sentence."""
        return np.array([len(sentence.split()) for sentence in self.source])


def pick(sentences: Sequence[str], chosen: Iterable[int]) -> list[str]:
    return [sentences[number] for number in chosen]


def of_subset(sentences: list[str], known: np.ndarray, path: Path) -> list[str]:
    """The subset's lines of a file that has a line for all sentences, or for the subset's only.

    Raises:
        UserError: another number of lines.
    """
    if len(sentences) == len(known):
        return pick(sentences, np.flatnonzero(known))
    if len(sentences) != known.sum():
        raise UserError(
            f"{path} has {len(sentences)} lines; valid is a line for each of the {len(known)}"
            f" sentences, or for each of the {known.sum()} without unknown words"
        )
    return sentences


def named_paths(values: Sequence[str], option: str) -> dict[str, Path]:
    """``NAME=FILE`` options in their order.

    Raises:
        UserError: no name, no file, or a name twice.
    """
    return {name: Path(value) for name, value in named_values(values, option).items()}


def named_values(values: Sequence[str], option: str) -> dict[str, str]:
    """``NAME=VALUE`` options in their order; the errors of `named_paths`."""
    named: dict[str, str] = {}
    for text in values:
        name, _, value = text.partition("=")
        if not name.strip() or not value:
            raise UserError(f"{option} {text!r}: must be NAME=VALUE, such as RNNsearch-50=out.fr")
        if name in named:
            raise UserError(f"{option} names {name!r} twice; valid is once a system")
        named[name] = value
    return named


def check_names(names: Iterable[str], valid: Mapping | Sequence[str], option: str) -> None:
    """
    Raises:
        UserError: a name that is no system's.
    """
    for name in names:
        if name not in valid:
            raise UserError(
                f"{option} {name!r}: there is no such system; valid: {', '.join(valid) or 'none'}"
            )
