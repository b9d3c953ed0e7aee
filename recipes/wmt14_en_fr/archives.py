"""The table of archives: where a corpus comes from, how its archive is checked, what is inside."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from fairseq_rnnsearch.errors import UserError, counted

TABLE = Path(__file__).with_name("archives.tsv")


@dataclass(frozen=True)
class Archive:
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

    def checksum_of(self, file: Path) -> str:
        """Return the checksum of a file, by the same algorithm as the known one."""
        algorithm = (self.checksum or "sha256:").partition(":")[0]
        with file.open("rb") as content:
            return f"{algorithm}:{hashlib.file_digest(content, algorithm).hexdigest()}"


def read_table(path: Path = TABLE) -> dict[str, Archive]:
    """Read the archives by the names of their corpora, in the order of the table.

    Raises:
        UserError: the table cannot be read, or a line of it is not understood.
    """
    archives = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as problem:
        raise UserError(f"{path} cannot be read: {problem}") from problem
    for number, line in enumerate(lines, start=1):
        if not line or line.startswith("#"):
            continue
        columns = line.split("\t")
        if len(columns) != 7:
            raise UserError(
                f"{path}, line {number}: {counted(len(columns), 'column')} where 7 should be"
            )
        corpus, below, name, size, checksum, english, french = columns
        known = None if checksum == "-" else checksum
        if not (size == "-" or size.isdigit()) or (known and not _is_checksum(known)):
            raise UserError(f"{path}, line {number}: bytes {size!r} or checksum {checksum!r}")
        if Path(name).name != name or name in ("..", "."):
            raise UserError(f"{path}, line {number}: {name!r} is no name of a file")
        archives[corpus] = Archive(
            corpus, below, name, None if size == "-" else int(size), known, (english, french)
        )
    return archives


def chosen(table: dict[str, Archive], names: list[str]) -> list[Archive]:
    """Return the archives of these corpora.

    Raises:
        UserError: the table does not have one of them.
    """
    for name in names:
        if name not in table:
            raise UserError(f"no corpus {name!r}; valid: {', '.join(table)}")
    return [table[name] for name in names]


def _is_checksum(text: str) -> bool:
    algorithm, _, digest = text.partition(":")
    return {"sha256": 64, "md5": 32}.get(algorithm) == len(digest)
