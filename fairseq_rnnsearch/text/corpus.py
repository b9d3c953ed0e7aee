"""Lines of texts: in UTF-8, and as fairseq-preprocess takes them for parallel text.

fairseq silently accepts several kinds of broken files and crashes unintelligibly on others: it
binarises two files of different lengths, splits a sentence at a stray carriage return, and turns
`<pad>` in the text into the padding symbol. Here each is a one-line `UserError`.

What fairseq does with a sound file decides what is sound. It reads with `open(path, "r",
encoding="utf-8")` and `readline`, so a line ends with LF, CRLF or a lone CR and nothing else;
it cuts words at `\\s+`, so every Unicode space separates words: the no-break space, and also
U+2028, U+0085, vertical tab and form feed, where `str.splitlines` would break the line (real
corpora hold thousands). These are allowed, and so are blank lines, which fairseq keeps as a lone
end symbol.
"""

import bz2
import contextlib
import gzip
import lzma
import os
import re
import select
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from io import BufferedIOBase, BufferedReader
from itertools import zip_longest
from pathlib import Path
from typing import IO, Literal, TypeVar

from fairseq_rnnsearch.errors import UserError, pluralize

Line = TypeVar("Line", str, bytes)
_AT_ONCE = 1 << 16  # bytes
_OPENERS: dict[bytes, Callable[[BufferedReader, Literal["rb"]], BufferedIOBase]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ": lzma.open,
    b"\x5d\x00\x00": lzma.open,  # xz's older format
}
_LANGUAGE = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
NO_LANGUAGES = {"bpe", "csv", "text", "tok", "tsv", "txt"}  # suffixes of text in any language

# What fairseq would misread, as patterns, and what is wrong with it. Bytes that are not UTF-8 are
# decoded to half surrogates (``surrogateescape``).
_MISTAKES = {
    "\udcff\udcfe|\udcfe\udcff": "byte 0x{byte:02x} is not valid UTF-8, but begins text in UTF-16; "
    "convert the file with `iconv -f UTF-16 -t UTF-8`",
    "[\udc80-\udcff]": "byte 0x{byte:02x} is not valid UTF-8; convert the file, for example with "
    "`iconv -f CP1252 -t UTF-8`",
    r"\0": "a NUL byte; expected plain UTF-8 text (is it UTF-16?)",
    r"\r(?!\n)": "a carriage return inside the line, where fairseq would break it in two; "
    "remove it (line ends may be LF or CRLF)",
}
# fairseq's Dictionary would take these words for its own symbols; `<unk>` is harmless
_SYMBOL = {
    r"(?<!\S)<(?:pad|/?s)>(?!\S)": "the word {word} is reserved: fairseq would turn it into "
    "its own symbol; remove or rewrite it",
}
_SUSPECT = re.compile("[\udc80-\udcff\0\r<]")  # fast; a mistake begins with one of these


def is_language(name: str) -> bool:
    """Tell whether the suffix of a file can name a language, such as en or pt-BR."""
    return bool(_LANGUAGE.fullmatch(name)) and name not in NO_LANGUAGES


def check_parallel(source: Path, target: Path, has_symbols: bool = False) -> int:
    """Check two text files whose lines translate each other.

    Args:
        has_symbols: as for `checked_lines`.

    Returns:
        How many lines each of them has.

    Raises:
        UserError: as from `checked_lines` for either file; or they have different numbers of lines.
    """
    counts = check_text(source, has_symbols), check_text(target, has_symbols)
    check_equally_long((source, target), counts)
    return counts[0]


def check_equally_long(names: Sequence[object], counts: Sequence[int]) -> None:
    """Check that two texts can translate each other line by line.

    Raises:
        UserError: they have different numbers of lines.
    """
    if counts[0] != counts[1]:
        lines, others = (pluralize(count, "line") for count in counts)
        raise UserError(
            f"{names[0]} has {lines} but {names[1]} has {others}; each line of the one must"
            " translate the same line of the other"
        )


