"""``rnnsearch-align``: forced alignment of two text files.

    rnnsearch-align en-fr --source test.en --target test.fr --heatmap-dir aligned
    rnnsearch-align data-bin --path checkpoint_best.pt \\
        --source test.en --target test.fr --heatmap-dir aligned --heatmap-format pharaoh,jsonl,html

Each line of the target file is scored as the translation of the same line of the source file, and
the alignment weights that the model computes on the way are written. Nothing has to be binarised.
A warning tells when the model does not know many of the words, or when the languages seem swapped.
Models that were trained with ``--target-foresight`` are for this alone.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

from fairseq_rnnsearch.alignment.figures import Gallery, parse_formats, parse_samples
from fairseq_rnnsearch.alignment.figures.alignment import Alignment
from fairseq_rnnsearch.data.corpus import check_parallel
from fairseq_rnnsearch.errors import counted, program, usage
from fairseq_rnnsearch.inference.command_options import (
    add_heatmap_options,
    add_model_options,
    check_places,
    load_options,
    look_of,
    parser_of,
    show_warnings,
)

if TYPE_CHECKING:
    from fairseq_rnnsearch.inference.translator import Translator

AT_ONCE = 320  # pairs that are read, sorted by length and aligned together


@program
def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command.

    Raises:
        UserError: for every mistake in options or files; shown as one line when nobody catches it.
    """
    show_warnings()
    options = _parser().parse_args(arguments)
    with usage():
        formats = parse_formats(options.heatmap_format)
        samples = parse_samples(options.heatmap_samples)
    path, data = (options.path, options.data) if options.path else (options.data, None)
    check_places(path.split(":"), (options.source, options.target))
    from fairseq_rnnsearch.devices import usable_device  # torch, which --help need not import

    with usage():
        usable_device(options.device, "--device")
    lines = check_parallel(options.source, options.target)
    samples.check(lines, str(options.source))
    from fairseq_rnnsearch.inference.translator import load

    model = load(path.split(":"), data, **load_options(options))
    chosen = [number for number in range(lines) if number in samples]
    aligned = _aligned(model, options, chosen)
    progress = tqdm(aligned, "aligning", total=len(chosen), unit="pair", file=sys.stderr)
    files = [options.source.name, options.target.name]
    look = look_of(options, files, model.languages, path)
    with (
        logging_redirect_tqdm(),
        Gallery(options.heatmap_dir, formats, look=look) as gallery,
        model.as_one_text(),
    ):
        for alignment in progress:
            gallery.add(alignment)
    print(f"{counted(len(chosen), 'pair')} aligned in {options.heatmap_dir}", file=sys.stderr)


def _aligned(
    model: "Translator", options: argparse.Namespace, numbers: Iterable[int]
) -> Iterator[Alignment]:
    """Yield alignments in the order of the files, which are never in memory as a whole."""
    with (
        options.source.open(encoding="utf-8") as source,
        options.target.open(encoding="utf-8") as target,
    ):
        pairs = enumerate(zip(source, target, strict=True))
        numbers = iter(numbers)
        while at_once := list(islice(numbers, AT_ONCE)):
            wanted = set(at_once)
            chunk = list(islice((pair for i, pair in pairs if i in wanted), len(at_once)))
            aligned = model.align(
                *map(list, zip(*chunk, strict=True)),
                posterior=options.posterior,
                pieces=options.heatmap_pieces,
                batch_size=options.batch_size,
            )
            for number, pair in zip(at_once, aligned, strict=True):
                alignment = pair.alignment.with_source_end(options.heatmap_source_end)
                yield replace(alignment, id=number)


def _parser() -> argparse.ArgumentParser:
    parser = parser_of("rnnsearch-align", __doc__)
    parser.add_argument(
        "data",
        help="data folder with the dictionaries of the training; or, without --path, a model: one"
        " that the package brings, such as en-fr, or a folder of rnnsearch-export",
    )
    parser.add_argument("--path", help="checkpoint, or several with : between")
    parser.add_argument("--source", type=Path, required=True, metavar="FILE")
    parser.add_argument("--target", type=Path, required=True, metavar="FILE")
    parser.add_argument("--heatmap-dir", type=Path, required=True, metavar="DIR")
    parser.add_argument(
        "--posterior",
        action="store_true",
        help="weights in the knowledge of the word that is being aligned: how much attention a"
        " source word has, times the probability of the target word if it had all of it",
    )
    add_heatmap_options(parser, "pharaoh,jsonl")
    add_model_options(parser)
    return parser


if __name__ == "__main__":
    main()
