"""Checks of plain-text parallel files, before fairseq-preprocess touches them.

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

import re
from collections.abc import Iterator
from io import BufferedIOBase
from pathlib import Path
from typing import BinaryIO

from fairseq_rnnsearch.errors import UserError, counted

# This bounds the memory: a longer line is not a sentence but a file without line breaks.
_MAX_LINE_BYTES = 1 << 24

_WRONG_BEGINNINGS = {
    b"\xef\xbb\xbf": "starts with a UTF-8 byte order mark (EF BB BF), which would become part of"
    " the first word; save it without one (`sed '1s/^\\xEF\\xBB\\xBF//'` removes it)",
    b"\xff\xfe": "starts with a UTF-16 byte order mark (FF FE); convert it to UTF-8 without one",
    b"\xfe\xff": "starts with a UTF-16 byte order mark (FE FF); convert it to UTF-8 without one",
    b"\x1f\x8b": "is gzip-compressed; unpack it first (gunzip)",
    b"BZh": "is packed by bzip2; unpack it first (bunzip2)",
    b"\xfd7zXZ": "is packed by xz; unpack it first (unxz)",
    b"\x28\xb5\x2f\xfd": "is packed by zstd; unpack it first (unzstd)",
    b"PK\x03\x04": "is a zip archive; unpack it, and name the file of it",
    b"7z\xbc\xaf": "is a 7z archive; unpack it, and name the file of it",
    b"Rar!": "is a rar archive; unpack it, and name the file of it",
    b"\x04\x22\x4d\x18": "is packed by lz4; unpack it first (unlz4)",
    b"\x1f\x9d": "is packed by compress; unpack it first (uncompress)",
    b"\xd0\xcf\x11\xe0": "is a document of Microsoft Office; save it as plain text",
    b"%PDF-": "is a PDF; save it as plain text",
}
_TAR = re.compile(rb".{257}ustar", re.DOTALL)

_LANGUAGE = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
NO_LANGUAGES = {"bpe", "csv", "text", "tok", "tsv", "txt"}  # suffixes of text in any language

_LONE_RETURN = re.compile(rb"\r(?!\n)")
# fairseq's Dictionary would take these words for its own symbols; `<unk>` is harmless.
_SPECIAL_BYTES = re.compile(rb"<(?:pad|/?s)>")
_SPECIAL_WORD = re.compile(r"(?<!\S)<(?:pad|/?s)>(?!\S)")


def is_language(name: str) -> bool:
    """Tell whether the suffix of a file can name a language, such as en or pt-BR."""
    return bool(_LANGUAGE.fullmatch(name)) and name not in NO_LANGUAGES


def check_parallel(source: Path, target: Path, has_symbols: bool = False) -> int:
    """Check two text files whose lines translate each other.

    Args:
        has_symbols: as for `check_text`.

    Returns:
        How many lines each of them has.

    Raises:
        UserError: as from `check_text` for either file; or they have different numbers of lines.
    """
    lines, others = check_text(source, has_symbols), check_text(target, has_symbols)
    if lines != others:
        raise UserError(
            f"{source} has {counted(lines, 'line')} but {target} has {counted(others, 'line')};"
            " each line of the one must translate the same line of the other"
        )
    return lines


def check_text(path: Path, has_symbols: bool = False) -> int:
    """Check one plain-text file, a sentence per line, in one pass and bounded memory.

    Args:
        has_symbols: whether fairseq's symbols may occur, as in a dictionary.

    Returns:
        How many lines it has, blank ones too.

    Raises:
        UserError: the file is missing, not a regular file, unreadable or empty; starts with a
            byte order mark, or is packed or a PDF; holds bytes that are not UTF-8, a NUL byte, a
            carriage return inside a line, a line of more than 16 MiB, or one of the words
            `<pad>`, `<s>`, `</s>`. Of several mistakes the first in the file is named, with its
            line and the column of its byte, both from 1.
    """
    path = Path(path)
    check_is_file(path)
    try:
        with path.open("rb") as file:
            lines = sum(1 for _ in lines_as_they_come(file, str(path), has_symbols))
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
    if not lines:
        raise UserError(f"{path} is empty; expected one sentence per line")
    return lines


def check_is_file(path: Path) -> None:
    """Check that a text can be read more than once, and has an end.

    Raises:
        UserError: there is no such file, or it is a folder, a pipe or a device.
    """
    if not path.exists():
        raise UserError(f"{path}: no such file")
    if not path.is_file():
        kind = "a folder" if path.is_dir() else "a pipe or a device"
        raise UserError(f"{path} is {kind}; expected a plain text file, one sentence per line")


def lines_as_they_come(
    file: BinaryIO | BufferedIOBase,
    name: str,
    has_symbols: bool = False,
    mistakes: list[UserError] | None = None,
) -> Iterator[str]:
    """Yield the lines of a file, a pipe or a terminal, each after a check.

    Args:
        name: what messages call the file.
        has_symbols: as for `check_text`.
        mistakes: if given, it receives a line's mistake, and the line is yielded as an empty one.

    Raises:
        UserError: as from `check_text`, but empty input is not a mistake.
    """
    for number, line in numbered_lines(file, name):
        line = line.removesuffix(b"\n") + b"\n"
        try:
            text = _checked(line, f"{name}, line {number}", has_symbols)
        except UserError as mistake:
            if mistakes is None:
                raise
            mistakes.append(mistake)
            text = "\n"
        yield text


def numbered_lines(file: BinaryIO | BufferedIOBase, name: str) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of what seems to be UTF-8 text, and their numbers from 1.

    Args:
        name: what messages call the file.

    Raises:
        UserError: it begins like something else, or has a line of more than 16 MiB.
    """
    lines = iter(lambda: file.readline(_MAX_LINE_BYTES + 1), b"")
    for number, line in enumerate(lines, start=1):
        if len(line) > _MAX_LINE_BYTES:
            raise UserError(
                f"{name}, line {number}: longer than {_MAX_LINE_BYTES >> 20} MiB; expected one"
                " sentence per line, ended by a line feed (LF or CRLF)"
            )
        if number == 1:
            _check_beginning(line, name)
        yield number, line


