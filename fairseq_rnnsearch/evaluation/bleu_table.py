"""`bleu`: the paper's Table 1, with intervals and differences, for any systems' translations."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fairseq_rnnsearch.evaluation import bleu, paper
from fairseq_rnnsearch.evaluation.bleu import Bootstrap, Comparison, Score, compare, sentence_counts
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
    signature: str


def add(commands: argparse._SubParsersAction) -> None:
    """Add the command to those of the program."""
    parser = add_command(
        commands,
        "bleu",
        _run,
        "BLEU of translations with paired bootstrap intervals (Table 1)",
        bleu.__doc__,
    )
    add_texts(parser)
    add_dictionaries(parser)
    add_bootstrap(parser)
    paper.add_paper(parser)


def _run(options: argparse.Namespace) -> None:
    test, systems = read_texts(options)
    bootstrap = read_bootstrap(options, systems)
    beside = paper.rows_beside(options, [system.name for system in systems])
    parts: list[str | None] = []
    for scored in score_texts(test, systems, bootstrap, beside):
        parts.append(markdown(scored.scores))
        parts.append(scored.differences and markdown(scored.differences))
        parts += [scored.remark, scored.signature]
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
    beside: Mapping[str, str | None],
) -> list[ScoredTexts]:
    """Score each kind of text of which there are references and translations.

    Args:
        test, systems: from `read_texts`.
        bootstrap: how intervals and differences are made.
        beside: the paper's row beside each system, or None.
    """
    scored = []
    for kind in bleu.TOKENISERS:
        sets = _score_sets(test, systems, kind, bootstrap)
        if sets:
            scored.append(
                ScoredTexts(
                    _scores(sets, kind, systems, beside),
                    _differences(sets, kind, systems, bootstrap.baseline),
                    _remark_on_unk(sets, systems),
                    sets["All"].signature,
                )
            )
    return scored


def _score_sets(
    test: TestSet, systems: Sequence[System], kind: str, bootstrap: Bootstrap
) -> dict[str, Comparison | None]:
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
) -> Comparison | None:
    """Score all systems that have this kind of text; return None if none has."""
    references = test.reference.get(kind)
    if references is None:
        return None
    known = np.flatnonzero(test.known) if subset else range(len(references))
    counts = {}
    for system in systems:
        if subset and system.without_unk:
            translations = system.without_unk.get(kind)
        else:
            translations = system.translations.get(kind)
            translations = translations and pick(translations, known)
        if translations is not None:
            counts[system.name] = sentence_counts(translations, pick(references, known), kind)
    return compare(counts, kind, bootstrap) if counts else None


def _scores(
    sets: Mapping[str, Comparison | None],
    kind: str,
    systems: Sequence[System],
    beside: Mapping[str, str | None],
) -> Table:
    """Make the table of BLEU.

    The paper's values stand beside the tokenised scores, which are of their kind; its rows
    without a counterpart follow.
    """
    with_paper = kind == "tokens"
    columns = [Column("System", numeric=False)]
    for group in sets:
        columns += [Column("BLEU", group), Column("95% interval", group, kind="minor")]
        columns += [Column("paper", group, kind="paper")] * with_paper
    rows = []
    for system in systems:
        cells: list[str | None] = [system.name]
        for place, comparison in enumerate(sets.values()):
            found = comparison and comparison.scores.get(system.name)
            cells += [fixed(found.bleu, 2), span(found.interval, 2)] if found else [None, None]
            cells += [_paper_bleu(beside[system.name], place)] * with_paper
        rows.append(Row(tuple(cells)))
    for name in paper.BLEU if with_paper else ():
        if name not in beside.values():
            cells = [f"{name} (paper)"]
            for place in range(len(sets)):
                cells += [None, None, _paper_bleu(name, place)]
            rows.append(Row(tuple(cells), paper=True))
    sizes = [comparison.sentences if comparison else 0 for comparison in sets.values()]
    counted = f"{sizes[0]:,} sentences"
    if len(sizes) > 1:
        counted += f", {sizes[1]:,} of them without unknown words"
    return Table(tuple(columns), tuple(rows), f"{_TITLES[kind]}, {counted}")


def _paper_bleu(row: str | None, place: int) -> str | None:
    return fixed(paper.BLEU[row][place], 2) if row else None


def _differences(
    sets: Mapping[str, Comparison | None], kind: str, systems: Sequence[System], baseline: str
) -> Table | None:
    """Make the table of differences to the baseline; return None without another system.

    A set of sentences for which the baseline has no translations has no columns.
    """
    sets = {name: found for name, found in sets.items() if found and baseline in found.scores}
    columns = [Column("System", numeric=False)]
    for group in sets:
        columns += [Column("BLEU", group), Column("95% interval", group, kind="minor")]
        columns += [Column("p", group, kind="minor")]
    rows = []
    for system in systems:
        cells: list[str | None] = [system.name]
        for comparison in sets.values():
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


def _remark_on_unk(sets: Mapping[str, Comparison | None], systems: Sequence[System]) -> str | None:
    if "No UNK" not in sets:
        return None
    if sets["No UNK"] is None:
        return "Every sentence has an unknown word, so nothing is scored without them."
    same = [system.name for system in systems if not system.without_unk]
    if not same:
        return "No UNK: by a search that may not generate UNK, as in the paper."
    allowed = "No UNK, the same translations as of all sentences, UNK not forbidden:"
    return f"{allowed} {', '.join(same)}."