def in_parallel(
    names: Sequence[object], source: Iterable[Line], target: Iterable[Line]
) -> Iterator[tuple[Line, Line]]:
    """Yield each line of a text with the same line of its translation.

    Raises:
        UserError: as from `check_equally_long`, at the end of the shorter one.
    """
    pairs = zip_longest(source, target)
    for number, pair in enumerate(pairs):
        if None in pair:
            more = number + 1 + sum(1 for _ in pairs)
            check_equally_long(names, [number if line is None else more for line in pair])
        yield pair


@contextlib.contextmanager
def opened(path: Path, may_be_packed: bool = True) -> Iterator[BufferedIOBase]:
    """Open a file, which may be compressed, once: a pipe can be read once.

    Raises:
        UserError: it cannot be read, or is a broken packed file.
    """
    try:
        with path.open("rb") as packed:
            start = packed.peek(5)
            unpack = next((u for magic, u in _OPENERS.items() if start.startswith(magic)), None)
            yield unpack(packed, "rb") if unpack and may_be_packed else packed
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as problem:
        reason = getattr(problem, "strerror", None) or f"broken packed file: {problem}"
        raise UserError(f"{path} cannot be read: {reason}") from problem


def check_text(path: Path, has_symbols: bool = False) -> int:
    """Check one plain-text file, a sentence per line, in one pass.

    Returns:
        How many lines it has, blank ones too.

    Raises:
        UserError: as from `checked_lines`.
    """
    return sum(1 for _ in checked_lines(path, has_symbols))


def checked_lines(
    path: Path, has_symbols: bool = False, may_be_packed: bool = False
) -> Iterator[str]:
    """Yield the checked lines of a file, with their line ends.

    Args:
        has_symbols: whether fairseq's symbols may occur, as in a dictionary.
        may_be_packed: whether the file may be compressed, which fairseq does not read.

    Raises:
        UserError: the file cannot be read or is empty; starts with a byte order mark; holds bytes
            that are not UTF-8, a NUL byte, a carriage return inside a line, or one of the words
            `<pad>`, `<s>`, `</s>`. Of several mistakes the first in the file is named, with its
            line and the column of its byte, both from 1.
    """
    line = None
    with opened(Path(path), may_be_packed) as file:
        for line in lines_as_they_come(file, str(path), has_symbols):
            yield line
    if line is None:
        raise UserError(f"{path} is empty; expected one sentence per line")


def lines_as_they_come(
    file: "IO[bytes] | BufferedIOBase | _Stream | _Whole",
    name: str,
    has_symbols: bool = False,
    mistakes: list[UserError] | None = None,
) -> Iterator[str]:
    """Yield the checked lines of a file, a pipe or a terminal.

    Args:
        name: what messages call the file.
        has_symbols: as for `checked_lines`.
        mistakes: if given, it receives a line's mistake, and the line is yielded as an empty one.

    Raises:
        UserError: as from `checked_lines`, but empty input is not a mistake.
    """
    wrong = _MISTAKES if has_symbols else _MISTAKES | _SYMBOL
    pattern, messages = re.compile("|".join(map("({})".format, wrong))), list(wrong.values())
    for number, line in enumerate(lines_of(file, name, "surrogateescape"), start=1):
        line = line.removesuffix("\n") + "\n"
        if _SUSPECT.search(line) and (found := pattern.search(line)):
            place = len(line[: found.start()].encode("utf-8", "surrogateescape")) + 1
            message = messages[found.lastindex - 1]
            message = message.format(byte=ord(found[0][0]) & 0xFF, word=found[0])
            mistake = UserError(f"{name}, line {number}, byte {place}: {message}")
            if mistakes is None:
                raise mistake
            mistakes.append(mistake)
            line = "\n"
        yield line


