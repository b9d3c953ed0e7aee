"""``rnnsearch-translate``: plain text in, its translation out.

    rnnsearch-translate en-fr                                # sentences that you type
    rnnsearch-translate checkpoint_best.pt news.en > news.fr
    cat news.en | rnnsearch-translate runs/quickstart --json --heatmap-dir heatmaps

A line is a sentence, and each has its own line of output, as soon as it is translated. Text is
tokenised, split into subwords and put together again as preprocessing.json in the data folder says.
CHECKPOINT may also be a folder, such as the work folder of a recipe.
"""

import argparse
import contextlib
import functools
import itertools
import json
import logging
import shutil
import sys
from collections.abc import Container, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fairseq_rnnsearch.checks import BEAM, count_of
from fairseq_rnnsearch.command_line import parser_of, program, usage
from fairseq_rnnsearch.commands.command_options import (
    add_heatmap_options,
    add_markup_options,
    add_model_options,
    inverse_of,
    load_options,
    look_of,
    progress,
    show_warnings,
    starting,
    units_of,
    warn_of_tokens,
)
from fairseq_rnnsearch.commands.doubt import doubted_lines
from fairseq_rnnsearch.errors import UserError, as_text, pluralize
from fairseq_rnnsearch.figures import Gallery, parse_formats, parse_samples, text_heatmap
from fairseq_rnnsearch.text.corpus import line_batches
from fairseq_rnnsearch.text.tables import is_table, rows_of

if TYPE_CHECKING:
    from fairseq_rnnsearch.commands.translator import Translation, Translator

logger = logging.getLogger(__name__)

BATCHES = 8  # to read and sort by length together, after the first
INTERRUPTED = 130  # the exit status after SIGINT, as in shells


@program
def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; Ctrl-C ends it with `INTERRUPTED`."""
    show_warnings()
    options = _parser().parse_intermixed_args(arguments)
    with usage():  # before torch is imported
        formats = parse_formats(options.heatmap_format)
        samples = parse_samples(options.heatmap_samples)
    try:
        _translate(options, formats, samples)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def _translate(
    options: argparse.Namespace, formats: Sequence[str], samples: Container[int]
) -> None:
    with starting():
        from fairseq_rnnsearch.commands.loading import load  # imports torch

        model = load(options.checkpoint.split(":"), options.data, **load_options(options))
    if (options.heatmap_dir or options.terminal) and not model.has_alignment:
        raise UserError("the model has no attention, so there is no alignment to draw")
    is_typed = _is_typed(options)
    if is_typed:
        print("Type a sentence, and Enter; Ctrl-D ends.", file=sys.stderr)
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    with contextlib.ExitStack() as stack:
        gallery = None
        if options.heatmap_dir:
            names = [Path(name).name for name in options.files if name != "-"]
            look = look_of(options, names, model.languages)
            gallery = stack.enter_context(
                Gallery(options.heatmap_dir, formats, look, replaces=True)
            )
        if not is_typed:  # each line is a text of its own there
            stack.enter_context(model.as_one_text())
        try:
            drawn = _print_translations(model, options, gallery, samples)
        except KeyboardInterrupt:
            if is_typed:
                stack.close()  # draw what there is: many users end their input this way
            raise
    if gallery:
        print(f"{pluralize(drawn, 'alignment')} drawn in {options.heatmap_dir}", file=sys.stderr)


def _is_typed(options: argparse.Namespace) -> bool:
    return "-" in options.files and sys.stdin.isatty()


def _print_translations(
    model: "Translator",
    options: argparse.Namespace,
    gallery: Gallery | None,
    samples: Container[int],
) -> int:
    """Print the translations of all lines, and return the number of drawn ones."""
    drawn, doubted, in_tokens = 0, {}, []
    inverse = inverse_of(model, options) if options.inverse else None
    texts = model.source_text, model.target_text
    units = units_of(options, *texts) if gallery else "tokens"
    translations = (
        translation
        for lines in _batches(options)
        for translation in model.translate(
            lines,
            options.beam or max(BEAM, options.nbest or 1),
            lenpen=options.lenpen,
            forbid_unk=options.forbid_unk,
            authors_search=options.authors_search,
            replace_unk=options.replace_unk,
            split_sentences=options.split_sentences,
            markup=options.markup,
            inverse=inverse,
            pieces=options.heatmap_pieces,
            batch_size=options.batch_size,
        )
    )
    for number, translation in enumerate(translations, start=1):
        print(_shown(number, translation, options), flush=True)
        if options.terminal and translation.alignment.has_words:
            shown = translation.alignment.with_source_end(options.heatmap_source_end)
            columns = shutil.get_terminal_size().columns
            print(text_heatmap(shown, columns, colour=sys.stdout.isatty()), flush=True)
        if gallery and number in samples:
            counted = translation.alignment.in_units(units)
            in_tokens += [number] * (counted.units != units)
            shown = counted.with_source_end(options.heatmap_source_end)
            gallery.add(replace(shown, id=number))
            drawn += shown.has_words
        if translation.doubt:
            doubted[number] = translation.doubt
    if doubted and not _is_typed(options):
        logger.warning(doubted_lines(doubted, number))
    warn_of_tokens(in_tokens)
    return drawn


def _batches(options: argparse.Namespace) -> Iterator[list[str]]:
    """Yield the lines of all files, with a progress bar if it disturbs no other output.

    The first batch is small, so that output appears soon.
    """
    later = BATCHES * options.batch_size
    is_shown = sys.stderr.isatty() and not sys.stdout.isatty() and not sys.stdin.isatty()
    with progress("translating", "line", is_shown=is_shown) as count:
        for file in options.files:
            counts = itertools.chain([options.batch_size], itertools.repeat(later))
            prompt = "> " if file == "-" and sys.stdin.isatty() else ""
            show_prompt = functools.partial(print, prompt, end="", file=sys.stderr, flush=True)
            if is_table(file):
                print(f"{file}: its first column is translated", file=sys.stderr)
                column = iter([row[0].strip() for row in rows_of(Path(file))])
                batches = iter(lambda column=column: list(itertools.islice(column, later)), [])
            else:
                batches = line_batches(file, counts, show_prompt)
            for lines in batches:
                yield lines
                count(len(lines))


def _shown(number: int, translation: "Translation", options: argparse.Namespace) -> str:
    """Return a sentence's output: one line, or several with --nbest."""
    best, show = translation.nbest[: options.nbest], as_text if sys.stdout.isatty() else str
    if options.json:
        value = {"id": number, **translation.to_dict()}
        if options.nbest:
            value["nbest"] = [one.to_dict() for one in best]
        return show(json.dumps(value, ensure_ascii=False))
    if options.nbest:
        rows = ((number, f"{one.score:.4f}", show(one.text), one.doubt or "") for one in best)
        return "\n".join("\t".join(map(str, row)) for row in rows)
    names = f"unknown: {show(', '.join(translation.unknown))}" if translation.unknown else ""
    mark = (names or translation.doubt) if sys.stdout.isatty() else None
    text = translation.markup if options.markup else translation.text
    return show(text) + (f"  [{mark}]" if mark else "")


