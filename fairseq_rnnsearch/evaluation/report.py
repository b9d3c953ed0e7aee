"""The sections of the report, in the order of the paper's tables and figures."""

from collections.abc import Mapping, Sequence

from fairseq_rnnsearch.evaluation import examples, paper
from fairseq_rnnsearch.evaluation.bleu import TOKENISERS
from fairseq_rnnsearch.evaluation.document import (
    Block,
    Bullets,
    Paragraph,
    Picture,
    Pictures,
    Section,
    Signature,
)
from fairseq_rnnsearch.evaluation.lengths import Bin, curves
from fairseq_rnnsearch.evaluation.results import (
    WHAT_P_COMPARES,
    Bootstrap,
    differences,
    length_table,
    remark_on_unk,
    score_sets,
    table_1,
    table_2,
    training_remarks,
)
from fairseq_rnnsearch.evaluation.texts import System, TestSet
from fairseq_rnnsearch.evaluation.training_log import Training
from fairseq_rnnsearch.figures import Alignment, draw_heatmap, draw_length_curves, svg_text

LENGTH_FIGURE = "lengths"


def setup_section(notes: Sequence[str]) -> Section:
    """What the caller says about how this experiment departs from the paper's."""
    return Section("set-up", "Set-up", "what differs from the paper", (Bullets(tuple(notes)),))


def bleu_section(
    test: TestSet,
    systems: Sequence[System],
    bootstrap: Bootstrap,
    beside: Mapping[str, str | None],
) -> Section:
    blocks: list[Block] = []
    for kind in TOKENISERS:
        sets = score_sets(test, systems, kind, bootstrap)
        if sets is None:
            continue
        blocks.append(table_1(sets, kind, systems, beside))
        difference = differences(sets, kind, systems, bootstrap.baseline)
        blocks += [difference] if difference else []
        remark = remark_on_unk(sets, systems)
        blocks += [Paragraph(remark)] if remark else []
        blocks.append(Signature(sets["All"].signature))
    blocks.append(
        Paragraph(
            f"Intervals hold 95% of {bootstrap.resamples:,} bootstrap resamples of the sentences,"
            " drawn alike for all systems; p is the share of resamples, as sacreBLEU counts it, in"
            f" which chance alone makes as large a difference. {WHAT_P_COMPARES}"
            " Tokenised BLEU is that of multi-bleu.perl and depends on the tokeniser; the paper"
            " does not say with which program and tokens it scored. Detokenised BLEU is"
            " sacreBLEU's own."
            f" Grey: {paper.NAME}, Table 1, section 5.1, on newstest2014."
        )
    )
    return Section("table-1", "Table 1", "translation quality", tuple(blocks))


def training_section(
    trainings: Mapping[str, Training], beside: Mapping[str, str | None]
) -> Section:
    remarks = training_remarks(trainings)
    return Section(
        "table-2",
        "Table 2",
        "learning statistics",
        (
            table_2(trainings, beside),
            *([Bullets(tuple(remarks))] if remarks else []),
            Paragraph(
                "NLL: negative log-likelihood of a sentence in nats; the training set's is the mean"
                " over the last tenth of the updates, under dropout where there is any, the"
                " development set's the lowest of all validations. Hours count from the first batch"
                " to the last message of every run, validations and checkpoints included; work that"
                " an interruption lost is counted once, when it was done again, and the time"
                f" between runs is not. Grey: {paper.NAME}, Table 2, appendix B.2."
            ),
        ),
    )


def length_section(bins: Sequence[Bin], names: Sequence[str], fewest: int) -> Section:
    svg = svg_text(draw_length_curves(*curves(bins, names, fewest)))
    label = f"BLEU against source length for {', '.join(names)}"
    return Section(
        "figure-2",
        "Figure 2",
        "BLEU and sentence length",
        (
            Pictures((Picture(LENGTH_FIGURE, svg, label),)),
            length_table(bins, names),
            Paragraph(
                "A bin's BLEU is the tokenised corpus BLEU of its sentences, those with unknown"
                " words included; its point stands at their mean length. Bins of fewer than"
                f" {fewest} sentences are in the table only. The paper prints its curves (Figure 2,"
                " section 5.1) without numbers; there RNNencdec falls with the length and"
                " RNNsearch-50 shows no deterioration even at 50 words and more."
            ),
        ),
    )


def alignment_section(alignments: Mapping[str, Sequence[Alignment]]) -> Section:
    """
    Args:
        alignments: of each model, those to draw.
    """
    drawn = []
    for model, name in enumerate(alignments):
        for place, alignment in enumerate(alignments[name]):
            figure = draw_heatmap(alignment.source, alignment.target, alignment.weights)
            drawn.append(
                Picture(
                    f"alignment-{model}-{place}-{alignment.id}",
                    svg_text(figure),
                    f"Alignment by {name} of sentence {alignment.id}: {' '.join(alignment.source)}",
                    f"{name}, sentence {alignment.id}",
                )
            )
    return Section(
        "figure-3",
        "Figure 3",
        "alignments",
        (
            Pictures(tuple(drawn)),
            Paragraph(
                "A pixel is the weight of the source word above it for the target word at its left:"
                " black is 0, white is 1, as in the paper's Figure 3, section 5.2.1."
            ),
        ),
    )


def example_section(test: TestSet, systems: Sequence[System], ids: Sequence[int]) -> Section | None:
    """None without sentences."""
    if not ids:
        return None
    return Section(
        "table-3",
        "Table 3",
        "long sentences side by side",
        tuple(examples.tables(test, systems, ids)),
    )
