"""Whether a text has spaces between its words, judged by its script."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

# Unicode's blocks of the scripts that are written without spaces between words.
_CHINESE = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_OTHERS = (
    "\u0e00-\u0e7f"  # Thai
    "\u0e80-\u0eff"  # Lao
    "\u1000-\u109f"  # Burmese
    "\u1780-\u17ff"  # Khmer
    "\u3040-\u30ff"  # Hiragana and Katakana
    "\u3100-\u312f"  # Bopomofo
)
_IS_CHINESE = re.compile(f"[{_CHINESE}]")
_IS_UNSPACED = re.compile(f"[{_CHINESE}{_OTHERS}]")
_SPACE_INSIDE = re.compile(f"(?<=[{_CHINESE}{_OTHERS}]) (?=[{_CHINESE}{_OTHERS}])")
_LONGEST_WORD = 7  # letters of these scripts, on average


@dataclass(frozen=True)
class Text:
    """What was counted in one side of a corpus.

    Attributes:
        words: what stands between spaces.
        characters: without spaces.
        distinct: how many different characters there are.
        unspaced: whether it has no spaces between its words.
        chinese: whether its letters are Chinese, and not also Japanese ones.
    """

    words: int
    characters: int
    distinct: int
    unspaced: bool
    chinese: bool


def describe(sentences: Iterable[str]) -> Text:
    """Count words and letters, and judge how the words are separated.

    Text in a script without spaces may have been cut into words: then it has many.
    """
    words = spaces_inside = 0
    counts: Counter[str] = Counter()
    for sentence in sentences:
        words += len(sentence.split())
        spaces_inside += len(_SPACE_INSIDE.findall(sentence))
        counts.update(sentence)
    del counts[" "]
    letters = sum(count for character, count in counts.items() if character.isalpha())
    chinese = sum(count for character, count in counts.items() if _IS_CHINESE.match(character))
    unspaced = sum(count for character, count in counts.items() if _IS_UNSPACED.match(character))
    return Text(
        words,
        characters=counts.total(),
        distinct=len(counts),
        unspaced=2 * unspaced > letters and _LONGEST_WORD * spaces_inside < unspaced,
        chinese=2 * chinese > letters and chinese > 0.95 * unspaced,
    )