def lines_of(
    file: "IO[bytes] | BufferedIOBase | _Stream | _Whole",
    name: str,
    errors: str = "strict",
    has_mark: bool = False,
) -> Iterator[str]:
    """Yield the lines of a text in UTF-8, with their ends.

    Args:
        name: what messages call the text.
        errors: what to do with other bytes, as ``bytes.decode``.
        has_mark: whether the text may begin with a byte order mark, which is left out.

    Raises:
        UserError: it begins with a byte order mark, or a line is not UTF-8.
    """
    for number, line in enumerate(iter(file.readline, b""), start=1):
        try:
            text = line.decode("utf-8", errors)
        except UnicodeDecodeError as problem:
            raise UserError(f"{name}, line {number}: is not UTF-8: {problem}") from problem
        if number == 1 and not has_mark and text.startswith("\ufeff"):
            raise UserError(
                f"{name} starts with a UTF-8 byte order mark (EF BB BF), which would become part of"
                " the first word; save it without one (`sed '1s/^\\xEF\\xBB\\xBF//'` removes it)"
            )
        yield text.removeprefix("\ufeff") if number == 1 else text


def text_lines(path: str | os.PathLike[str], option: str = "") -> Iterator[str]:
    """Yield the lines of a file, with their ends; it may begin with a byte order mark.

    Args:
        option: the option that named it, for the message.

    Raises:
        UserError: if it is not UTF-8.
    """
    with open(path, "rb") as file:
        yield from lines_of(file, f"{option} {path}".lstrip(), has_mark=True)


# --- as many lines as are available --------------------------------------------------------------


def line_batches(
    path: str,
    counts: Iterable[int],
    before_waiting: Callable[[], None] = lambda: None,
    *,
    fills: bool = False,
    has_symbols: bool = False,
) -> Iterator[list[str]]:
    """Yield stripped lines of a file, as many at a time as are available.

    Args:
        path: a file, which may be compressed, or "-" for standard input.
        counts: the most lines of the first batch, the second, and so on without end.
        before_waiting: called before waiting for a line.
        fills: whether to wait until a batch has as many lines as it may.
        has_symbols: as for `lines_as_they_come`.

    Raises:
        UserError: as from `lines_as_they_come`; the lines before are yielded first.
    """
    counts = iter(counts)
    batch, most = [], next(counts)
    is_input = path == "-"
    is_whole = not is_input and Path(path).is_file()
    with (
        opened(Path(path))
        if is_whole
        else open(0 if is_input else path, "rb", buffering=0, closefd=not is_input)
    ) as file:
        stream = _Whole(file) if is_whole else _Stream(file.fileno())
        lines = lines_as_they_come(stream, "standard input" if is_input else path, has_symbols)
        try:
            while True:
                if not stream.has_more():
                    before_waiting()
                line = next(lines, None)
                if line is None:
                    break
                batch.append(line.strip())
                if len(batch) >= most or not (fills or stream.has_more()):
                    yield batch
                    batch, most = [], next(counts)
        except UserError:
            yield from [batch] * bool(batch)
            raise
    yield from [batch] * bool(batch)


class _Whole:
    """A file, all of whose lines are available."""

    def __init__(self, file: BufferedIOBase) -> None:
        self.readline, self.has_more = file.readline, lambda: True


class _Stream:
    """A stream of lines that can tell whether more input is available.

    Python's own files cannot tell, as they read ahead.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._held = descriptor, b""

    def readline(self) -> bytes:
        """Wait for a line and return it; nothing at the end."""
        while b"\n" not in self._held:
            if not (piece := os.read(self._descriptor, _AT_ONCE)):
                break
            self._held += piece
        end = self._held.find(b"\n") + 1 or len(self._held)
        line, self._held = self._held[:end], self._held[end:]
        return line

    def has_more(self) -> bool:
        """Tell whether a line, or the end, can be read without waiting for the writer."""
        if b"\n" in self._held:
            return True
        return bool(select.select([self._descriptor], [], [], 0)[0])
