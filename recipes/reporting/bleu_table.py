"""`bleu`: the paper's Table 1, with intervals and differences, for any systems' translations.

BLEU and chrF have 95% intervals, and BLEU has paired differences to a baseline.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress

from reporting import paper
from reporting.options import add_number, check_names
from reporting.scores import METRICS, Bootstrap, Comparison, Score, compare
from reporting.sentences import add_dictionaries
from reporting.tables import Column, Row, Table, fixed, markdown, span
from reporting.texts import System, TestSet, add_texts, read_texts

WHAT_P_COMPARES = (
    "It compares the translations of two trained models, and does not know how much two trainings"
    " with other seeds would differ."
)
_TITLES = {"tokens": "Tokenised BLEU", "detokenised": "Detokenised BLEU (sacreBLEU)"}
_SYSTEM = Column("System", numeric=False)
_REPRODUCTION = Column(paper.REPRODUCTION_NAME, "All", is_paper=True)

ScoredSets = Mapping[str, Mapping[str, Comparison]]
"""Scores by metric, for all sentences, "All", and, with dictionaries, for the No-UNK subset, "No
UNK", which has no metrics if it has no sentences."""


@dataclass(frozen=True)
class ScoredTexts:
    """Table 1 for one kind of text."""

    tables: Sequence[Table]
    """BLEU; if there are two systems, how far it is from the baseline's; chrF."""
    remark: str | None
    """The search behind the translations of the No-UNK columns."""
    verdicts: Sequence[str]
    """For each RNNsearch-50* of newstest2014, whether the published reproduction is as good."""
    signatures: Sequence[str]
    """The signatures of all metrics, as sacreBLEU writes them."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add_texts(parser)
    add_dictionaries(parser)
    add_bootstrap(parser)
    paper.add_paper(parser)


def run(options: argparse.Namespace) -> None:
    """Print BLEU and other scores of translations, with paired bootstrap intervals (Table 1)."""
    test, systems = read_texts(options)
    bootstrap = read_bootstrap(options, systems)
    names = [system.name for system in systems]
    rows = paper.rows_beside(options, names, test.is_the_papers())
    parts: list[str | None] = []
    for scored in score_texts(test, systems, bootstrap, rows):
        parts += [*map(markdown, scored.tables), *scored.verdicts, scored.remark]
        parts.append("\n".join(scored.signatures))
    if len(systems) > 1:
        parts.append(f"p is sacreBLEU's. {WHAT_P_COMPARES}")
    print("\n\n".join(filter(None, parts)))


def add_bootstrap(parser: argparse.ArgumentParser) -> None:
    """Add the options that `read_bootstrap` reads."""
    parser.add_argument(
        "--baseline", metavar="NAME", help="the system compared with (default: the first)"
    )
    add_resampling(parser)


def add_resampling(parser: argparse.ArgumentParser) -> None:
    """Add the options of intervals without differences."""
    add_number(parser, "--resamples", 1000, "N", "SACREBLEU_SEED is their seed")


def read_bootstrap(options: argparse.Namespace, systems: Sequence[System]) -> Bootstrap:
    """Return how intervals and differences are to be made.

    Raises:
        UserError: if the baseline is not one of the systems.
    """
    names = [system.name for system in systems]
    if options.baseline is not None:
        check_names([options.baseline], names, "--baseline")
    return Bootstrap(options.resamples, options.baseline or names[0])


def score_texts(
    test: TestSet,
    systems: Sequence[System],
    bootstrap: Bootstrap,
    of_paper: paper.PaperRows,
) -> list[ScoredTexts]:
    """Score each kind of text for which there are references and translations.

    Args:
        test, systems: from `read_texts`.
        bootstrap: how intervals and differences are made.
        of_paper: the paper's rows.
    """
    hidden = paper.PaperRows({})
    scored = []
    for kind, title in _TITLES.items():
        if sets := _score_sets(test, systems, kind, bootstrap):
            shown = of_paper if kind == "tokens" else hidden  # the paper's values are of tokens
            tables = [
                _scores(sets, "BLEU", f"{title}, {_sizes(sets)}", systems, shown),
                *_differences(sets, title, systems, bootstrap.baseline),
                _scores(sets, "chrF", "chrF of the same translations", systems, hidden),
            ]
            signatures = [comparison.signature for comparison in sets["All"].values()]
            verdicts = _verdicts(sets["All"]["BLEU"], shown)
            scored.append(ScoredTexts(tables, _remark_on_unk(sets, systems), verdicts, signatures))
    return scored


def _score_sets(
    test: TestSet, systems: Sequence[System], kind: str, bootstrap: Bootstrap
) -> ScoredSets:
    """Score all sentences and the No-UNK subset; there are no sets if no system has the kind."""
    references = test.references.get(kind)
    whole = {own.name: own.translations[kind] for own in systems if kind in own.translations}
    if not references or not whole:
        return {}
    sets = {"All": (whole, references)}
    if test.known is not None:
        known = {own.name: own.known[kind] for own in systems if kind in own.known}
        if known or not any(test.known):  # no search without UNK may have this kind
            subset = [list(compress(reference, test.known)) for reference in references]
            sets["No UNK"] = known, subset
    return {
        group: {
            name: compare(translations, references, bootstrap, name, kind)
            for name in METRICS
            if references[0]
        }
        for group, (translations, references) in sets.items()
    }


def _scores(
    sets: ScoredSets,
    metric: str,
    title: str,
    systems: Sequence[System],
    of_paper: paper.PaperRows,
) -> Table:
    """Make a table of scores, with the paper's and those of its published reproduction.

    Their rows without a counterpart follow.
    """
    reproduced = {system.name: of_paper.reproduction(system.name) for system in systems}
    with_reproduction = of_paper.further or any(reproduced.values())
    rows = []
    for system in systems:
        row: Row = {_SYSTEM: system.name}
        for place, (group, scored) in enumerate(sets.items()):
            score = scored[metric].scores.get(system.name) if scored else None
            decimals = METRICS[metric]
            row[Column(metric, group)] = score and fixed(score.value, decimals)
            row[Column("95% interval", group)] = score and span(score.interval, decimals)
            if of_paper.are_shown:
                row[_paper(group)] = _paper_bleu(of_paper.beside[system.name], place)
            if with_reproduction and place == 0:
                row[_REPRODUCTION] = fixed(reproduced[system.name], 1)
        rows.append(row)
    paper_rows = []
    for name in of_paper.without_counterpart(paper.BLEU):
        cells = {_paper(group): _paper_bleu(name, place) for place, group in enumerate(sets)}
        cells[_REPRODUCTION] = fixed(paper.REPRODUCTION.get(name), 1)
        paper_rows.append({_SYSTEM: f"{name} (paper)", **cells})
    for name in of_paper.reproductions_without_counterpart():
        cells = {_REPRODUCTION: fixed(paper.REPRODUCTION[name], 1)}
        paper_rows.append({_SYSTEM: f"{name} ({paper.REPRODUCTION_NAME})", **cells})
    return Table(rows, paper_rows, title)


def _sizes(sets: ScoredSets) -> str:
    sizes = [scored["BLEU"].sentences if scored else 0 for scored in sets.values()]
    counted = f"{sizes[0]:,} sentences"
    if len(sizes) > 1:
        counted += f", {sizes[1]:,} of them without unknown words"
    return counted


def _paper(group: str) -> Column:
    return Column("paper", group, is_paper=True)


def _verdicts(scored: Comparison, of_paper: paper.PaperRows) -> list[str]:
    if not of_paper.is_its_test_set:
        return []
    said = (of_paper.verdict(name, score.value) for name, score in scored.scores.items())
    return [verdict for verdict in said if verdict]


def _paper_bleu(row: str | None, place: int) -> str | None:
    return fixed(paper.BLEU[row][place], 2) if row else None


def _differences(
    sets: ScoredSets, title: str, systems: Sequence[System], baseline: str
) -> list[Table]:
    """Make the table of differences to the baseline, if there is another system.

    A set of sentences for which the baseline has no translations has no columns.
    """
    compared = {group: scored["BLEU"].scores for group, scored in sets.items() if scored}
    compared = {group: scores for group, scores in compared.items() if baseline in scores}
    rows = []
    for system in systems:
        of_system = {group: scores.get(system.name) for group, scores in compared.items()}
        if system.name != baseline and any(of_system.values()):
            row: Row = {_SYSTEM: system.name}
            for group, score in of_system.items():
                row |= _difference(group, score)
            rows.append(row)
    return [Table(rows, title=f"{title}, difference to {baseline}")] if rows else []


def _difference(group: str, score: Score | None) -> Row:
    return {
        Column("BLEU", group): score and fixed(score.difference, 2, sign=True),
        Column("p", group): score
        and ("< 0.001" if score.p_value < 0.001 else fixed(score.p_value, 3)),
    }


def _remark_on_unk(sets: ScoredSets, systems: Sequence[System]) -> str | None:
    if "No UNK" not in sets:
        return None
    if not sets["No UNK"]:
        return "Every sentence has an unknown word, so nothing is scored without them."
    same = [system.name for system in systems if not system.forbids_unk]
    if not same:
        return "No UNK: by a search that may not generate UNK, as in the paper."
    allowed = "No UNK, scored on the same translations as All, UNK not forbidden:"
    return f"{allowed} {', '.join(same)}."
