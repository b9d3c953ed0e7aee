"""Which font draws which characters, so that no picture ever shows a missing-glyph box.

DejaVu Sans comes with matplotlib and draws most labels: Latin with all its accents, Greek,
Cyrillic, Hebrew, Arabic. For what it lacks, the fonts that are installed are asked which of them
has the character: those of the system, and those of the package that the optional dependencies
``fonts`` bring. What no font has is drawn as its code point, ``U+6F22``, and a warning says once
for each script what to install.

matplotlib shapes the letters and orders those written from right to left (HarfBuzz and the
Unicode bidirectional algorithm, since 3.11).
"""

from __future__ import annotations

import functools
import importlib.util
import io
import itertools
import logging
import os
import unicodedata
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from matplotlib.ft2font import FT2Font

_log = logging.getLogger(__name__)

MAIN = "DejaVu Sans"
# The package of the optional dependencies ``fonts`` holds font files, and is not imported.
_FONT_PACKAGE = "noto_cjk_sans_otc"
# These faces of matplotlib's own are for formulas, or draw boxes.
_NO_TEXT = ("cm", "STIXNonUnicode", "STIXSize", "Last Resort")
# A shaper draws nothing for these, whatever the font (Unicode's Default_Ignorable_Code_Point).
_IGNORABLE = (
    *((0xAD, 0xAD), (0x34F, 0x34F), (0x61C, 0x61C), (0x115F, 0x1160), (0x17B4, 0x17B5)),
    *((0x180B, 0x180F), (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164)),
    *((0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0xE0000, 0xE0FFF)),
)


class Face(NamedTuple):
    """One font of a file."""

    path: str
    index: int
    family: str


class Label(NamedTuple):
    """What is drawn for a word.

    Attributes:
        text: in logical order, as it is typed; every character is in one of the faces.
        faces: the fonts, of which the first that has a character draws it.
        from_right: whether the text as a whole runs from right to left.
    """

    text: str
    faces: tuple[Face, ...]
    from_right: bool

    @property
    def families(self) -> list[str]:
        return [face.family for face in self.faces]


@functools.lru_cache(1 << 16)
def label(word: str) -> Label:
    """Return a word as it can be drawn with the fonts that are there.

    Characters without a font, and words that would be invisible, become code points; the first
    character of a script is warned of.
    """
    needed = {letter for letter in word if not _in_main(letter)}
    homes = {letter: _home(letter) for letter in needed}
    homeless = {letter for letter, face in homes.items() if face is None}
    if homeless:
        _warn(homeless)
    if word and all(_is_ignorable(letter) or letter.isspace() for letter in word):
        homeless = set(word)
    text = _with_code_points(word, homeless)
    others = _fewest(needed - homeless, homes)
    found = Label(text, (_main(), *others), _runs_from_right(text))
    if others and _draws_boxes(found):
        # A mark may be in another font than its letter, and then neither draws the two.
        _warn(needed)
        text = _with_code_points(word, needed)
        found = Label(text, (_main(),), _runs_from_right(text))
    return found


def font(faces: tuple[Face, ...], size: float, dots_per_inch: float) -> FT2Font:
    """Load faces at a size in points; the later ones draw what the first lacks.

    matplotlib caches the font, and drops its cache in a forked process.
    """
    from matplotlib.font_manager import FontPath, get_font

    loaded = get_font([FontPath(face.path, face.index) for face in faces])
    loaded.clear()
    loaded.set_size(size, dots_per_inch)
    return loaded


def subset(face: Face, text: str) -> bytes:
    """Make a font file of the letters of a text that the main font lacks, and of what shapes them.

    The same arguments give the same bytes.
    """
    from fontTools.subset import Options, Subsetter
    from fontTools.ttLib import TTFont

    options = Options()
    options.set(layout_features=["*"], hinting=False, notdef_outline=False, name_IDs=[1, 2])
    options.set(drop_tables=[*options.drop_tables, "STAT", "meta"], recalc_timestamp=False)
    with TTFont(face.path, fontNumber=face.index, lazy=True, recalcTimestamp=False) as whole:
        subsetter = Subsetter(options)
        subsetter.populate(text="".join(c for c in text if _is_ignorable(c) or not _in_main(c)))
        subsetter.subset(whole)
        whole.flavor = "woff"
        file = io.BytesIO()
        whole.save(file)
    return file.getvalue()


@functools.cache
def _main() -> Face:
    from matplotlib.font_manager import FontProperties, findfont

    path = findfont(FontProperties(family=[MAIN]))
    return Face(str(path), path.face_index, MAIN)


@functools.cache
def _in_main(letter: str) -> bool:
    return _is_ignorable(letter) or (not _is_control(letter) and _has(_main(), letter))


@functools.cache
def _home(letter: str) -> Face | None:
    """Return the first face that has a character, if there is one."""
    if _is_control(letter):
        return None
    return next((face for face in _faces() if _has(face, letter)), None)


def _fewest(letters: set[str], homes: dict[str, Face | None]) -> tuple[Face, ...]:
    """Choose one face for all letters where there is one.

    Marks and ligatures join letters of one font only.
    """
    homes = {letter: homes[letter] for letter in sorted(letters)}
    faces = tuple(dict.fromkeys(homes.values()))
    for face in faces:
        if all(_has(face, letter) for letter in letters):
            return (face,)
    return faces


