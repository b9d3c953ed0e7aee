"""`report`: everything together, in the order of the paper, as report.md and its figures."""

import argparse
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.figures import Alignment, read_alignments, save_heatmap
from fairseq_rnnsearch.figures.pictures import save_figure
from fairseq_rnnsearch.files import write_text
from reporting import bleu_table, examples, lengths, paper, sentences, texts
from reporting import training_table as training
from reporting.length_curves import draw_length_curves
from reporting.options import add_list, check_names, given_together, named_paths
from reporting.tables import escaped, markdown

_PAPER = "Bahdanau et al. (2015)"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="made if missing")
    parser.add_argument(
        "--title",
        metavar="TEXT",
        help="default: the name of the source file, or, with the paper's values, that it is its"
        " experiment",
    )
    add_list(
        parser,
        "--note",
        "TEXT",
        "something that differs from the paper's set-up, any number of times",
    )
    texts.add_texts(parser)
    sentences.add_dictionaries(parser)
    bleu_table.add_bootstrap(parser)
    paper.add_paper(parser)
    training.add_logs(parser, required=False)
    lengths.add_bins(parser)
    add_list(
        parser,
        "--alignments",
        "NAME=FILE",
        "a model's alignments.jsonl, of which those of --alignment-ids are drawn",
    )
    add_list(
        parser,
        "--only-scored",
        "NAME",
        "a system that Table 1 alone shows, any number of times",
    )
    parser.add_argument("--alignment-ids", metavar="3,17", help="sentence numbers, from 1")
    examples.add_choice(parser)


def run(options: argparse.Namespace) -> None:
    """Write all tables and figures to FOLDER/report.md and FOLDER/figures.

    Table 1 is always there, Table 2 with --log, Figure 2 always, Figure 3 with --alignments, Table
    3 where there are long sentences.
    """
    # everything is read before the first score is computed
    test, systems = texts.read_texts(options)
    bootstrap = bleu_table.read_bootstrap(options, systems)
    trainings = training.read_logs(options)
    names = [system.name for system in systems]
    every_name = list(dict.fromkeys([*names, *trainings]))
    of_paper = paper.rows_beside(options, every_name, test.is_the_papers())
    chosen = examples.read_choice(options, test)
    alignments = _read_alignments(options)
    check_names(options.only_scored, names, "--only-scored")
    shown = [system for system in systems if system.name not in options.only_scored]
    shown_names = [system.name for system in shown]
    bins = lengths.read_bins(options, test, shown) if shown else []
    curves = lengths.curves(bins, shown_names, options.fewest) if shown else None

    parts = [*_heading(options, of_paper), *_set_up(options.note)]
    parts += _table_1(bleu_table.score_texts(test, systems, bootstrap, of_paper), of_paper, options)
    if trainings:
        parts += _table_2(trainings, of_paper)
    if shown:
        parts += _figure_2(bins, shown_names, options.fewest)
    if alignments:
        parts += _figure_3(alignments)
    if shown and chosen:
        parts += ["## Table 3: long sentences side by side"]
        parts += map(markdown, examples.example_tables(test, shown, chosen))
    parts += ["## Command", _code(shlex.join(["python", "recipes/reporting", *sys.argv[1:]]))]

    figures = options.out / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    if curves:
        save_figure(figures / "lengths.svg", draw_length_curves(*curves))
    for name, _, alignment in _heatmaps(alignments):
        words = alignment.source, alignment.target
        save_heatmap(figures / f"{name}.svg", *words, alignment.weights)
    write_text(options.out / "report.md", "\n\n".join(parts) + "\n")
    print(options.out / "report.md")


def _read_alignments(options: argparse.Namespace) -> dict[str, list[Alignment]]:
    """Read the alignments to draw, by the names of their models."""
    given_together({"--alignments": options.alignments, "--alignment-ids": options.alignment_ids})
    return {
        name: _chosen_alignments(path, options.alignment_ids)
        for name, path in named_paths(options.alignments, "--alignments").items()
    }


def _chosen_alignments(path: Path, ids: str) -> list[Alignment]:
    alignments = read_alignments(path)
    chosen = []
    for number in examples.parse_ids(ids, None, "--alignment-ids"):
        if number not in alignments:
            raise UserError(
                f"--alignment-ids: {path} has no sentence {number}; its {len(alignments)} sentences"
                f" are between {min(alignments)} and {max(alignments)}"
            )
        chosen.append(alignments[number])
        if not chosen[-1].weights.size:
            raise UserError(f"--alignment-ids: sentence {number} of {path} has no words to draw")
    return chosen


def _heatmaps(
    alignments: Mapping[str, Sequence[Alignment]],
) -> Iterable[tuple[str, str, Alignment]]:
    """Yield the name of each picture's file, its model and what it shows."""
    for number, (model, chosen) in enumerate(alignments.items()):
        for place, alignment in enumerate(chosen):
            yield f"alignment-{number}-{place}-{alignment.id}", model, alignment


