"""Read the test set and the translations to compare from plain text files.

There are two kinds of text, both with a sentence a line: "tokens", whose words are separated by
blanks, and "detokenised".
"""

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import compress
from pathlib import Path

import numpy as np

from fairseq_rnnsearch.errors import UserError, pluralize
from reporting import paper
from reporting.options import add_file, add_list, check_names, given_together, named_paths
from reporting.sentences import (
    known_sentences,
    read_as_many,
    read_known_words,
    read_sentences,
)

Texts = Mapping[str, list[str]]
"""Sentences by their kind, "tokens" or "detokenised"; a kind that was not given is missing."""


@dataclass(frozen=True)
class System:
    """A system's translations of the test set."""

    name: str
    translations: Texts
    """The translations of all sentences; there are always tokens."""
    known: Texts
    """The translations of the No-UNK subset; empty without dictionaries."""
    forbids_unk: bool
    """Whether `known` comes from a separate search, which may not generate UNK. Otherwise it is
    part of the translation of all sentences."""


@dataclass(frozen=True)
class TestSet:
    """The sentences that were translated; there are always tokens.

    Attributes:
        source: the text itself.
        references: translations by people, one text or several of each kind.
        known: which sentences are in the No-UNK subset, ``(sentences,)``; None without
            dictionaries.
    """

    __test__ = False  # pytest takes a class of this name for one of its own

    source: Texts
    references: Mapping[str, list[list[str]]]
    known: np.ndarray | None = None

    def is_the_papers(self) -> bool:
        """Tell whether it is newstest2014, on which the paper's values were measured."""
        return any(map(paper.is_its_test_set, self.source.values()))

    def lengths(self) -> np.ndarray:
        """Return the number of words of each source sentence."""
        return np.array([len(sentence.split()) for sentence in self.source["tokens"]])


# --- files --------------------------------------------------------------------------------------


def read_subset(path: Path, known: np.ndarray) -> list[str]:
    """Read the subset's lines from a file with a line for all sentences, or for the subset's only.

    Raises:
        UserError: it has another number of lines; and as `read_sentences`.
    """
    sentences = read_sentences(path)
    if len(sentences) == len(known):
        return list(compress(sentences, known))
    if len(sentences) != known.sum():
        raise UserError(
            f"{path} has {pluralize(len(sentences), 'line')}; expected a line for each of the"
            f" {len(known)} sentences, or for each of the {known.sum()} without unknown words"
        )
    return sentences


# --- options ------------------------------------------------------------------------------------


def add_texts(parser: argparse.ArgumentParser) -> None:
    """Add the options that `read_texts` reads."""
    texts = parser.add_argument_group("texts: plain UTF-8, a sentence a line")
    again = "the same sentences detokenised"
    add_file(texts, "--source", "tokenised source sentences", required=True)
    add_file(texts, "--source-detokenised", again)
    several = "any number of times where there are several for each sentence"
    add_list(
        texts, "--reference", "FILE", f"tokenised references, {several}", type=Path, required=True
    )
    add_list(texts, "--reference-detokenised", "FILE", again, type=Path)
    for option, help in {
        "--system": "a system's tokenised translations, any number of times, in the order of rows",
        "--system-detokenised": "its translations detokenised",
        "--system-no-unk": "its tokenised translations by a search that may not generate UNK, of"
        " all sentences or of those of the No-UNK subset only; without it the subset is taken from"
        " --system",
        "--system-no-unk-detokenised": "those detokenised",
    }.items():
        add_list(texts, option, "NAME=FILE", help)
    # Commands without `add_dictionaries` have no No-UNK subset.
    parser.set_defaults(source_dictionary=None, target_dictionary=None)


def read_texts(options: argparse.Namespace) -> tuple[TestSet, list[System]]:
    """Read the test set and the systems that the options name.

    Raises:
        UserError: for every mistake in these files, and for names that are no system's.
    """
    source = read_sentences(options.source)

    def read(path: Path) -> list[str]:
        return read_as_many(path, len(source), options.source)

    sources = {"tokens": source}
    if options.source_detokenised:
        sources["detokenised"] = read(options.source_detokenised)
    references = {"tokens": options.reference, "detokenised": options.reference_detokenised}
    references = {
        kind: [read(path) for path in paths] for kind, paths in references.items() if paths
    }
    dictionaries = {
        "--source-dictionary": options.source_dictionary,
        "--target-dictionary": options.target_dictionary,
    }
    known = None
    if given_together(dictionaries):
        words = map(read_known_words, dictionaries.values())
        known = known_sentences(source, references["tokens"], *words)

    options_of_systems = {
        "--system": options.system,
        "--system-detokenised": options.system_detokenised,
        "--system-no-unk": options.system_no_unk,
        "--system-no-unk-detokenised": options.system_no_unk_detokenised,
    }
    paths = {option: named_paths(values, option) for option, values in options_of_systems.items()}
    names = paths["--system"]
    if not names:
        raise UserError("no --system given; at least one NAME=FILE is needed")
    for option, named in paths.items():
        check_names(named, names, option)
        if named and "no-unk" in option and known is None:
            raise UserError(f"{option} needs --source-dictionary and --target-dictionary")
        if named and "detokenised" in option and "detokenised" not in references:
            raise UserError("detokenised systems need --reference-detokenised")

    def read_kinds(option: str, name: str, read: Callable[[Path], list[str]]) -> Texts:
        kinds = {"tokens": option, "detokenised": f"{option}-detokenised"}
        return {kind: read(paths[own][name]) for kind, own in kinds.items() if name in paths[own]}

    systems = []
    for name in names:
        whole = read_kinds("--system", name, read)
        subset = read_kinds("--system-no-unk", name, lambda path: read_subset(path, known))
        forbids_unk = bool(subset)
        if known is not None and not subset:
            subset = {kind: list(compress(text, known)) for kind, text in whole.items()}
        systems.append(System(name, whole, subset, forbids_unk))
    return TestSet(sources, references, known), systems
