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

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

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
    """Check one plain-text file, a sentence per line, in one pass.

    Args:
        has_symbols: whether fairseq's symbols may occur, as in a dictionary.

    Returns:
        How many lines it has, blank ones too.

    Raises:
        UserError: the file cannot be read or is empty; starts with a byte order mark; holds bytes
            that are not UTF-8, a NUL byte, a carriage return inside a line, or one of the words
            `<pad>`, `<s>`, `</s>`. Of several mistakes the first in the file is named, with its
            line and the column of its byte, both from 1.
    """
    try:
        with Path(path).open("rb") as file:
            lines = sum(1 for _ in lines_as_they_come(file, str(path), has_symbols))
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
    if not lines:
        raise UserError(f"{path} is empty; expected one sentence per line")
    return lines


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
    """Yield the lines of a text, and their numbers from 1.

    Args:
        name: what messages call the file.

    Raises:
        UserError: it begins with a byte order mark.
    """
    for number, line in enumerate(iter(file.readline, b""), start=1):
        if number == 1 and line.startswith(_BYTE_ORDER_MARK):
            raise UserError(
                f"{name} starts with a UTF-8 byte order mark (EF BB BF), which would become part of"
                " the first word; save it without one (`sed '1s/^\\xEF\\xBB\\xBF//'` removes it)"
            )
        yield number, line


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