def _parser() -> argparse.ArgumentParser:
    parser = parser_of("rnnsearch-translate", __doc__)
    parser.add_argument(
        "checkpoint",
        help="a model of the package (en-fr, fr-en), a folder of rnnsearch-export, a checkpoint, "
        "several of these joined by :, or the work folder of rnnsearch-train or a recipe",
    )
    parser.add_argument(
        "files",
        nargs="*",
        default=["-"],
        metavar="FILE",
        help="text with one sentence per line, or the first column of a .tsv, which may be"
        " compressed; - is standard input (default: -)",
    )
    parser.add_argument(
        "--beam",
        type=count_of,
        metavar="N",
        help=f"hypotheses that the search keeps (default: {BEAM}, or as many as --nbest)",
    )
    parser.add_argument(
        "--lenpen",
        type=float,
        default=1.0,
        metavar="N",
        help="above 1 prefers longer translations, like fairseq's option (default: %(default)s)",
    )
    parser.add_argument("--forbid-unk", action="store_true", help="never write the unknown word")
    parser.add_argument(
        "--replace-unk",
        action="store_true",
        help="replace each unknown word by the source word with the largest weight",
    )
    parser.add_argument(
        "--split-sentences",
        action=argparse.BooleanOptionalAction,
        help="translate each sentence of a line by itself, and join the translations (default: if"
        " the model was trained on single sentences)",
    )
    parser.add_argument(
        "--authors-search",
        action="store_true",
        help="the authors' beam search instead of fairseq's",
    )
    add_markup_options(parser)
    parser.add_argument(
        "--nbest",
        type=count_of,
        metavar="N",
        help="print the N best translations of each line, one per line: the line's number (from"
        " 1), score, text and doubt, separated by tabs; fewer where the search has found fewer",
    )
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument(
        "--json",
        action="store_true",
        help="print one object per line: id (from 1), source, source_tokens, unknown (unknown "
        "source words), text, score (log probability to base 2 per token), "
        "tokens, probabilities, weights (a row per token), is_cut, doubt, and nbest; "
        "with --heatmap-pieces keep, for subword pieces",
    )
    shown.add_argument(
        "--terminal", action="store_true", help="draw each alignment below its translation"
    )
    parser.add_argument("--heatmap-dir", type=Path, metavar="DIR", help="draw alignments here")
    add_heatmap_options(parser, "png")
    add_model_options(parser)
    return parser


if __name__ == "__main__":
    main()
