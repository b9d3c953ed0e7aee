"""The paper's Tables 1 and 2 and its Figure 2 as tables, our numbers beside the paper's."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fairseq_rnnsearch.evaluation import paper
from fairseq_rnnsearch.evaluation.bleu import Comparison, Score, compare, sentence_counts
from fairseq_rnnsearch.evaluation.lengths import Bin
from fairseq_rnnsearch.evaluation.tables import Column, Row, Table, fixed, span
from fairseq_rnnsearch.evaluation.texts import System, TestSet, pick
from fairseq_rnnsearch.evaluation.training_log import Training

WHAT_P_COMPARES = (
    "p compares the translations of two trained models: it does not know how much two trainings"
    " with other seeds would differ."
)
TITLES = {"tokens": "Tokenised BLEU", "detokenised": "Detokenised BLEU (sacreBLEU)"}


@dataclass(frozen=True)
class Bootstrap:
    """How intervals and differences are made."""

    baseline: str
    resamples: int
    seed: int


def _texts(test: TestSet, system: System, kind: str, subset: bool) -> tuple[list, list] | None:
    """Translations and references of a kind, of all sentences or of the No-UNK subset."""
    tokens = kind == "tokens"
    references = test.reference if tokens else test.detokenised_reference
    hypotheses = system.tokens if tokens else system.detokenised
    if references is None:
        return None
    if not subset:
        return (hypotheses, references) if hypotheses is not None else None
    known = test.known.nonzero()[0]
    without = system.tokens_without_unk if tokens else system.detokenised_without_unk
    if not system.searched_without_unk and hypotheses is not None:
        without = pick(hypotheses, known)
    return (without, pick(references, known)) if without is not None else None


def score(
    test: TestSet, systems: Sequence[System], kind: str, subset: bool, bootstrap: Bootstrap
) -> Comparison | None:
    """All systems that have this kind of text; None if none has, or if the subset is empty."""
    if subset and (test.known is None or not test.known.any()):
        return None
    counts = {}
    for system in systems:
        texts = _texts(test, system, kind, subset)
        if texts is not None:
            counts[system.name] = sentence_counts(*texts, kind)
    if not counts:
        return None
    return compare(counts, kind, bootstrap.baseline, bootstrap.resamples, bootstrap.seed)


def score_sets(
    test: TestSet, systems: Sequence[System], kind: str, bootstrap: Bootstrap
) -> dict[str, Comparison | None] | None:
    """The scores on all sentences and, with dictionaries, on the No-UNK subset, by their names.

    None if no system has this kind of text.
    """
    whole = score(test, systems, kind, False, bootstrap)
    if whole is None:
        return None
    if test.known is None:
        return {"All": whole}
    subset = score(test, systems, kind, True, bootstrap)
    if subset is None and test.known.any():
        return {"All": whole}  # no translations of this kind by a search without UNK
    return {"All": whole, "No UNK": subset}


def table_1(
    sets: Mapping[str, Comparison | None],
    kind: str,
    systems: Sequence[System],
    beside: Mapping[str, str | None],
) -> Table:
    """The paper's Table 1 for one kind of text, from `score_sets`.

    The paper's values stand beside the tokenised scores, which are of their kind; its rows
    without a counterpart follow.
    """
    theirs = kind == "tokens"
    columns = [Column("System", numeric=False)]
    for group in sets:
        columns += [Column("BLEU", group), Column("95% interval", group, kind="minor")]
        columns += [Column("paper", group, kind="paper")] * theirs
    rows = []
    for system in systems:
        cells: list[str | None] = [system.name]
        for place, comparison in enumerate(sets.values()):
            found = comparison and comparison.scores.get(system.name)
            cells += [fixed(found.bleu, 2), span(found.interval, 2)] if found else [None, None]
            cells += [_paper_bleu(beside[system.name], place)] * theirs
        rows.append(Row(tuple(cells)))
    for name in paper.BLEU if theirs else ():
        if name not in beside.values():
            cells = [f"{name} (paper)"]
            for place in range(len(sets)):
                cells += [None, None, _paper_bleu(name, place)]
            rows.append(Row(tuple(cells), paper=True))
    sizes = [comparison.sentences if comparison else 0 for comparison in sets.values()]
    counted = f"{sizes[0]:,} sentences"
    if len(sizes) > 1:
        counted += f", {sizes[1]:,} of them without unknown words"
    return Table(tuple(columns), tuple(rows), f"{TITLES[kind]}, {counted}")


def differences(
    sets: Mapping[str, Comparison | None], kind: str, systems: Sequence[System], baseline: str
) -> Table | None:
    """How far each system is from the baseline; None without another system.

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
    title = f"{TITLES[kind]}, difference to {baseline}"
    return Table(tuple(columns), tuple(rows), title) if rows else None


