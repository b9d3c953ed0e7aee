"""Zip archives whose parts are what their list says: each once, none on another."""

import zipfile
from typing import IO

MOST_OF_LIST = 2**24  # bytes; what zipfile makes of it takes ten times as much


class Refused(Exception):
    """What a sound file does not hold; the message is a part of a sentence about the file."""


def open_zip(file: IO[bytes]) -> zipfile.ZipFile:
    """An archive to read from.

    Raises:
        Refused: when parts are listed twice or lie on each other, or the list is too long.
        zipfile.BadZipFile: when it is none.
    """
    # what ZipFile asks for first; it then reads the whole list, however long that is
    record = zipfile._EndRecData(file)
    if record and record[zipfile._ECD_SIZE] > MOST_OF_LIST:
        raise Refused(f"its list of parts has more than {MOST_OF_LIST:,} bytes")
    archive = zipfile.ZipFile(file)
    try:
        _check_places(archive)
    except Refused:
        archive.close()
        raise
    return archive


def _check_places(archive: zipfile.ZipFile) -> None:
    names, end = set(), 0
    for part in sorted(archive.infolist(), key=lambda part: part.header_offset):
        if part.filename in names:
            raise Refused(f"it holds the part {part.filename!r:.80} twice")
        if part.header_offset < end:
            raise Refused(f"its part {part.filename!r:.80} lies on another")
        names.add(part.filename)
        end = part.header_offset + zipfile.sizeFileHeader + len(part.filename) + part.compress_size
    if end > archive.start_dir:
        raise Refused("a part of it lies on the list of its parts")