def _check_beginning(beginning: bytes, name: str) -> None:
    """Check that the first bytes of a file, 262 or more, may be those of UTF-8 text.

    Raises:
        UserError: they are those of packed text, of another encoding or of a PDF.
    """
    for wrong, description in _WRONG_BEGINNINGS.items():
        if beginning.startswith(wrong):
            raise UserError(f"{name} {description}")
    if _TAR.match(beginning):
        raise UserError(f"{name} is a tar archive; unpack it, and name a file of it")


def _checked(line: bytes, where: str, has_symbols: bool) -> str:
    """Return the text of a line, or raise a UserError for the first mistake in it."""
    mistakes: list[tuple[int, str]] = []  # (offset of the byte, what is wrong)
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        text = line[: error.start].decode("utf-8")
        mistakes.append(
            (
                error.start,
                f"byte 0x{line[error.start]:02x} is not valid UTF-8; convert the file, for"
                " example with `iconv -f LATIN1 -t UTF-8`",
            )
        )
    if (offset := line.find(b"\0")) >= 0:
        mistakes.append((offset, "a NUL byte; expected plain UTF-8 text (is it UTF-16?)"))
    if b"\r" in line and (lone := _LONE_RETURN.search(line)):
        mistakes.append(
            (
                lone.start(),
                "a carriage return inside the line, where fairseq would break it in two;"
                " remove it (line ends may be LF or CRLF)",
            )
        )
    # The search in bytes is fast, but also finds words that merely contain the symbol, such as
    # `a<s>b`.
    is_suspect = not has_symbols and _SPECIAL_BYTES.search(line)
    if is_suspect and (word := _SPECIAL_WORD.search(text)):
        mistakes.append(
            (
                len(text[: word.start()].encode()),
                f"the word {word.group()} is reserved: fairseq would turn it into its own symbol;"
                " remove or rewrite it",
            )
        )
    if mistakes:
        offset, wrong = min(mistakes)
        raise UserError(f"{where}, byte {offset + 1}: {wrong}")
    return text
