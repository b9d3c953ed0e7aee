"""``python -m fairseq_rnnsearch.align``: forced alignment of two text files.

    python -m fairseq_rnnsearch.align data-bin --path checkpoint_best.pt \\
        --source test.en --target test.fr --heatmap-dir aligned --heatmap-format pharaoh,jsonl,html

Each line of the target file is scored as the translation of the same line of the source file, and
the alignment weights that the model computes on the way are written. Nothing has to be binarised.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from tqdm import tqdm

from fairseq_rnnsearch.data.corpus import check_parallel
from fairseq_rnnsearch.data.plain_text import TOKENIZERS
from fairseq_rnnsearch.devices import usable_device
from fairseq_rnnsearch.errors import OneLineParser, UserError, install_excepthook
from fairseq_rnnsearch.figures import Gallery, parse_formats, parse_samples
from fairseq_rnnsearch.figures.alignment import SOURCE_END_CHOICES, Alignment
from fairseq_rnnsearch.figures.gallery import FORMATS
from fairseq_rnnsearch.figures.styles import STYLES, Look, title_of
from fairseq_rnnsearch.translator import Translator, load
from fairseq_rnnsearch.wording import counted

AT_ONCE = 320  # pairs that are read, sorted by length and aligned together


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command.

    Raises:
        UserError: for every mistake in options or files; shown as one line when nobody catches it.
    """
    install_excepthook()
    options = _parser().parse_args(arguments)
    formats = parse_formats(options.heatmap_format)
    samples = parse_samples(options.heatmap_samples)
    if options.batch_size < 1:
        raise UserError(f"--batch-size {options.batch_size}: must be at least 1")
    device = usable_device(options.device, "--device")
    lines = check_parallel(options.source, options.target)[0].lines
    samples.check(lines, str(options.source))
    model = load(
        options.path.split(":"),
        options.data,
        source_lang=options.source_lang,
        target_lang=options.target_lang,
        tokenizer=options.tokenizer,
        lowercase=options.lowercase,
        bpe_codes=options.bpe_codes,
        device=device,
    )
    chosen = [number for number in range(lines) if number in samples]
    aligned = _aligned(model, options, chosen)
    progress = tqdm(aligned, "aligning", total=len(chosen), unit="pair", file=sys.stderr)
    with Gallery(options.heatmap_dir, formats, look=_look(options)) as gallery:
        for alignment in progress:
            gallery.add(alignment)
    print(f"{counted(len(chosen), 'pair')} aligned in {options.heatmap_dir}", file=sys.stderr)


def _look(options: argparse.Namespace) -> Look:
    languages = options.source_lang, options.target_lang
    title = options.heatmap_title or title_of(languages, [options.source.name, options.target.name])
    return Look(options.heatmap_style, title, options.path)


def _aligned(
    model: Translator, options: argparse.Namespace, numbers: Iterable[int]
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
                pieces=options.heatmap_pieces,
                batch_size=options.batch_size,
            )
            for number, pair in zip(at_once, aligned, strict=True):
                alignment = pair.alignment.with_source_end(options.heatmap_source_end)
                yield replace(alignment, id=number)


def _parser() -> argparse.ArgumentParser:
    parser = OneLineParser(
        prog="python -m fairseq_rnnsearch.align",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("data", help="data folder with the dictionaries of the training")
    parser.add_argument("--path", required=True, help="checkpoint, or several with : between")
    parser.add_argument("--source", type=Path, required=True, metavar="FILE")
    parser.add_argument("--target", type=Path, required=True, metavar="FILE")
    parser.add_argument("--heatmap-dir", type=Path, required=True, metavar="DIR")
    parser.add_argument(
        "--heatmap-format",
        default="pharaoh,jsonl",
        help=f"any of {','.join(FORMATS)} (default: %(default)s)",
    )
    parser.add_argument(
        "--heatmap-samples",
        default="all",
        help="a number (the first N), all, or ids:3,17, from 0 (default: %(default)s)",
    )
    parser.add_argument(
        "--heatmap-style",
        choices=tuple(STYLES),
        default="paper",
        help="of pictures and the page: paper (white on black), inverted (black on white, for"
        " print), slides (black on white, large) (default: %(default)s)",
    )
    parser.add_argument(
        "--heatmap-title",
        metavar="TEXT",
        help="title of the page (default: the names of the files)",
    )
    parser.add_argument(
        "--heatmap-pieces",
        choices=("merge", "keep"),
        default="merge",
        help="subword pieces: merged to words, or kept (default: %(default)s)",
    )
    parser.add_argument(
        "--heatmap-source-end",
        choices=SOURCE_END_CHOICES,
        default="keep",
        help="column of the source's end symbol (default: %(default)s)",
    )
    parser.add_argument("-s", "--source-lang", help="default: the checkpoint's")
    parser.add_argument("-t", "--target-lang", help="default: the checkpoint's")
    text = parser.add_argument_group(
        "how text becomes tokens", "default: as preprocessing.json in the data folder says"
    )
    text.add_argument("--tokenizer", choices=TOKENIZERS)
    text.add_argument("--lowercase", action=argparse.BooleanOptionalAction)
    text.add_argument("--bpe-codes", type=Path, metavar="FILE", help="of subword-nmt")
    parser.add_argument("--batch-size", type=int, default=32, help="default: %(default)s")
    parser.add_argument("--device", default="cpu", help="default: %(default)s")
    return parser


if __name__ == "__main__":
    main()
