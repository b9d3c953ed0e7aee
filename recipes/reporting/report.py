"""`report`: everything together, in the order of the paper, as report.md and as report.html.

The template `sections.jinja` says what both show, with the macros of `markdown.jinja` or of
`html.jinja`; every text that comes from outside is escaped for the one or the other as it is put
in.
"""

import argparse
import re
import shlex
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairseq_rnnsearch.alignment.figures import Alignment, draw_heatmap, read_alignments
from fairseq_rnnsearch.alignment.figures.page import STYLE
from fairseq_rnnsearch.alignment.figures.pictures import save_figure
from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.files import write_text
from reporting import bleu_table, examples, lengths, paper, sentences, tables, texts
from reporting import training_table as training
from reporting.inline_svg import inlined
from reporting.length_curves import draw_length_curves
from reporting.options import add_list, check_names, given_together, named_paths
from reporting.scores import METRICS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class Picture:
    """A figure, which the page holds as SVG and the Markdown file as a link."""

    name: str
    """The name of its file, without suffix."""
    svg: str
    label: str
    """What it shows, for those who cannot see it."""
    caption: str = ""


Report = Mapping[str, Any]
"""What the templates show, by the names that they have for it; what is None or empty has no
section."""


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
    parser.add_argument("--alignment-ids", metavar="3,17", help="sentence numbers, from 0")
    examples.add_choice(parser)


def run(options: argparse.Namespace) -> None:
    """Write all tables and figures to report.md and report.html.

    They go to FOLDER, and FOLDER/report.html needs nothing but a browser: Table 1 always, Table 2
    with --log, Figure 2 always, Figure 3 with --alignments, Table 3 where there are long sentences.
    The figures are in FOLDER/figures, too.
    """
    report = _made(options)
    markdown, page = to_markdown(report), to_html(report)
    figures = options.out / "figures"
    try:
        figures.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise UserError(f"{figures} cannot be made: {problem.strerror}") from problem
    for picture in (*report["length_curves"], *report["alignments"]):
        write_text(figures / f"{picture.name}.svg", picture.svg)
    write_text(options.out / "report.md", markdown)
    write_text(options.out / "report.html", page)
    print(options.out / "report.html")


def _made(options: argparse.Namespace) -> Report:
    """Make the report; everything is read before the first score is computed."""
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
    title = f"Translations of {options.source.name}"
    if of_paper.are_shown:
        title = "The experiment of the paper"
    return dict(
        title=options.title or title,
        with_paper=of_paper.are_shown,
        command=shlex.join(["python", "recipes/reporting", *sys.argv[1:]]),
        notes=options.note,
        scores=bleu_table.score_texts(test, systems, bootstrap, of_paper),
        resamples=bootstrap.resamples,
        has_p=len(systems) > 1,
        training=training.training_table(trainings, of_paper) if trainings else None,
        training_remarks=training.training_remarks(trainings),
        length_curves=_length_curves(bins, shown_names, options.fewest) if shown else [],
        length_table=lengths.length_table(bins, shown_names) if shown else None,
        fewest=options.fewest,
        alignments=_heatmaps(alignments),
        examples=examples.example_tables(test, shown, chosen) if shown else [],
    )


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


def _length_curves(bins: Sequence[lengths.Bin], names: Sequence[str], fewest: int) -> list[Picture]:
    svg = _svg_of(draw_length_curves(*lengths.curves(bins, names, fewest)))
    return [Picture("lengths", svg, f"BLEU against source length for {', '.join(names)}")]


def _svg_of(figure: "Figure") -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "figure.svg"
        save_figure(path, figure)
        return path.read_text(encoding="utf-8")


def _heatmaps(alignments: Mapping[str, Sequence[Alignment]]) -> list[Picture]:
    drawn = []
    for model, (name, chosen) in enumerate(alignments.items()):
        for place, alignment in enumerate(chosen):
            words = alignment.source, alignment.target
            drawn.append(
                Picture(
                    f"alignment-{model}-{place}-{alignment.id}",
                    _svg_of(draw_heatmap(*words, alignment.weights).figure),
                    f"Alignment by {name} of sentence {alignment.id}: {' '.join(alignment.source)}",
                    f"{name}, sentence {alignment.id}",
                )
            )
    return drawn


def to_html(report: Report) -> str:
    """Return the report as a page."""
    style = STYLE.read_text(encoding="utf-8")
    style += (_TEMPLATES / "report.css").read_text(encoding="utf-8")
    return _rendered(report, "html.jinja", style=style)


def to_markdown(report: Report) -> str:
    """Return the report as GitHub's Markdown."""
    from markupsafe import Markup

    def as_markdown(value: object) -> Markup:
        return value if isinstance(value, Markup) else Markup(tables.escaped(str(value)))

    text = _rendered(report, "markdown.jinja", finalize=as_markdown)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def _rendered(report: Report, form: str, finalize: Callable | None = None, style: str = "") -> str:
    """Put the report into the templates.

    Args:
        report: what is shown.
        form: the template with the macros.
        finalize: what escapes a value before HTML's escaping, which leaves `Markup` alone.
        style: the page's style sheet.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # only a report needs it

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        finalize=finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(markdown=tables.markdown, inlined=inlined)
    return environment.get_template("sections.jinja").render(
        form=form,
        report=report,
        style=style,
        missing=tables.MISSING,
        what_p_compares=bleu_table.WHAT_P_COMPARES,
        metrics=METRICS.values(),
    )