def _difference(found: Score) -> list[str | None]:
    return [
        fixed(found.difference, 2, sign=True),
        span(found.difference_interval, 2, sign=True),
        p_value(found.p_value),
    ]


def remark_on_unk(sets: Mapping[str, Comparison | None], systems: Sequence[System]) -> str | None:
    """By which search the translations of the No-UNK columns were made."""
    if "No UNK" not in sets:
        return None
    if sets["No UNK"] is None:
        return "Every sentence has an unknown word, so nothing is scored without them."
    same = [system.name for system in systems if not system.searched_without_unk]
    if not same:
        return "No UNK: by a search that may not generate UNK, as in the paper."
    allowed = "No UNK, the same translations as of all sentences, UNK not forbidden:"
    return f"{allowed} {', '.join(same)}."


def p_value(value: float | None) -> str | None:
    if value is None:
        return None
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _paper_bleu(row: str | None, place: int) -> str | None:
    return fixed(paper.BLEU[row][place], 2) if row else None


def table_2(trainings: Mapping[str, Training], beside: Mapping[str, str | None]) -> Table:
    """The paper's Table 2: how long the models were trained, and what they reached."""
    columns = [Column("Model", numeric=False)]
    for head in ("Updates", "Epochs", "Hours", "Train NLL", "Dev. NLL"):
        columns += [Column("ours", head), Column("paper", head, kind="paper")]
    for whose, kind in (("ours", ""), ("paper", "paper")):
        columns.append(Column(whose, "Device", numeric=False, kind=kind))
    rows = []
    for name, training in trainings.items():
        theirs = paper.TRAINING.get(beside.get(name) or "")
        ours = (
            f"{training.updates:,}",
            fixed(training.epochs, 1),
            _hours(training.hours),
            fixed(training.train_nats, 1),
            fixed(training.valid_nats, 1),
            training.device,
        )
        pairs = zip(ours, _paper_training(theirs), strict=True)
        rows.append(Row((name, *(cell for pair in pairs for cell in pair))))
    for name, theirs in paper.TRAINING.items():
        if name not in [beside.get(ours) for ours in trainings]:
            cells = (cell for value in _paper_training(theirs) for cell in (None, value))
            rows.append(Row((f"{name} (paper)", *cells), paper=True))
    return Table(tuple(columns), tuple(rows))


def _hours(hours: float) -> str:
    return fixed(hours, 1 if hours >= 0.95 else 2)


def _paper_training(theirs: paper.LearningStatistics | None) -> tuple[str | None, ...]:
    if theirs is None:
        return (None,) * 6
    return (
        f"{theirs.updates:,}",
        fixed(theirs.epochs, 1),
        fixed(theirs.hours, 0),
        fixed(theirs.train_nll, 1),
        fixed(theirs.dev_nll, 1),
        theirs.gpu,
    )


def training_remarks(trainings: Mapping[str, Training]) -> list[str]:
    """What the table does not show: interruptions, lost work, when the dev. NLL was lowest."""
    remarks = []
    for name, training in trainings.items():
        parts = []
        if training.valid_nats is not None:
            parts.append(f"lowest dev. NLL after {training.valid_update:,} updates")
            if training.last_valid_nats != training.valid_nats:
                parts.append(f"{training.last_valid_nats:.1f} at the end")
        if training.runs > 1:
            parts.append(f"trained in {training.runs} runs")
        if training.lost_hours >= 0.005:
            parts.append(f"{training.lost_hours:.2f} h of lost work not counted")
        if training.unlogged_updates:
            parts.append(
                f"the log lacks {training.unlogged_updates:,} updates, and the hours are without"
                " theirs"
            )
        if parts:
            remarks.append(f"{name}: {'; '.join(parts)}.")
    return remarks


def length_table(bins: Sequence[Bin], names: Sequence[str]) -> Table:
    """The paper's Figure 2 in numbers."""
    columns = [Column("Source words", numeric=False), Column("Sentences")]
    for name in names:
        columns += [Column("BLEU", name), Column("95%", name, kind="minor")]
    rows = []
    for bin in bins:
        cells: list[str | None] = [bin.label, f"{bin.sentences:,}"]
        for name in names:
            found = bin.comparison and bin.comparison.scores[name]
            cells += [fixed(found.bleu, 1), span(found.interval, 1)] if found else [None, None]
        rows.append(Row(tuple(cells)))
    return Table(tuple(columns), tuple(rows))
