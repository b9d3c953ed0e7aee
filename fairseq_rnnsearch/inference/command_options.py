"""What commands for trained models share: how they begin, options, and how they warn."""

import argparse
import logging
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from fairseq_rnnsearch import __version__
from fairseq_rnnsearch.alignment.figures.alignment import SOURCE_END_CHOICES
from fairseq_rnnsearch.alignment.figures.gallery import FORMATS
from fairseq_rnnsearch.alignment.figures.styles import STYLES, Look, title_of
from fairseq_rnnsearch.arguments import count_of
from fairseq_rnnsearch.data.plain_text import TOKENIZERS
from fairseq_rnnsearch.errors import OneLineParser, UsageError, as_text


class MixedParser(OneLineParser):
    """Reads files before and after options with ``parse_intermixed_args``.

    argparse then reads a command line twice. The first time it leaves the files aside, which are no
    mistake.
    """

    parse_known_args = argparse.ArgumentParser.parse_known_args


def parser_of(
    prog: str, doc: str | None, kind: type[OneLineParser] = OneLineParser
) -> argparse.ArgumentParser:
    """Return the parser of a command, which knows ``--help`` and ``--version``.

    Args:
        doc: what its help begins with, the docstring of its module; None under ``python -OO``.
        kind: the parser's class.
    """
    parser = kind(
        prog=prog,
        description=(doc or "").replace("``", ""),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"{prog} {__version__}")
    return parser


def add_heatmap_options(parser: argparse.ArgumentParser, formats: str) -> None:
    """Add what is drawn, and how.

    Args:
        formats: those by default.
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
        help="title of the page (default: the names of the languages and files)",
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


def look_of(
    options: argparse.Namespace, files: Sequence[str], languages: Sequence[str], model: str
) -> Look:
    """Return how alignments look.

    Args:
        files: names of the texts, for the title.
        languages: those of the model, the source's and the target's, for the title.
        model: the checkpoint.
    """
    title = options.heatmap_title or title_of(languages, files)
    return Look(options.heatmap_style, title, model)


def add_text_options(parser: argparse.ArgumentParser) -> None:
    """Add the data folder, the languages, and how text becomes tokens."""
    parser.add_argument(
        "--data",
        metavar="DIR",
        help="data folder with the dictionaries of the training (default: the one that the "
        "checkpoint names, or one of that name beside it)",
    )
    parser.add_argument("-s", "--source-lang", metavar="LANG", help="default: the checkpoint's")
    parser.add_argument("-t", "--target-lang", metavar="LANG", help="default: the checkpoint's")
    text = parser.add_argument_group(
        "how text becomes tokens", "default: as preprocessing.json in the data folder says"
    )
    text.add_argument("--tokenizer", choices=TOKENIZERS)
    text.add_argument("--lowercase", action=argparse.BooleanOptionalAction)
    text.add_argument("--bpe-codes", type=Path, metavar="FILE", help="of subword-nmt")


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Add what ``load`` takes, and how many sentences are computed at a time."""
    add_text_options(parser)
    parser.add_argument(
        "--batch-size",
        type=count_of,
        default=32,
        metavar="N",
        help="sentences at a time (default: %(default)s)",
    )
    parser.add_argument("--device", default="cpu", help="such as cuda (default: %(default)s)")


def load_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of ``load`` among the options that the functions above have added."""
    names = ("source_lang", "target_lang", "tokenizer", "lowercase", "bpe_codes", "device")
    return {name: value for name, value in vars(options).items() if name in names}


_MODELS = (b"PK", b"\x80")  # how checkpoints begin: archives and, of old, pickles


def check_places(models: Iterable[str], files: Iterable[str | Path] = ()) -> None:
    """Check that models and files were given, and not each in the place of the other.

    Raises:
        UsageError: a text file or a sentence stands where a model is expected, or a sentence where
            a file is.
    """
    for path in models:
        if _is_text(Path(path)):
            raise UsageError(f"{path} is a text file, and no model; the model comes first")
        _refuse_sentence(path, "model")
    for file in files:
        _refuse_sentence(str(file), "file")


def _is_text(path: Path) -> bool:
    """Tell text from checkpoints."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        beginning = file.read(1000)
    return bool(beginning) and b"\0" not in beginning and not beginning.startswith(_MODELS)


def _refuse_sentence(given: str, expected: str) -> None:
    if " " in given.strip() and not Path(given).exists():
        raise UsageError(
            f"{given!r:.60} is no {expected} that exists, and looks like a sentence; "
            "sentences come from files or standard input"
        )


class _AsText(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return as_text(super().format(record))


def show_warnings() -> None:
    """Show warnings in a line each, and nothing else of what is logged.

    It comes before fairseq is imported, which otherwise lets everything be shown.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(_AsText("fairseq_rnnsearch: warning: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    # fairseq's import calls what torch will give up
    warnings.filterwarnings("ignore", r"`torch\.jit\.", FutureWarning)
