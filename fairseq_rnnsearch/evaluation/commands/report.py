"""`report`: everything together, as report.md and as report.html."""

import argparse
import shlex
import sys
from pathlib import Path

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.evaluation import examples, paper, report
from fairseq_rnnsearch.evaluation.commands import options as shared
from fairseq_rnnsearch.evaluation.commands.examples import add_choice
from fairseq_rnnsearch.evaluation.document import Document, Section, pictures, to_markdown
from fairseq_rnnsearch.evaluation.page import to_html
from fairseq_rnnsearch.evaluation.texts import named_paths
from fairseq_rnnsearch.figures import Alignment
from fairseq_rnnsearch.files import write_text

_FIGURES = "figures"


def add(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "report",
        help="all tables and figures in report.md and report.html",
        description=(
            "Write FOLDER/report.md, FOLDER/report.html, which needs nothing but a browser, and the"
            f" figures to FOLDER/{_FIGURES}: Table 1 always, Table 2 with --log, Figure 2 always,"
            " Figure 3 with --alignments, Table 3 where there are long sentences."
        ),
        allow_abbrev=False,
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="made if missing")
    parser.add_argument("--title", default="The experiment of the paper", metavar="TEXT")
    parser.add_argument(
        "--note",
        action="append",
        default=[],
        metavar="TEXT",
        help="something that differs from the paper's set-up, any number of times",
    )
    shared.add_texts(parser)
    shared.add_dictionaries(parser)
    shared.add_bootstrap(parser)
    shared.add_paper(parser)
    shared.add_logs(parser, required=False)
    shared.add_bins(parser)
    parser.add_argument(
        "--alignments",
        action="append",
        default=[],
        metavar="NAME=FILE",
        help="a model's alignments.jsonl, of which those of --alignment-ids are drawn",
    )
    parser.add_argument(
        "--only-scored",
        action="append",
        default=[],
        metavar="NAME",
        help="a system that Table 1 alone shows, any number of times",
    )
    parser.add_argument("--alignment-ids", metavar="3,17", help="sentence numbers, from 0")
    add_choice(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    sections = _sections(options)
    lead = (
        f"{paper.NAME}, “Neural Machine Translation by Jointly Learning to Align and Translate”,"
        " table by table and figure by figure: the paper’s values stand in grey beside ours."
    )
    document = Document(options.title, lead, tuple(sections), shlex.join(_command(sys.argv)))
    markdown, page = to_markdown(document, _FIGURES), to_html(document)
    figures = options.out / _FIGURES
    try:
        figures.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise UserError(f"{figures} cannot be made: {problem.strerror}") from problem
    for picture in pictures(sections):
        write_text(figures / f"{picture.name}.svg", picture.svg)
    write_text(options.out / "report.md", markdown)
    write_text(options.out / "report.html", page)
    print(options.out / "report.html")


def _command(arguments: list[str]) -> list[str]:
    return ["python", "-m", "fairseq_rnnsearch.evaluation", *arguments[1:]]


def _sections(options: argparse.Namespace) -> list[Section]:
    """Everything is read before the first score is computed."""
    test, systems = shared.read_texts(options)
    bootstrap = shared.bootstrap(options, systems)
    trainings = shared.read_logs(options)
    names = [system.name for system in systems]
    beside = shared.beside(options, list(dict.fromkeys([*names, *trainings])))
    chosen = examples.parse_ids_or_choose(options.examples, test)
    alignments = _alignments(options)

    shared.check_names(options.only_scored, names, "--only-scored")
    shown = [system for system in systems if system.name not in options.only_scored]
    bins = shared.read_bins(options, test, shown)
    sections = [report.setup_section(options.note)] if options.note else []
    sections.append(report.bleu_section(test, systems, bootstrap, beside))
    if trainings:
        sections.append(report.training_section(trainings, beside))
    if shown:
        sections.append(report.length_section(bins, [s.name for s in shown], options.fewest))
    if alignments:
        sections.append(report.alignment_section(alignments))
    table_3 = report.example_section(test, shown, chosen) if shown else None
    return sections + ([table_3] if table_3 else [])


def _alignments(options: argparse.Namespace) -> dict[str, list[Alignment]]:
    paths = named_paths(options.alignments, "--alignments")
    if bool(paths) != (options.alignment_ids is not None):
        raise UserError("--alignments and --alignment-ids belong together: give both or neither")
    return {
        name: examples.chosen_alignments(path, options.alignment_ids, "--alignment-ids")
        for name, path in paths.items()
    }
