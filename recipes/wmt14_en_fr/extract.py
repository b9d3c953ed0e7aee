"""Write the two sides of a corpus as plain text, text.en and text.fr.

    python recipes/wmt14_en_fr/extract.py --out FOLDER --archives FOLDER CORPUS...
    python recipes/wmt14_en_fr/extract.py --out FOLDER --files SOURCE:TARGET...

Several corpora are concatenated. A file is plain, .gz or SGML (.sgm).

Archives are unpacked with tarfile's data filter, so that they cannot write elsewhere.
"""

import argparse
import gzip
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from download import TABLE, Archive, read_table
from parallel_text import new_sides
from sgml import read_pair

from fairseq_rnnsearch.command_line import program
from fairseq_rnnsearch.errors import UserError, pluralize
from fairseq_rnnsearch.text.corpus import check_equally_long

_CHUNK = 1 << 20
_BROKEN = (tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error)


def copy_lines(content: IO[bytes], out: IO[bytes]) -> int:
    """Copy text, and end its last line by a line feed; return how many lines it has."""
    lines, last = 0, b"\n"
    while chunk := content.read(_CHUNK):
        lines += chunk.count(b"\n")
        out.write(chunk)
        last = chunk[-1:]
    if last != b"\n":
        out.write(b"\n")
        lines += 1
    return lines


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Open a file's content, unpacked if it is gzip's."""
    with path.open("rb") as file:
        if file.peek(2)[:2] == b"\x1f\x8b":
            with gzip.open(file) as content:
                yield content
        else:
            yield file


def take_members(path: Path, members: tuple[str, str], folder: Path) -> None:
    """Unpack two members of an archive, in one pass, below a folder.

    Raises:
        UserError: the archive is broken or ends early, or a member is not there.
    """
    wanted = set(members)
    try:
        with opened(path) as content, tarfile.open(fileobj=content, mode="r|") as archive:
            for member in archive:
                if (name := member.name.removeprefix("./")) in wanted:
                    archive.extract(member, folder, filter="data")
                    wanted.remove(name)
                if not wanted:
                    break
            # gzip compares the checksum only at the end of the content.
            while content.read(_CHUNK):
                pass
    except _BROKEN as problem:
        raise UserError(
            f"{path} ({path.stat().st_size:,} bytes) is broken or not whole: {problem}"
        ) from problem
    if wanted:
        raise UserError(f"{path} holds no {' and no '.join(sorted(wanted))}")


def add_pair(
    names: tuple[str, str],
    files: tuple[Path, Path],
    outputs: tuple[IO[bytes], IO[bytes]],
) -> int:
    """Add two files to the text.

    Args:
        names: what the files are called; the endings say what they are, and messages name them.

    Returns:
        The number of pairs.

    Raises:
        UserError: a file is broken, or the sides have different lengths.
    """
    if any(name.endswith((".sgm", ".sgml")) for name in names):
        pairs = read_pair(*files)
        for side, out in enumerate(outputs):
            out.writelines(f"{pair[side]}\n".encode() for pair in pairs)
        return len(pairs)
    counts = []
    for name, file, out in zip(names, files, outputs, strict=True):
        try:
            with opened(file) as content:
                counts.append(copy_lines(content, out))
        except _BROKEN as problem:
            raise UserError(f"{name} is broken or not whole: {problem}") from problem
    check_equally_long(names, counts)
    if not counts[0]:
        raise UserError(f"{names[0]} is empty")
    return counts[0]


def add_archive(
    archive: Archive, folder: Path, outputs: tuple[IO[bytes], IO[bytes]], out: Path
) -> int:
    """Add an archive's two members to the text, by way of a folder in ``out``; return the pairs."""
    path = folder / archive.name
    with tempfile.TemporaryDirectory(dir=out) as place:
        take_members(path, archive.members, Path(place))
        files = tuple(Path(place) / member for member in archive.members)
        names = tuple(f"{path}: {member}" for member in archive.members)
        return add_pair(names, files, outputs)


@program
def main() -> None:
    parser = argparse.ArgumentParser(description="Lay out the text of archives or files.")
    parser.add_argument("corpora", nargs="*", metavar="CORPUS")
    parser.add_argument("--out", type=Path, required=True, help="folder to make")
    parser.add_argument("--archives", type=Path, help="folder of archives")
    parser.add_argument("--files", nargs="+", default=[], metavar="SOURCE:TARGET")
    parser.add_argument("--table", type=Path, default=TABLE)
    options = parser.parse_args()
    table = read_table(options.table)
    options.out.mkdir(parents=True)
    with new_sides(options.out) as outputs:
        pairs = 0
        for names in (given.split(":") for given in options.files):
            pairs += add_pair(tuple(names), tuple(map(Path, names)), outputs)
        for corpus in options.corpora:
            pairs += add_archive(table[corpus], options.archives, outputs, options.out)
    print(f"  {pluralize(pairs, 'pair')}")


if __name__ == "__main__":
    main()