@functools.cache
def _faces() -> tuple[Face, ...]:
    """List all faces that are installed, the ones to prefer first, when one is first needed.

    Upright sans serif of normal weight comes before others, and then the larger file, which has
    more characters, so that one font draws most of a text.
    """
    from matplotlib.font_manager import findSystemFonts, fontManager

    known = {entry.fname for entry in fontManager.ttflist}
    for path in sorted({*findSystemFonts(), *_packaged_fonts()} - known):
        try:  # matplotlib's own list is as old as its cache
            fontManager.addfont(path)
        except Exception as problem:  # a broken file, of which matplotlib raises all kinds
            _log.debug("font %s is not used: %s", path, problem)

    def rank(entry) -> tuple:
        normal = entry.weight in (400, "normal", "regular") and entry.style == "normal"
        plain = not any(word in entry.name for word in ("Serif", "Mono", "Condensed"))
        size = os.path.getsize(entry.fname) if os.path.isfile(entry.fname) else 0
        # One file draws Han characters in the forms of several countries.
        simplified = entry.name.endswith(" SC")
        return (not normal, not plain, -size, not simplified, entry.fname, entry.index)

    entries = [entry for entry in fontManager.ttflist if not entry.name.startswith(_NO_TEXT)]
    ranked = sorted(entries, key=rank)
    return tuple(dict.fromkeys(Face(one.fname, one.index, one.name) for one in ranked))


def _packaged_fonts() -> list[str]:
    from matplotlib.font_manager import list_fonts

    package = importlib.util.find_spec(_FONT_PACKAGE)
    folders = package.submodule_search_locations if package else []
    return [path for folder in folders for path in list_fonts(folder, ["ttf", "otf", "ttc"])]


def _has(face: Face, letter: str) -> bool:
    return ord(letter) in _coverage(face)


@functools.cache
def _coverage(face: Face) -> np.ndarray:
    """Return the code points that a face draws in black on white.

    A font of coloured bitmaps has none. The font itself is not kept, because an open one cannot be
    used on both sides of a fork.
    """
    from matplotlib.ft2font import FaceFlags, FT2Font, LoadFlags

    nothing = np.array([], dtype=np.uint32)
    try:
        opened = FT2Font(face.path, face_index=face.index)
        codes = np.fromiter(opened.get_charmap(), dtype=np.uint32)
        if FaceFlags.SCALABLE not in opened.face_flags:
            return nothing
        opened.set_size(10, 72)
        some = codes[:: max(1, len(codes) // 50)]
        if not any(opened.load_char(int(code), LoadFlags.NO_HINTING).width for code in some):
            return nothing  # colours without outlines
    except (RuntimeError, OSError):
        return nothing
    return codes


def _draws_boxes(found: Label) -> bool:
    """Tell whether a box would be drawn: matplotlib warns of each glyph that it has no font for."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        font(found.faces, 10, 72).set_text(found.text)
    return any("missing from font" in str(warning.message) for warning in caught)


def _is_ignorable(letter: str) -> bool:
    return any(first <= ord(letter) <= last for first, last in _IGNORABLE)


def _is_control(letter: str) -> bool:
    """Recognise controls and lone surrogates, which no font and no SVG should have."""
    return unicodedata.category(letter) in ("Cc", "Cs")


def _with_code_points(word: str, letters: set[str]) -> str:
    """Write ``U+6F22`` in the place of each of these letters; a space keeps two apart."""
    text = "".join(f" U+{ord(letter):04X} " if letter in letters else letter for letter in word)
    return " ".join(text.split())


def _runs_from_right(text: str) -> bool:
    """Let the first character with a direction decide, as Unicode's rules P2 and P3 do."""
    directions = map(unicodedata.bidirectional, text)
    return next((one in ("R", "AL") for one in directions if one in ("L", "R", "AL")), False)


# --- what to install ------------------------------------------------------------------------------

_EAST_ASIAN = ("CJK", "HANGUL", "HIRAGANA", "KATAKANA", "BOPOMOFO", "IDEOGRAPHIC", "KANGXI")


def _warn(letters: set[str]) -> None:
    """Warn once for each remedy, so that a text of 3,000 sentences gives one line."""
    for letter in sorted(letters):
        remedy = _remedy(letter)
        if remedy and next(_warnings_of(remedy)) == 0:
            name = unicodedata.name(letter, "no name")
            warnings.warn(
                f"heatmaps: no installed font can draw U+{ord(letter):04X} ({name}), nor perhaps"
                f" others like it; code points are drawn instead. {remedy}",
                stacklevel=3,
            )


@functools.cache
def _warnings_of(remedy: str) -> Iterator[int]:
    """Count how often a remedy is named."""
    return itertools.count()


def _remedy(letter: str) -> str | None:
    """Say what to install for a letter.

    Return None for what no font of text can have: controls, surrogates, unassigned, private use.
    """
    category = unicodedata.category(letter)
    if category.startswith("C"):
        return None
    script = unicodedata.name(letter, "").split(" ")[0].split("-")[0]
    if script in _EAST_ASIAN:
        return "To draw them: pip install 'fairseq-rnnsearch[fonts]'"
    fonts = "Noto Sans Symbols or Noto Emoji (the one without colours)"
    if not category.startswith("S"):
        fonts = f"Noto Sans {script.title()}"
    return f"To draw them, install a font such as {fonts}"
