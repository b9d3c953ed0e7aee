"""What fairseq-interactive is taught: checked lines, soft alignments, sentence numbers, heatmaps.

It takes any bytes for text or dies of them, formats every row of an alignment as a pair "{}-{}",
hands no sentence numbers to the task, and prints a translation after the task is done with it.
"""

import itertools
from collections.abc import Callable, Iterator
from types import FunctionType

from fairseq.tokenizer import tokenize_line
from omegaconf import DictConfig

from fairseq_rnnsearch.data.line_batches import line_batches

ROW_END = "\N{SYMBOL FOR RECORD SEPARATOR}"

_sessions: list["InteractiveSession"] = []  # the one that runs, if any


def run_session(main: FunctionType, cfg: DictConfig) -> None:
    """Let the program's ``main`` read, number and print sentences as a session does."""
    session = InteractiveSession(main.__globals__["make_batches"])
    names = {
        **main.__globals__,
        "buffered_read": read_lines,
        "make_batches": session.numbered_batches,
        "print": session.print,
    }
    _sessions.append(session)
    try:
        FunctionType(main.__code__, names)(cfg)
    finally:
        _sessions.remove(session)


def current_session() -> "InteractiveSession | None":
    """Return the session of this process, if its program is fairseq-interactive."""
    return _sessions[-1] if _sessions else None


def read_lines(path: str, count: int) -> Iterator[list[str]]:
    """Read the lines of a file, or of standard input for "-", up to so many at a time.

    Raises:
        UserError: as `line_batches`.
    """
    yield from line_batches(path, itertools.repeat(count), option="--input")


class InteractiveRow(list):
    """A row of soft weights that survives being unpacked as a pair."""

    def __iter__(self) -> Iterator[str]:
        return iter((",".join(list.__iter__(self)), ROW_END))


class InteractiveSession:
    """A run of fairseq-interactive.

    Args:
        make_batches: the program's own function.

    Attributes:
        sentences: the batch that is being translated: by their numbers lines and their words.
    """

    def __init__(self, make_batches: Callable[..., Iterator]) -> None:
        self.sentences: dict[int, tuple[str, list[str]]] = {}
        self._lines_before = 0
        self._after_translation: dict[int, str] = {}
        self._make_batches = make_batches

    def print_after_translation(self, sentence: int, text: str) -> None:
        """Print ``text`` below what fairseq prints of a sentence's best translation."""
        self._after_translation[sentence] = text

    def numbered_batches(
        self, lines: list[str], cfg, task, max_positions, encode: Callable[[str], str]
    ) -> Iterator:
        """Make batches as the program does, and remember the numbers and words of their lines."""
        for batch in self._make_batches(lines, cfg, task, max_positions, encode):
            self.sentences = {
                self._lines_before + i: (lines[i], tokenize_line(encode(lines[i])))
                for i in batch.ids.tolist()
            }
            yield batch
        self._lines_before += len(lines)

    def print(self, line: str) -> None:
        """Print a line of the program's, and after a translation what belongs below it."""
        print(line.replace("-" + ROW_END, ""), flush=True)
        kind, _, rest = line.partition("-")
        number = rest.partition("\t")[0]
        if kind == "P" and number.isdecimal() and int(number) in self._after_translation:
            print(self._after_translation.pop(int(number)), flush=True)
