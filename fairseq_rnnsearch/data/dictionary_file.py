"""Checks of a dictionary, ``dict.en.txt``: one word and its count per line, most frequent first.

fairseq takes a byte order mark for a part of the first word, and crashes unintelligibly on other
mistakes. ``#fairseq:overwrite`` after a count, which allows a repeated word, is accepted.
"""

import re
from pathlib import Path

from fairseq_rnnsearch.data.corpus import check_text
from fairseq_rnnsearch.errors import UserError

_SYMBOLS = ("<s>", "<pad>", "</s>", "<unk>")
_OVERWRITE = " #fairseq:overwrite"


def check_dictionary(path: Path) -> int:
    """Check one dictionary.

    Returns:
        The number of its words.

    Raises:
        UserError: as from `check_text`; or naming a line that is not a word and a count, or
            repeats a word.
    """
    path = Path(path)
    check_text(path, has_symbols=True)
    seen: dict[str, int] = {}
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            entry = line.rstrip()
            may_repeat = entry.endswith(_OVERWRITE)
            word, _, count = entry.removesuffix(_OVERWRITE).rpartition(" ")
            where = f"{path}, line {number}"
            if not word.strip() or not _is_count(count):
                raise UserError(
                    f"{where}: {entry[:60]!r} is no word and count; valid is a line such as "
                    "'house 12', as fairseq-preprocess writes it"
                )
            if (word in seen or word in _SYMBOLS) and not may_repeat:
                first = f"as in line {seen[word]}" if word in seen else "one of fairseq's symbols"
                raise UserError(
                    f"{where}: the word {word!r:.60} a second time, {first}; remove one of the "
                    "lines, or make the data again with fairseq-preprocess"
                )
            seen[word] = number
    return len(seen)


def _is_count(text: str) -> bool:
    return re.fullmatch("-?[0-9]{1,18}", text) is not None
