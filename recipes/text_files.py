"""Text and sentence pairs in files that may be compressed by gzip, with ``.gz`` in their names."""

import gzip
import io
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from fairseq_rnnsearch.errors import UserError, counted
from fairseq_rnnsearch.files import write_text

Pair = tuple[str, str]

LANGUAGES = ("en", "fr")
MOST = 2**30  # bytes of a text; a packed file of a megabyte may hold a thousand times as much


def unpack(packed: bytes, where: str) -> bytes:
    """Unpack gzip-compressed bytes.

    Args:
        where: its name in messages.

    Raises:
        UserError: if it is broken, or the text is larger.
    """
    try:
        with gzip.open(io.BytesIO(packed)) as file:
            text = file.read(MOST)
            if file.read(1):
                raise UserError(f"{where} unpacks to more than {MOST:,} bytes")
            return text
    except (gzip.BadGzipFile, EOFError, zlib.error) as problem:
        raise UserError(f"{where} is a broken gzip file: {problem}") from problem


def read_bytes(path: Path) -> bytes:
    """Return the text of a file, or else of the packed one beside it.

    Raises:
        UserError: as `unpack`; there is neither, or it cannot be read.
    """
    packed = path.with_name(f"{path.name}.gz")
    try:
        if path.exists():
            return path.read_bytes()
        if packed.exists():
            return unpack(packed.read_bytes(), str(packed))
    except OSError as problem:
        raise UserError(f"{path} cannot be read: {problem.strerror}") from problem
    raise UserError(f"{path.parent} has neither {path.name} nor {packed.name}")


def read_lines(path: Path) -> list[str]:
    """Return the lines of such a text, without their ends.

    Raises:
        UserError: as `read_bytes`; the text is not UTF-8.
    """
    try:
        return read_bytes(path).decode("utf-8").removesuffix("\n").split("\n")
    except UnicodeDecodeError as problem:
        raise UserError(f"{path} or its .gz is not UTF-8 text: {problem}") from problem


def read_pairs(prefix: str | Path) -> list[Pair]:
    """Read PREFIX.en and PREFIX.fr, whose lines translate each other.

    Raises:
        UserError: as `read_lines`; their numbers of lines differ.
    """
    english, french = (read_lines(Path(f"{prefix}.{language}")) for language in LANGUAGES)
    if len(english) != len(french):
        raise UserError(
            f"{prefix}.en has {counted(len(english), 'line')} and {prefix}.fr has"
            f" {len(french):,}; each line must translate the same line of the other"
        )
    return list(zip(english, french, strict=True))


def read_tatoeba(path: Path) -> Iterator[Pair]:
    """Read a download of manythings.org/anki: English, tab, French, perhaps more.

    Raises:
        UserError: it is none, or cannot be read.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if name.split("/")[-1] == "fra.txt"]
            if not names:
                raise UserError(f"{path} holds no fra.txt")
            size = archive.getinfo(names[0]).file_size
            if size > MOST:
                raise UserError(f"{path}: fra.txt has {size:,} bytes, more than {MOST:,}")
            with archive.open(names[0]) as file:
                for number, line in enumerate(io.TextIOWrapper(file, encoding="utf-8"), start=1):
                    columns = line.rstrip("\n").split("\t")
                    if len(columns) < 2:
                        raise UserError(f"{path}: fra.txt, line {number} has no tab")
                    yield columns[0], columns[1]
    except (OSError, EOFError, zlib.error, zipfile.BadZipFile, UnicodeDecodeError) as problem:
        raise UserError(f"cannot read {path}: {problem}") from problem


def write_pairs(pairs: Sequence[Pair], out: Path, name: str) -> None:
    """Write OUT/NAME.en and OUT/NAME.fr."""
    for side, language in enumerate(LANGUAGES):
        write_text(out / f"{name}.{language}", "".join(f"{pair[side]}\n" for pair in pairs))
