"""Download archives; each appears only when complete, and interrupted downloads resume.

    python recipes/wmt14_en_fr/download.py --out FOLDER --mirror URL CORPUS...

An archive that is already in the folder is used as it is: it may be another release, or an excerpt.
A downloaded one must have the size and checksum in archives.tsv.
"""

import argparse
import hashlib
import os
import time
import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import NamedTuple

from fairseq_rnnsearch.command_line import program
from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.files import bring_to_disk

TABLE = Path(__file__).with_name("archives.tsv")
_CHUNK = 1 << 20
_BUSY = (429, 500, 502, 503, 504)  # answers of a server that may have time later
_WAIT_SECONDS = 60
"""A connection counts as lost when no byte has come for so long."""


class Archive(NamedTuple):
    """An archive, as a line of the table describes it.

    Attributes:
        path: where it is below the mirror.
        name: what it is called in the folder of archives.
        size: its bytes, or None where they are not known.
        checksum: ``sha256:...`` or ``md5:...``, or None where it is not known.
        members: the paths of the English and of the French text inside.
    """

    corpus: str
    path: str
    name: str
    size: int | None
    checksum: str | None
    members: tuple[str, str]


def read_table(path: Path = TABLE) -> dict[str, Archive]:
    """Read the archives by the names of their corpora, in the order of the table."""
    lines = path.read_text(encoding="utf-8").splitlines()
    archives = {}
    for corpus, below, name, size, checksum, *members in (
        line.split("\t") for line in lines if line and not line.startswith("#")
    ):
        known = None if size == "-" else int(size), None if checksum == "-" else checksum
        archives[corpus] = Archive(corpus, below, name, *known, tuple(members))
    return archives


def checksum_of(file: Path, known: str) -> str:
    """Return the checksum of a file, by the same algorithm as the known one."""
    algorithm = known.partition(":")[0]
    with file.open("rb") as content:
        return f"{algorithm}:{hashlib.file_digest(content, algorithm).hexdigest()}"


def fetch(archive: Archive, url: str, folder: Path, tries: int, wait: float) -> None:
    """Download one archive.

    Raises:
        UserError: if it cannot be fetched; the message says what was expected and what was found.
    """
    path, partial = folder / archive.name, folder / f"{archive.name}.part"
    most, left = _size(partial), tries
    while True:
        try:
            expected = _transfer(url, partial, archive)
            problem = f"should have {expected:,} bytes" if expected else "ended early"
        except urllib.error.HTTPError as error:
            error.close()
            expected, problem = None, f"answers {error.code} {error.reason}"
            if error.code not in _BUSY:
                raise UserError(f"{archive.name}: {url} {problem}") from error
        except (urllib.error.URLError, HTTPException, TimeoutError, ConnectionError) as error:
            expected, problem = None, f"cannot be fetched: {getattr(error, 'reason', error)}"
        size = _size(partial)
        if expected == size:
            break
        if expected is not None and size > expected:
            partial.unlink()
            raise UserError(f"{archive.name}: {url} has {size:,} bytes and {problem}; removed")
        left = (tries if size > most else left) - 1  # what came was worth a try
        most = max(most, size)
        if not left:
            raise UserError(
                f"{archive.name}: {url} {problem}, found {size:,}; run again to go on from there,"
                f" or put the archive in {folder}"
            )
        time.sleep(wait)
    if archive.checksum and (digest := checksum_of(partial, archive.checksum)) != archive.checksum:
        partial.unlink()
        raise UserError(
            f"{archive.name}: {url} has {size:,} bytes as it should but is {digest}, expected"
            f" {archive.checksum}; removed"
        )
    bring_to_disk(partial)
    os.replace(partial, path)


def _size(partial: Path) -> int:
    return partial.stat().st_size if partial.exists() else 0


def _transfer(url: str, partial: Path, archive: Archive) -> int | None:
    """Add to the partial file what it lacks.

    Returns:
        The size that it should then have, if that is known.

    Raises:
        UserError: the server's file has another size than the known one.
    """
    begin = _size(partial)
    if begin and begin == archive.size:
        return begin
    request = urllib.request.Request(url, headers={"Range": f"bytes={begin}-"} if begin else {})
    try:
        response = urllib.request.urlopen(request, timeout=_WAIT_SECONDS)
    except urllib.error.HTTPError as error:
        if error.code != 416:  # the range begins at the end or behind it
            raise
        total = error.headers.get("Content-Range", "").rpartition("/")[2]
        error.close()
        if total.isdigit() and int(total) == begin:
            return begin
        partial.unlink()
        return _transfer(url, partial, archive)
    with response:
        if response.status != 206:  # the whole file comes again
            begin = 0
        length = response.headers.get("Content-Length")
        total = begin + int(length) if length else archive.size
        if archive.size not in (None, total):
            raise UserError(
                f"{archive.name}: {url} has {total:,} bytes, expected are {archive.size:,}"
            )
        with partial.open("ab" if begin else "wb") as file:
            while chunk := response.read(_CHUNK):
                file.write(chunk)
                begin += len(chunk)
    return total if total is not None else begin


@program
def main() -> None:
    parser = argparse.ArgumentParser(description="Fetch the archives of corpora.")
    parser.add_argument("corpora", nargs="*", metavar="CORPUS")
    parser.add_argument("--out", type=Path, required=True, help="folder of archives")
    parser.add_argument("--mirror", required=True, help="where the table's paths begin")
    parser.add_argument("--table", type=Path, default=TABLE)
    parser.add_argument("--tries", type=int, default=5)
    parser.add_argument("--wait", type=float, default=5, help="seconds between them")
    options = parser.parse_args()
    table = read_table(options.table)
    options.out.mkdir(parents=True, exist_ok=True)
    for archive in (table[corpus] for corpus in options.corpora):
        if (options.out / archive.name).exists():
            print(f"  {archive.name} is there", flush=True)
            continue
        url = f"{options.mirror.rstrip('/')}/{archive.path}"
        print(f"  {archive.name} from {url}", flush=True)
        fetch(archive, url, options.out, options.tries, options.wait)


if __name__ == "__main__":
    main()
