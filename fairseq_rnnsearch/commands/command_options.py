"""What the commands for trained models share: parsers, options and warnings."""

import argparse
import contextlib
import gc
import logging
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairseq_rnnsearch.checks import LOADED_DTYPES, PIECES, count_of
from fairseq_rnnsearch.errors import UserError, as_text, pluralize
from fairseq_rnnsearch.figures.alignment import SOURCE_END_CHOICES, UNITS, Units
from fairseq_rnnsearch.figures.gallery import FORMATS
from fairseq_rnnsearch.figures.pictures import STYLES, Look, title_of
from fairseq_rnnsearch.text.plain_text import PlainText
from fairseq_rnnsearch.text.tokenizers import TOKENIZERS

if TYPE_CHECKING:
    from fairseq_rnnsearch.commands.translator import Translator


@contextlib.contextmanager
def starting() -> Iterator[None]:
    """Import torch and load a model without garbage collection.

    It would take a fifth of the time and find nothing, as modules stay. Later collections skip what
    is there by then.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        if was_enabled:
            gc.enable()


@contextlib.contextmanager
def progress(
    what: str, unit: str, *, is_shown: bool, total: int | None = None
) -> Iterator[Callable]:
    """Show a progress bar, whose function counts, above which messages go on."""
    if not is_shown:
        yield lambda number: None
        return
    from tqdm import tqdm  # takes a while
    from tqdm.contrib.logging import logging_redirect_tqdm

    bar = tqdm(desc=what, unit=unit, total=total, file=sys.stderr)
    with logging_redirect_tqdm(), bar:
        yield bar.update


def add_heatmap_options(parser: argparse.ArgumentParser, formats: str) -> None:
    """Add the options for what to draw, and how.

    Args:
        formats: the default formats.
    """
    parser.add_argument(
        "--heatmap-format",
        default=formats,
        metavar="FORMATS",
        help=f"any of {','.join(FORMATS)} (default: %(default)s)",
    )
    parser.add_argument(
        "--heatmap-samples",
        default="all",
        metavar="SENTENCES",
        help="a number (the first N), all, or ids:3,17, from 1 (default: %(default)s)",
    )
    parser.add_argument(
        "--heatmap-style",
        choices=tuple(STYLES),
        default="paper",
        help="style of pictures and page: paper (white on black), inverted (black on white, for"
        " print), slides (black on white, large) (default: %(default)s)",
    )
    parser.add_argument(
        "--heatmap-pieces",
        choices=PIECES,
        default="merge",
        help="subword pieces: merged to words, or kept (default: %(default)s)",
    )
    parser.add_argument(
        "--heatmap-source-end",
        choices=SOURCE_END_CHOICES,
        default="keep",
        help="column of the source's end symbol (default: %(default)s)",
    )
    parser.add_argument(
        "--units",
        choices=UNITS,
        help="what links count, from 0: words between the spaces of your lines, spans of characters"
        " in them (0:5-0:7), or the model's tokens (default: words; for Moses, and characters as"
        " tokens, tokens)",
    )


def add_markup_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--markup`` and ``--inverse``."""
    parser.add_argument(
        "--markup",
        action="store_true",
        help="lines have tags and placeholders, such as <b>, <br/>, {name} and %%s; they come back"
        " around the same words",
    )
    parser.add_argument(
        "--inverse",
        metavar="MODEL",
        help="a model of the other direction, such as fr-en: the links of both are joined",
    )


def units_of(options: argparse.Namespace, *texts: PlainText) -> Units:
    """Return what links count; one line says if it is tokens although nobody asked for them.

    Args:
        texts: the tokenisation of each side.
    """
    if options.units == "tokens" or (options.heatmap_pieces == "keep" and not options.units):
        return "tokens"
    # Moses' tokens cannot be found in a line again; few texts of characters have spaces
    without = {"moses"} if options.units else {"moses", "character"}
    if found := without.intersection(text.tokenizer for text in texts):
        print(f"links count the tokens of --tokenizer {min(found)}", file=sys.stderr)
        return "tokens"
    return options.units or "words"


def warn_of_tokens(numbers: Sequence[int]) -> None:
    """Name the lines, from 1, whose links count tokens because their words were not found."""
    if numbers:
        of, lines = pluralize(len(numbers), "line"), ", ".join(map(str, numbers[:5]))
        print(f"links count tokens in {of}, such as {lines}", file=sys.stderr)


def inverse_of(model: "Translator", options: argparse.Namespace) -> "Translator":
    """Load the model of the other direction.

    Raises:
        UserError: if it is not one.
    """
    from fairseq_rnnsearch.commands.loading import load

    swapped = {"source_lang": options.target_lang, "target_lang": options.source_lang}
    inverse = load(options.inverse.split(":"), options.data, **load_options(options) | swapped)
    if inverse.languages != model.languages[::-1]:
        raise UserError(
            f"--inverse {options.inverse}: translates {' to '.join(inverse.languages)}; expected a"
            f" model from {' to '.join(model.languages[::-1])}"
        )
    return inverse


def look_of(options: argparse.Namespace, files: Sequence[str], languages: Sequence[str]) -> Look:
    """Return the look of alignments.

    Args:
        files: names of the texts, for the title.
        languages: of the model's source and target, for the title.
    """
    return Look(options.heatmap_style, title_of(languages, files), options.checkpoint)


def add_text_options(parser: argparse.ArgumentParser) -> None:
    """Add the data folder, the languages and the tokenisation."""
    parser.add_argument(
        "--data",
        metavar="DIR",
        help="data folder with the dictionaries of the training (default: the one that the "
        "checkpoint names, or one of that name beside it)",
    )
    parser.add_argument(
        "--user-dir",
        metavar="DIR",
        help="folder that registers a model of your own, as for fairseq-train",
    )
    parser.add_argument("-s", "--source-lang", metavar="LANG", help="default: the checkpoint's")
    parser.add_argument("-t", "--target-lang", metavar="LANG", help="default: the checkpoint's")
    text = parser.add_argument_group(
        "how text becomes tokens", "default: as preprocessing.json in the data folder says"
    )
    text.add_argument("--tokenizer", choices=TOKENIZERS)
    text.add_argument("--lowercase", action=argparse.BooleanOptionalAction)
    text.add_argument("--bpe-codes", type=Path, metavar="FILE", help="merges of subword-nmt")


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for ``load``, and the batch size."""
    add_text_options(parser)
    parser.add_argument(
        "--batch-size",
        type=count_of,
        default=32,
        metavar="N",
        help="sentences at a time (default: %(default)s)",
    )
    parser.add_argument("--device", default="cpu", help="such as cuda (default: %(default)s)")
    parser.add_argument(
        "--compute-dtype",
        choices=LOADED_DTYPES,
        help="type of the operands of matrix products (default: float32; a checkpoint's own)",
    )


def load_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments for ``load`` from the options added above."""
    names = (
        *("source_lang", "target_lang", "tokenizer", "lowercase", "bpe_codes"),
        *("device", "compute_dtype", "user_dir"),
    )
    return {name: value for name, value in vars(options).items() if name in names}


class _AsText(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return as_text(super().format(record))


def show_warnings() -> None:
    """Show only warnings, each in one line.

    Call it before importing fairseq, which otherwise shows every message.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(_AsText("fairseq_rnnsearch: warning: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    # fairseq's import calls functions that torch has deprecated
    warnings.filterwarnings("ignore", r"`torch\.jit\.", FutureWarning)
