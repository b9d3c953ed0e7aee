"""`examples`: chosen sentences side by side, the paper's Table 3."""

import argparse
import re
from collections.abc import Mapping, Sequence

from fairseq_rnnsearch.errors import UsageError
from reporting import paper
from reporting.tables import Column, Table, markdown
from reporting.texts import System, TestSet, add_texts, read_texts

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
        help="sentence numbers, from 1 (default: the paper's three sentences, where the source has"
        " them, or else the first three of 30 words or more)",
    )


def run(options: argparse.Namespace) -> None:
    """Print source, reference and every system's translation of chosen sentences (Table 3)."""
    test, systems = read_texts(options)
    chosen = read_choice(options, test)
    print("\n\n".join(map(markdown, example_tables(test, systems, chosen))))


# --- the choice ---------------------------------------------------------------------------------


def read_choice(options: argparse.Namespace, test: TestSet) -> list[int]:
    """Return the sentences of ``--examples``; without it, the paper's three sentences where the
    test set has them, or its first long ones.

    Raises:
        UserError: as `parse_ids`.
    """
    if options.examples is not None:
        return parse_ids(options.examples, len(test.source["tokens"]), "--examples")
    long_sentences = set(map(paper.letters, paper.LONG_SENTENCES))
    source = map(paper.letters, _shown(test.source))
    chosen = [n for n, sentence in enumerate(source, start=1) if sentence in long_sentences]
    if chosen:
        return chosen
    return ((test.lengths() >= paper.LONG_SENTENCE).nonzero()[0][:_FEW] + 1).tolist()


def parse_ids(text: str, count: int | None, option: str) -> list[int]:
    """Read sentence numbers such as ``"3,17"``, which count from 1 as everywhere.

    Args:
        text: the option's value.
        count: the number of sentences, if it is known.
        option: the option's name, for the message.

    Raises:
        UsageError: if the text is anything else, or a number is out of range.
    """
    ids: list[int] = []
    for part in text.split(","):
        if not re.fullmatch(r"\s*[1-9][0-9]{0,11}\s*", part):
            raise UsageError(f"{option} {text!r}: must be sentence numbers, from 1, such as 3,17")
        ids.append(int(part))
        if count is not None and ids[-1] > count:
            raise UsageError(f"{option}: there is no sentence {ids[-1]}; valid: 1 to {count}")
    return list(dict.fromkeys(ids))


# --- the tables ---------------------------------------------------------------------------------


def example_tables(test: TestSet, systems: Sequence[System], ids: Sequence[int]) -> list[Table]:
    """Make a table for each sentence: source, reference, and every system's translation.

    Each line is shown detokenised where that text was given.
    """
    lengths = test.lengths()
    who, what = Column("", numeric=False), Column("translation", numeric=False)
    lines = [("Source", _shown(test.source))]
    references = _shown(test.references)
    for place, reference in enumerate(references, start=1):
        lines.append(("Reference" if len(references) == 1 else f"Reference {place}", reference))
    lines += [(system.name, _shown(system.translations)) for system in systems]
    return [
        Table(
            [{who: name, what: text[number - 1]} for name, text in lines],
            title=f"Sentence {number}, {lengths[number - 1]} source words",
        )
        for number in ids
    ]


def _shown(texts: Mapping[str, list]) -> list:
    """Return the detokenised text where it was given, or else the tokens."""
    return texts.get("detokenised", texts["tokens"])
