"""An alignment drawn with characters: for a terminal, a log, or a file that any editor opens.

Source words stand upright above their columns, one character a line; a cell is two characters
wide and about square. A sentence that is wider than the line goes on in a further block.
"""

import unicodedata
from collections.abc import Iterator

from fairseq_rnnsearch.errors import as_text
from fairseq_rnnsearch.figures.alignment import Alignment
from fairseq_rnnsearch.figures.pictures import GREYS, grey

SHADES = " ░▒▓█"  # from weight 0 to weight 1, as light on a dark terminal
CELL = 2
LONGEST_LABEL = 18


def text_heatmap(alignment: Alignment, width: int = 80, colour: bool = False) -> str:
    """Draw an alignment with characters.

    Args:
        alignment: the words and their weights.
        width: columns of the terminal; each block of source words is as wide as it allows.
        colour: whether cells are grey backgrounds (24-bit escape sequences) instead of ``SHADES``.

    Returns:
        Lines that are no wider than ``width``, provided that it holds a label and one cell.
    """
    label_width = max(_cells(_shorten(word)) for word in alignment.target)
    per_block = max(1, (width - label_width - 1) // CELL)
    return "\n\n".join(
        "\n".join(_block(alignment, slice(start, start + per_block), label_width, colour))
        for start in range(0, len(alignment.source), per_block)
    )


def _block(alignment: Alignment, columns: slice, label_width: int, colour: bool) -> Iterator[str]:
    upright = [list(_shorten(word)) for word in alignment.source[columns]]
    height = max(map(len, upright))
    for line in range(height):
        letters = (word[line - height + len(word)] if line >= height - len(word) else " "
                   for word in upright)  # fmt: skip
        cells = (letter + " " * max(0, CELL - _cells(letter)) for letter in letters)
        yield (" " * (label_width + 1) + "".join(cells)).rstrip()
    greys = grey(alignment.weights[:, columns]).tolist()
    for word, row in zip(alignment.target, greys, strict=True):
        cells = "".join(_cell(shade, colour) for shade in row)
        label = _shorten(word)
        yield " " * (label_width - _cells(label)) + label + " " + cells + ("\x1b[0m" * colour)


def _cell(shade: int, colour: bool) -> str:
    if colour:
        return f"\x1b[48;2;{shade};{shade};{shade}m" + " " * CELL
    return SHADES[round(shade / (GREYS - 1) * (len(SHADES) - 1))] * CELL


def _shorten(word: str) -> str:
    return as_text(word, LONGEST_LABEL)


def _cells(text: str) -> int:
    """Count the columns that a text takes in a terminal."""
    return sum(map(_cells_of_letter, text))


def _cells_of_letter(letter: str) -> int:
    """Return 2 for a wide East Asian character, 0 for a combining character, otherwise 1."""
    joins_syllable = "\u1160" <= letter <= "\u11ff"  # vowels and final consonants of Hangul
    if joins_syllable or unicodedata.category(letter) in ("Mn", "Mc", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1
