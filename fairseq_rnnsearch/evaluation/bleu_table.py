"""`bleu`: the paper's Table 1, with intervals and differences, for any systems' translations.

BLEU has 95% intervals and paired differences to a baseline; chrF and TER stand beside it.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fairseq_rnnsearch.evaluation import bleu, paper
from fairseq_rnnsearch.evaluation.bleu import Bootstrap, Comparison, Score, compare, sentence_counts
from fairseq_rnnsearch.evaluation.chrf_and_ter import OtherScores, chrf_and_ter
from fairseq_rnnsearch.evaluation.command_line import add_command, check_names
from fairseq_rnnsearch.evaluation.tables import Column, Row, Table, fixed, markdown, span
from fairseq_rnnsearch.evaluation.texts import (
    System,
    TestSet,
    add_dictionaries,
    add_texts,
    pick,
    read_texts,
)

WHAT_P_COMPARES = (
    "p compares the translations of two trained models: it does not know how much two trainings"
    " with other seeds would differ."
)
_TITLES = {"tokens": "Tokenised BLEU", "detokenised": "Detokenised BLEU (sacreBLEU)"}


@dataclass(frozen=True)
class ScoredTexts:
    """Table 1 for one kind of text."""

    scores: Table
    differences: Table | None
    """How far each system is from the baseline; None without another system."""
    remark: str | None
    """By which search the translations of the No-UNK columns were made."""
    signatures: Sequence[str]
    """Of BLEU, chrF and TER, as sacreBLEU writes them."""


@dataclass(frozen=True)
class _ScoredSet:
    """The scores of all systems on one set of sentences."""

    bleu: Comparison
    others: dict[str, OtherScores]

    @property
    def signatures(self) -> list[str]:
        others = next(iter(self.others.values()))
        return [f"BLEU|{self.bleu.signature}", *others.signatures]


def add(commands: argparse._SubParsersAction) -> None:
    """Add the command to those of the program."""
    parser = add_command(
        commands,
        "bleu",
        _run,
        "BLEU with paired bootstrap intervals, chrF and TER of translations (Table 1)",
        bleu.__doc__,
    )
    add_texts(parser)
    add_dictionaries(parser)
    add_bootstrap(parser)
    paper.add_paper(parser)


def _run(options: argparse.Namespace) -> None:
    test, systems = read_texts(options)
    bootstrap = read_bootstrap(options, systems)
    names = [system.name for system in systems]
    rows = paper.rows_beside(options, names, test.is_the_papers())
    parts: list[str | None] = []
    for scored in score_texts(test, systems, bootstrap, rows):
        parts.append(markdown(scored.scores))
        parts.append(scored.differences and markdown(scored.differences))
        parts += [scored.remark, "\n".join(scored.signatures)]
    if len(systems) > 1:
        parts.append(WHAT_P_COMPARES)
    print("\n\n".join(part for part in parts if part))


def add_bootstrap(parser: argparse.ArgumentParser) -> None:
    """Add the options that `read_bootstrap` reads."""
    parser.add_argument(
        "--baseline", metavar="NAME", help="the system compared with (default: the first)"
    )
    parser.add_argument(
        "--resamples", type=int, default=1000, metavar="N", help="default: %(default)s"
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=12345,
        help="of the resampling (default: sacreBLEU's %(default)s)",
    )


def read_bootstrap(options: argparse.Namespace, systems: Sequence[System]) -> Bootstrap:
    """Return how intervals and differences are to be made.

    Raises:
        UserError: the baseline is no system.
    """
    names = [system.name for system in systems]
    if options.baseline is not None:
        check_names([options.baseline], names, "--baseline")
    return Bootstrap(options.resamples, options.seed, options.baseline or names[0])


def score_texts(
    test: TestSet,
    systems: Sequence[System],
    bootstrap: Bootstrap,
    theirs: paper.PaperRows,
) -> list[ScoredTexts]:
    """Score each kind of text of which there are references and translations.

    Args:
        test, systems: from `read_texts`.
        bootstrap: how intervals and differences are made.
        theirs: the paper's rows.
    """
    scored = []
    for kind in bleu.TOKENISERS:
        sets = _score_sets(test, systems, kind, bootstrap)
        if sets:
            scored.append(
                ScoredTexts(
                    _scores(sets, kind, systems, theirs),
                    _differences(sets, kind, systems, bootstrap.baseline),
                    _remark_on_unk(sets, systems),
                    sets["All"].signatures,
                )
            )
    return scored


def _score_sets(
    test: TestSet, systems: Sequence[System], kind: str, bootstrap: Bootstrap
) -> dict[str, _ScoredSet | None]:
    """Score all sentences and, with dictionaries, the No-UNK subset, under these two names.

    Nothing is returned if no system has this kind of text; None stands for an empty subset.
    """
    whole = _score(test, systems, kind, False, bootstrap)
    if whole is None:
        return {}
    if test.known is None:
        return {"All": whole}
    if not test.known.any():
        return {"All": whole, "No UNK": None}
    subset = _score(test, systems, kind, True, bootstrap)
    # There may be no translations of this kind by a search without UNK.
    return {"All": whole, "No UNK": subset} if subset else {"All": whole}


def _score(
    test: TestSet, systems: Sequence[System], kind: str, subset: bool, bootstrap: Bootstrap
) -> _ScoredSet | None:
    """Score all systems that have this kind of text; return None if none has."""
    if kind not in test.references:
        return None
    known = np.flatnonzero(test.known) if subset else range(len(test.lengths()))
    references = [pick(reference, known) for reference in test.references[kind]]
    counts, others = {}, {}
    for system in systems:
        if subset and system.without_unk:
            translations = system.without_unk.get(kind)
        else:
            translations = system.translations.get(kind)
            translations = translations and pick(translations, known)
        if translations is not None:
            counts[system.name] = sentence_counts(translations, references, kind)
            others[system.name] = chrf_and_ter(translations, references)
    if not counts:
        return None
    return _ScoredSet(compare(counts, kind, bootstrap, len(references)), others)


def _scores(
    sets: Mapping[str, _ScoredSet | None],
    kind: str,
    systems: Sequence[System],
    theirs: paper.PaperRows,
) -> Table:
    """Make the table of scores.

    The paper's values stand beside the tokenised scores, which are of their kind; its rows
    without a counterpart follow.
    """
    with_paper = kind == "tokens" and theirs.are_shown
    columns = [Column("System", numeric=False)]
    for group in sets:
        columns += [Column("BLEU", group), Column("95% interval", group, kind="minor")]
        columns += [Column("paper", group, kind="paper")] * with_paper
        columns += [Column("chrF", group), Column("TER", group)]
    rows = []
    for system in systems:
        cells: list[str | None] = [system.name]
        for place, scored in enumerate(sets.values()):
            found = scored and scored.bleu.scores.get(system.name)
            cells += [fixed(found.bleu, 2), span(found.interval, 2)] if found else [None, None]
            cells += [_paper_bleu(theirs.beside[system.name], place)] * with_paper
            others = scored and scored.others.get(system.name)
            cells += [fixed(others.chrf, 1), fixed(others.ter, 1)] if others else [None, None]
        rows.append(Row(tuple(cells)))
    for name in theirs.without_counterpart(paper.BLEU) if with_paper else ():
        cells = [f"{name} (paper)"]
        for place in range(len(sets)):
            cells += [None, None, _paper_bleu(name, place), None, None]
        rows.append(Row(tuple(cells), paper=True))
    sizes = [scored.bleu.sentences if scored else 0 for scored in sets.values()]
    counted = f"{sizes[0]:,} sentences"
    if len(sizes) > 1:
        counted += f", {sizes[1]:,} of them without unknown words"
    return Table(tuple(columns), tuple(rows), f"{_TITLES[kind]}, {counted}")


def _paper_bleu(row: str | None, place: int) -> str | None:
    return fixed(paper.BLEU[row][place], 2) if row else None


def _differences(
    sets: Mapping[str, _ScoredSet | None], kind: str, systems: Sequence[System], baseline: str
) -> Table | None:
    """Make the table of differences to the baseline; return None without another system.

    A set of sentences for which the baseline has no translations has no columns.
    """
    compared = {name: scored.bleu for name, scored in sets.items() if scored}
    compared = {name: found for name, found in compared.items() if baseline in found.scores}
    columns = [Column("System", numeric=False)]
    for group in compared:
        columns += [Column("BLEU", group), Column("95% interval", group, kind="minor")]
        columns += [Column("p", group, kind="minor")]
    rows = []
    for system in systems:
        cells: list[str | None] = [system.name]
        for comparison in compared.values():
            found = comparison.scores.get(system.name)
            cells += _difference(found) if found else [None] * 3
        if system.name != baseline and any(cells[1:]):
            rows.append(Row(tuple(cells)))
    title = f"{_TITLES[kind]}, difference to {baseline}"
    return Table(tuple(columns), tuple(rows), title) if rows else None


def _difference(found: Score) -> list[str | None]:
    p_value = found.p_value
    return [
        fixed(found.difference, 2, sign=True),
        span(found.difference_interval, 2, sign=True),
        "< 0.001" if p_value is not None and p_value < 0.001 else fixed(p_value, 3),
    ]


def _remark_on_unk(sets: Mapping[str, _ScoredSet | None], systems: Sequence[System]) -> str | None:
    if "No UNK" not in sets:
        return None
    if sets["No UNK"] is None:
        return "Every sentence has an unknown word, so nothing is scored without them."
    same = [system.name for system in systems if not system.without_unk]
    if not same:
        return "No UNK: by a search that may not generate UNK, as in the paper."
    allowed = "No UNK, the same translations as of all sentences, UNK not forbidden:"
    return f"{allowed} {', '.join(same)}."
