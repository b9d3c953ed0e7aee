"""fairseq's programs: options, text, printed alignments, and work at their end."""

import atexit
import contextlib
import functools
import io
import itertools
import logging
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar

import numpy as np
import torch
from omegaconf import DictConfig
from torch import Tensor, nn

from fairseq_rnnsearch.figures.alignment import merged_weights
from fairseq_rnnsearch.runs.options import check_configuration
from fairseq_rnnsearch.text.corpus import line_batches, text_lines

# functions that the running program calls at its end
_ends: ContextVar[contextlib.ExitStack | None] = ContextVar("ends", default=None)


def checked(main: Callable) -> Callable:
    """Wrap a program's ``main``: check its options first, do the remaining work last.

    Text is UTF-8 in any locale. A terminal shows messages of a few lines, or all with
    RNNSEARCH_WHOLE_LOG=1; pipes and files get all.
    """

    @functools.wraps(main)
    def run(cfg: DictConfig | Namespace, *args, **options) -> None:
        check_configuration(cfg)
        for stream in (sys.stdin, sys.stdout):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(encoding="utf-8")
        for handler in logging.root.handlers:
            is_screen = type(handler) is logging.StreamHandler and handler.stream.isatty()
            if is_screen and not os.environ.get("RNNSEARCH_WHOLE_LOG"):
                handler.addFilter(_is_short)
        with contextlib.ExitStack() as finishing:
            token = _ends.set(finishing)
            finishing.callback(_ends.reset, token)
            main(cfg, *args, **options)

    return run


def _is_short(record: logging.LogRecord) -> bool:
    """Tell configurations and printed models, which are pages long, from other messages."""
    return not isinstance(record.msg, DictConfig | Namespace | nn.Module)


def read_checked(path: str, buffer_size: int) -> Iterator[list[str]]:
    """Yield lines to translate as fairseq-interactive's ``buffered_read`` does.

    Raises:
        UserError: as ``line_batches``, after the lines before.
    """
    return line_batches(path, itertools.repeat(buffer_size), fills=True, has_symbols=True)


def at_the_end(finish: Callable[[], None]) -> None:
    """Call a function when the running program ends, however it ends.

    fairseq-generate and fairseq-interactive do not tell a task that they end. Without a program,
    the function is called when Python ends.
    """
    finishing = _ends.get()
    if finishing is None:
        atexit.register(finish)
    else:
        finishing.callback(finish)


def printed_alignment(weights: Tensor, print_alignment: str | None, numbered: bool) -> list:
    """Return what fairseq expects in ``hypo["alignment"]``.

    Args:
        weights: ``(target, source)``, both with their end symbols.
        print_alignment: "soft" for rows of weights, one for each target symbol; otherwise pairs
            (source, target) of every target word and the source word with its largest weight.
        numbered: append its target position to each soft row, ``0.9,0.1-0``, because
            fairseq-interactive can print only pairs.
    """
    if print_alignment == "soft":
        rows = [[f"{p:.6f}" for p in row] for row in weights.tolist()]
        return [(",".join(row), str(i)) for i, row in enumerate(rows)] if numbered else rows
    if weights.size(1) < 2:  # an empty source sentence has no word to point at
        return []
    best = weights[:-1, :-1].argmax(dim=1).tolist()
    return [(source, target) for target, source in enumerate(best)]


def in_printed_words(weights: Tensor, sides: Sequence[tuple[Sequence[str], str | None]]) -> Tensor:
    """Return the weights between the words of the printed text.

    Args:
        weights: ``(target, source)``, both with their end symbols.
        sides: the source's and the target's symbols, without the end symbols, and the
            ``--post-process`` with which they are printed.
    """
    columns, rows = (_first_symbols(*side) for side in sides)
    merged = merged_weights(weights.cpu().numpy(), columns, rows)
    return torch.from_numpy(merged).to(weights.dtype)


def _first_symbols(symbols: Sequence[str], option: str | None) -> np.ndarray:
    """Return the place of each printed word's first symbol, and of the end symbol."""
    from fairseq.data.data_utils import post_process

    before = (" ".join(symbols[: end + 1]) for end in range(len(symbols)))
    words = [max(1, len(post_process(text, option).split())) for text in before]
    return np.append(np.flatnonzero(np.diff(words, prepend=0)), len(symbols))


def replace_unknown_words(
    replace: Callable, text: str, source: str, alignment: list, dictionary: dict, unknown: str
) -> str:
    """Let fairseq's ``replace_unk`` take positions in either form.

    Args:
        replace: fairseq's function, whose arguments follow; it takes one source position for each
            target word.
        alignment: of `printed_alignment`.
    """
    return replace(text, source, [_position(one) for one in alignment], dictionary, unknown)


def read_replacements(file: str | None) -> dict[str, str] | None:
    """Read the dictionary of ``--replace-unk``; without a file's name it is empty.

    Args:
        file: the option's value; without one, fairseq looks for a file named "@@ ".
    """
    if file is None:
        return None
    lines = text_lines(file, "--replace-unk") if file not in ("", "@@ ") else ()
    return dict(line.split()[:2] for line in lines)


def _position(printed: tuple | list) -> int:
    """Return the source word of a pair, or the one with the largest weight of a soft row."""
    if not isinstance(printed, tuple | list):  # from another task
        return int(printed)
    if isinstance(printed[0], int):
        return printed[0]
    weights = printed[0].split(",") if isinstance(printed, tuple) else printed
    words = [float(weight) for weight in weights[:-1] or weights]
    return words.index(max(words))
