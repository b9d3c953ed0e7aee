"""What fairseq-interactive is taught: checked lines, soft alignments, sentence numbers, heatmaps.

It takes any bytes for text or dies of them, formats every row of an alignment as a pair "{}-{}",
hands no sentence numbers to the task, and prints a translation after the task is done with it.
"""

import builtins
import contextlib
import sys
from collections.abc import Iterator
from types import ModuleType

from fairseq_rnnsearch.data.corpus import lines_as_they_come
from fairseq_rnnsearch.errors import UserError

ROW_END = "\N{SYMBOL FOR RECORD SEPARATOR}"


def read_lines(path: str, count: int) -> Iterator[list[str]]:
    """The lines of a file, or of standard input for "-", so many at a time.

    Raises:
        UserError: the file cannot be read, or as ``lines_as_they_come``.
    """
    try:
        file = sys.stdin.buffer if path == "-" else open(path, "rb")  # noqa: SIM115
    except OSError as problem:
        raise UserError(f"--input {path}: {problem.strerror}") from problem
    batch: list[str] = []
    with contextlib.nullcontext() if path == "-" else file:
        try:
            for line in lines_as_they_come(file, "standard input" if path == "-" else path):
                batch.append(line.strip())
                if len(batch) >= count:
                    yield batch
                    batch = []
        except UserError:
            yield from [batch] * bool(batch)  # the lines before it are translated
            raise
    yield from [batch] * bool(batch)


class InteractiveRow(list):
    """A row of soft weights that survives being unpacked as a pair."""

    def __iter__(self) -> Iterator[str]:
        return iter((",".join(list.__iter__(self)), ROW_END))


class InteractiveSession:
    """The running fairseq-interactive.

    Attributes:
        ids: numbers of the sentences of the batch that is being translated.
    """

    def __init__(self, program: ModuleType) -> None:
        self.ids: list[int] = []
        self._lines_before = 0
        self._after_translation: dict[int, str] = {}
        self._make_batches = program.make_batches
        program.make_batches = self._numbered_batches
        program.buffered_read = read_lines
        program.print = self._print

    @classmethod
    def current(cls) -> "InteractiveSession | None":
        """The session of this process, if its program is fairseq-interactive."""
        program = sys.modules.get("fairseq_cli.interactive")
        if program is None:
            return None
        session = getattr(program, "rnnsearch_session", None)
        if session is None:
            session = program.rnnsearch_session = cls(program)
        return session

    def print_after_translation(self, sentence: int, text: str) -> None:
        """Print ``text`` below what fairseq prints of a sentence's best translation."""
        self._after_translation[sentence] = text

    def _numbered_batches(self, lines: list[str], *args, **kwargs) -> Iterator:
        for batch in self._make_batches(lines, *args, **kwargs):
            self.ids = [self._lines_before + i for i in batch.ids.tolist()]
            yield batch
        self._lines_before += len(lines)

    def _print(self, line: str) -> None:
        builtins.print(line.replace("-" + ROW_END, ""), flush=True)
        kind, _, rest = line.partition("-")
        number = rest.partition("\t")[0]
        if kind == "P" and number.isdecimal() and int(number) in self._after_translation:
            builtins.print(self._after_translation.pop(int(number)), flush=True)
