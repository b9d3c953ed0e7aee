"""Text and sentence pairs in files that may be compressed by gzip, with ``.gz`` in their names."""

import gzip
import io
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from fairseq_rnnsearch.files import write_text
from fairseq_rnnsearch.text.corpus import in_parallel

Pair = tuple[str, str]

LANGUAGES = ("en", "fr")


def read_bytes(path: Path) -> bytes:
    """Return the text of a file, or else of the packed one beside it."""
    if path.exists():
        return path.read_bytes()
    return gzip.decompress(path.with_name(f"{path.name}.gz").read_bytes())


def read_lines(path: Path) -> list[str]:
    """Return the lines of such a text, without their ends."""
    return read_bytes(path).decode("utf-8").removesuffix("\n").split("\n")


def read_pairs(prefix: str | Path) -> list[Pair]:
    """Read PREFIX.en and PREFIX.fr, whose lines translate each other.

    Raises:
        UserError: their numbers of lines differ.
    """
    files = [Path(f"{prefix}.{language}") for language in LANGUAGES]
    return list(in_parallel(files, *map(read_lines, files)))


def read_tatoeba(path: Path) -> Iterator[Pair]:
    """Read a download of manythings.org/anki: English, tab, French, perhaps more."""
    with zipfile.ZipFile(path) as archive, archive.open("fra.txt") as file:
        for line in io.TextIOWrapper(file, encoding="utf-8"):
            english, french, *_ = line.rstrip("\n").split("\t")
            yield english, french


def write_pairs(pairs: Sequence[Pair], out: Path, name: str) -> None:
    """Write OUT/NAME.en and OUT/NAME.fr."""
    for side, language in enumerate(LANGUAGES):
        write_text(out / f"{name}.{language}", "".join(f"{pair[side]}\n" for pair in pairs))
