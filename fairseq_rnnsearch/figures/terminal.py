"""An alignment in text: for a terminal, for a log, for a file that any editor opens.

Source words stand upright above their columns, one character a line; a cell is two characters
wide and about square. A sentence that is wider than the line goes on in a further block.
"""

from collections.abc import Iterator

import numpy as np

from fairseq_rnnsearch.figures.alignment import Alignment

SHADES = " ░▒▓█"  # from weight 0 to weight 1, as light on a dark terminal
CELL = 2
LONGEST_LABEL = 18


def text_heatmap(alignment: Alignment, width: int = 80, colour: bool = False) -> str:
    """Draw with characters.

    Args:
        alignment: words and weights.
        width: columns of the terminal; blocks of source words are as wide as fits.
        colour: grey backgrounds (24-bit escape sequences) instead of shades.

    Returns:
        Lines that are no wider than ``width``, as long as that holds a label and one cell.
    """
    label_width = max(_cells(_shorten(word)) for word in alignment.target)
    per_block = max(1, (width - label_width - 1) // CELL)
    blocks = range(0, len(alignment.source), per_block)
    return "\n\n".join(
        "\n".join(_block(alignment, slice(start, start + per_block), label_width, colour))
        for start in blocks
    )


def _block(alignment: Alignment, columns: slice, label_width: int, colour: bool) -> Iterator[str]:
    upright = [list(_shorten(word)) for word in alignment.source[columns]]
    height = max(map(len, upright))
    for line in range(height):
        letters = (word[line - height + len(word)] if line >= height - len(word) else " "
                   for word in upright)  # fmt: skip
        yield (" " * (label_width + 1) + "".join(_pad(letter, CELL) for letter in letters)).rstrip()
    for word, weights in zip(alignment.target, alignment.weights[:, columns], strict=True):
        cells = "".join(_cell(float(weight), colour) for weight in weights)
        label = _shorten(word)
        yield " " * (label_width - _cells(label)) + label + " " + cells + ("\x1b[0m" * colour)


def _cell(weight: float, colour: bool) -> str:
    weight = float(np.clip(np.nan_to_num(weight), 0, 1))
    if colour:
        grey = round(255 * weight)
        return f"\x1b[48;2;{grey};{grey};{grey}m" + " " * CELL
    return SHADES[round(weight * (len(SHADES) - 1))] * CELL


def _shorten(word: str) -> str:
    word = "".join(letter if letter.isprintable() else "\ufffd" for letter in word)
    return word if len(word) <= LONGEST_LABEL else word[: LONGEST_LABEL - 1] + "…"


def _cells(text: str) -> int:
    """Columns that a terminal needs: two for a wide East Asian character, none for an accent."""
    from rich.cells import cell_len

    return cell_len(text)


def _pad(letter: str, width: int) -> str:
    return letter + " " * max(0, width - _cells(letter))