# --- the parts of the text: Markdown, a paragraph each --------------------------------------------


def _heading(options: argparse.Namespace, of_paper: paper.PaperRows) -> list[str]:
    if of_paper.are_shown:
        title = "The experiment of the paper"
        about = (
            f"{_PAPER}, “Neural Machine Translation by Jointly Learning to Align and Translate”,"
            " table by table and figure by figure: the paper’s values stand in italics beside ours."
        )
    else:
        title = f"Translations of {options.source.name}"
        about = f"Tables and figures as in {_PAPER}, whose own values are left out."
    return [f"# {escaped(options.title or title)}", about]


def _set_up(notes: Sequence[str]) -> list[str]:
    return ["## Set-up: what differs from the paper", _list(notes)] if notes else []


def _table_1(
    scored: Sequence[bleu_table.ScoredTexts],
    of_paper: paper.PaperRows,
    options: argparse.Namespace,
) -> list[str]:
    parts = ["## Table 1: translation quality"]
    for of_kind in scored:
        parts += map(markdown, of_kind.tables)
        parts += [_list(of_kind.verdicts)] if of_kind.verdicts else []
        parts += [escaped(of_kind.remark)] if of_kind.remark else []
        parts.append(_code("\n".join(of_kind.signatures)))
    explained = [
        f"Intervals hold 95% of {options.resamples:,} bootstrap resamples of the sentences, drawn"
        " alike for all systems."
    ]
    if len(options.system) > 1:
        explained.append(
            "p is the share of resamples, as sacreBLEU counts it but with ties, in which chance"
            f" alone makes as large a difference. {bleu_table.WHAT_P_COMPARES}"
        )
    explained.append(
        "Tokenised BLEU is that of multi-bleu.perl and depends on the tokeniser; the paper does not"
        " say with which program and tokens it scored. Detokenised BLEU is sacreBLEU's own. chrF"
        " counts letters in common."
    )
    if of_paper.are_shown:
        explained.append(
            f"In italics: {_PAPER}, Table 1, section 5.1, and its reproduction in A. Berard’s PhD"
            " thesis (Lille 2018), Table 4.6 (tokenised, beam 8), all on newstest2014."
        )
    return [*parts, " ".join(explained)]


def _table_2(trainings: Mapping[str, training.Training], of_paper: paper.PaperRows) -> list[str]:
    remarks = training.training_remarks(trainings)
    explained = (
        "NLL: negative log-likelihood of a sentence in nats; the training set's is the mean over"
        " the last tenth of the updates, under dropout where there is any, the development set's"
        " the lowest of all validations. Hours count from the first batch to the last message of"
        " every run, validations and checkpoints included; work that an interruption lost is"
        " counted once, when it was done again, and the time between runs is not."
    )
    if of_paper.are_shown:
        explained += f" In italics: {_PAPER}, Table 2, appendix B.2."
    table = markdown(training.training_table(trainings, of_paper))
    return [
        "## Table 2: learning statistics",
        *([table, _list(remarks)] if remarks else [table]),
        explained,
    ]


def _figure_2(bins: Sequence[lengths.Bin], names: Sequence[str], fewest: int) -> list[str]:
    label = f"BLEU against source length for {', '.join(names)}"
    return [
        "## Figure 2: BLEU and sentence length",
        f"![{escaped(label)}](figures/lengths.svg)",
        markdown(lengths.length_table(bins, names)),
        "A bin's BLEU is the tokenised corpus BLEU of its sentences, those with unknown words"
        " included; its point stands at their mean length. Bins of fewer than"
        f" {fewest} sentences are in the table only. The paper prints its curves (Figure 2, section"
        " 5.1) without numbers; there RNNencdec falls with the length and RNNsearch-50 shows no"
        " deterioration even at 50 words and more.",
    ]


def _figure_3(alignments: Mapping[str, Sequence[Alignment]]) -> list[str]:
    parts = ["## Figure 3: alignments"]
    for name, model, alignment in _heatmaps(alignments):
        label = f"Alignment by {model} of sentence {alignment.id}: {' '.join(alignment.source)}"
        parts.append(f"![{escaped(label)}](figures/{name}.svg)")
        parts.append(f"*{escaped(f'{model}, sentence {alignment.id}')}*")
    parts.append(
        "A pixel is the weight of the source word above it for the target word at its left: black"
        " is 0, white is 1, as in the paper's Figure 3, section 5.2.1."
    )
    return parts


def _list(lines: Iterable[str]) -> str:
    return "\n".join(f"- {escaped(line)}" for line in lines)


def _code(text: str) -> str:
    """Return an indented block: nothing in it can end it."""
    return "\n".join(f"    {line}" for line in text.splitlines())
