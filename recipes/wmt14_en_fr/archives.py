"""The table of archives: where a corpus comes from, how its archive is checked, what is inside."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from fairseq_rnnsearch.errors import UserError

TABLE = Path(__file__).with_name("archives.tsv")
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Archive:
    """A line of the table.

    Attributes:
        path: below the mirror.
        name: in the folder of archives.
        size: in bytes, or None where it is not known.
        checksum: ``sha256:...`` or ``md5:...``, or None.
        members: paths inside of the English and the French text.
    """

    corpus: str
    path: str
    name: str
    size: int | None
    checksum: str | None
    members: tuple[str, str]

    def checksum_of(self, file: Path) -> str:
        """The checksum of a file, by the same algorithm as the known one."""
        algorithm = (self.checksum or "sha256:").partition(":")[0]
        digest = hashlib.new(algorithm)
        with file.open("rb") as content:
            while chunk := content.read(_CHUNK):
                digest.update(chunk)
        return f"{algorithm}:{digest.hexdigest()}"


def read_table(path: Path = TABLE) -> dict[str, Archive]:
    """Corpora by name, in the order of the table.

    Raises:
        UserError: for a table that cannot be read or a line that is not understood.
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
            raise UserError(f"{path}, line {number}: {len(columns)} columns where 7 should be")
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
    """The archives of these corpora.

    Raises:
        UserError: for a corpus that the table does not have.
    """
    for name in names:
        if name not in table:
            raise UserError(f"no corpus {name!r}; valid are {', '.join(table)}")
    return [table[name] for name in names]


def _is_checksum(text: str) -> bool:
    algorithm, _, digest = text.partition(":")
    return {"sha256": 64, "md5": 32}.get(algorithm) == len(digest)
