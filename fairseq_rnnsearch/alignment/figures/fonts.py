"""Fonts of labels: matplotlib's fallback, and code points where no font has a character.

DejaVu Sans comes with matplotlib and draws Latin, Greek, Cyrillic, Hebrew and Arabic. For other
characters a label names the first installed font that has them, for matplotlib to fall back on.
What no font has is drawn as its code point, ``U+6F22``, and a warning says once for each script
which font to install. matplotlib shapes letters and orders those written from right to left.
"""

from __future__ import annotations

import functools
import importlib.util
import unicodedata
import warnings
from typing import TYPE_CHECKING, NamedTuple

from fairseq_rnnsearch.errors import is_first

if TYPE_CHECKING:
    from matplotlib.ft2font import FT2Font

MAIN = "DejaVu Sans"
# The package of the optional dependencies ``fonts`` holds font files, and is not imported.
_FONT_PACKAGE = "noto_cjk_sans_otc"
_NO_TEXT = ("cm", "STIX", "Last Resort")  # matplotlib's own fonts for formulas, and for boxes
_REGULAR = (400, "normal", "regular")
# A shaper draws nothing for these (Unicode's Default_Ignorable_Code_Point).
_IGNORABLE = (
    *((0xAD, 0xAD), (0x34F, 0x34F), (0x61C, 0x61C), (0x115F, 0x1160), (0x17B4, 0x17B5)),
    *((0x180B, 0x180F), (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164)),
    *((0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0xE0000, 0xE0FFF)),
)
_EAST_ASIAN = ("CJK", "HANGUL", "HIRAGANA", "KATAKANA", "BOPOMOFO", "IDEOGRAPHIC", "KANGXI")
_EAST_ASIAN += ("FULLWIDTH", "HALFWIDTH")


class Label(NamedTuple):
    """What is drawn for a word.

    Attributes:
        text: in logical order, as it is typed; every character is in one of the families.
        families: of fonts; the first that has a character draws it.
        from_right: whether the text as a whole runs from right to left.
    """

    text: str
    families: tuple[str, ...]
    from_right: bool


@functools.lru_cache(1 << 16)
def label(word: str) -> Label:
    """Return a word as the installed fonts can draw it."""
    families = {letter: _family_of(letter) for letter in sorted(set(word))}
    missing = {letter for letter, family in families.items() if family is None}
    if word and all(map(_is_invisible, word)):
        missing = set(word)
    others = [family for family in families.values() if family not in (None, MAIN)]
    drawn = _label(word, missing, others)
    if others and _draws_boxes(drawn):  # a mark is in another font than its letter
        missing = {letter for letter, family in families.items() if family != MAIN}
        drawn = _label(word, missing, [])
    _warn(missing)
    return drawn


def font(families: tuple[str, ...], size: float, dots_per_inch: float) -> FT2Font:
    """Load fonts at a size in points; the later ones draw what the first lacks."""
    from matplotlib.font_manager import FontProperties, findfont, get_font

    loaded = get_font([findfont(FontProperties(family=[family])) for family in families])
    loaded.clear()
    loaded.set_size(size, dots_per_inch)
    return loaded


def _label(word: str, missing: set[str], families: list[str]) -> Label:
    text = word
    if missing:
        codes = (f" U+{ord(letter):04X} " if letter in missing else letter for letter in word)
        text = " ".join("".join(codes).split())
    # The first character with a direction decides, as in Unicode's rules P2 and P3.
    directions = map(unicodedata.bidirectional, text)
    first = next((one for one in directions if one in ("L", "R", "AL")), "L")
    return Label(text, (MAIN, *dict.fromkeys(families)), first != "L")


def _is_invisible(letter: str) -> bool:
    """Tell whether a character takes no ink in any font."""
    return letter.isspace() or any(first <= ord(letter) <= last for first, last in _IGNORABLE)


@functools.cache
def _family_of(letter: str) -> str | None:
    """Return the first family that draws a character, if there is one."""
    if unicodedata.category(letter) in ("Cc", "Cs"):  # controls, which no SVG may have either
        return None
    if _is_invisible(letter) or ord(letter) in _characters(MAIN):
        return MAIN
    return next((family for family in _families() if ord(letter) in _characters(family)), None)


@functools.cache
def _families() -> tuple[str, ...]:
    """Return the families that may draw text: those of the font package come first."""
    from matplotlib.font_manager import fontManager, list_fonts

    package = importlib.util.find_spec(_FONT_PACKAGE)
    known = len(fontManager.ttflist)
    for folder in package.submodule_search_locations if package else ():
        for path in sorted(list_fonts(folder, ["ttf", "otf", "ttc"])):
            fontManager.addfont(path)
    entries = [*fontManager.ttflist[known:], *fontManager.ttflist[:known]]
    # matplotlib logs a warning when a family lacks this face.
    regular = [one for one in entries if one.style == "normal" and one.weight in _REGULAR]
    # A colour bitmap font would draw nothing in black.
    names = (entry.name for entry in regular if "Color" not in entry.name)
    return tuple(dict.fromkeys(name for name in names if not name.startswith(_NO_TEXT)))


@functools.cache
def _characters(family: str) -> frozenset[int]:
    """Return the code points in a family; none if its file is broken."""
    from matplotlib.font_manager import FontProperties, findfont
    from matplotlib.ft2font import FT2Font

    try:
        path = findfont(FontProperties(family=[family]))
        return frozenset(FT2Font(str(path), face_index=path.face_index).get_charmap())
    except (RuntimeError, OSError):
        return frozenset()


def _draws_boxes(drawn: Label) -> bool:
    """Tell whether a box would be drawn: matplotlib warns of each glyph that it has no font for."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        font(drawn.families, 10, 72).set_text(drawn.text)
    return any("missing from font" in str(warning.message) for warning in caught)


def _warn(letters: set[str]) -> None:
    """Warn once for each script, so that a text of 3,000 sentences gives one line."""
    for letter in sorted(letters):
        if unicodedata.category(letter).startswith("C"):
            continue  # no font has controls, private use and unassigned code points
        name = unicodedata.name(letter, "")
        script = name.split(" ")[0].split("-")[0]
        remedy = f"install a font such as Noto Sans {script.title()}"
        if script in _EAST_ASIAN:
            remedy = "pip install 'fairseq-rnnsearch[fonts]'"
        elif unicodedata.category(letter).startswith("S"):
            remedy = "install a font such as Noto Sans Symbols or Noto Emoji (without colours)"
        if is_first(remedy):
            warnings.warn(
                f"heatmaps: no installed font can draw U+{ord(letter):04X} ({name}); its code point"
                f" is drawn instead. To draw it and others like it: {remedy}",
                stacklevel=3,
            )
