"""Figures for a page: SVG files that share one document and follow its colours."""

import re
from xml.etree import ElementTree

from reporting.length_curves import BAR, FAINT, INK, LINE, PAGE

_SVG = "http://www.w3.org/2000/svg"
_XLINK = "http://www.w3.org/1999/xlink"
_COLOURS = {
    INK: "var(--ink)",
    FAINT: "var(--faint)",
    LINE: "var(--line)",
    BAR: "var(--bar)",
    PAGE: "var(--page)",
    "#000000": "var(--ink)",
}
_COLOUR = re.compile("|".join(_COLOURS))


def inlined(svg: str, prefix: str, label: str) -> str:
    """Turn an SVG file into an element of an HTML page.

    Args:
        svg: the file, as matplotlib or `figures.vector` writes it.
        prefix: what its ids begin with, which must be unique on the page.
        label: what is read out instead of the picture.

    Returns:
        Markup without style sheets, links and metadata; the colours of `length_curves` and
        black are the page's own.
    """
    root = ElementTree.fromstring(svg)
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in (f"{{{_SVG}}}metadata", f"{{{_SVG}}}style"):
                parent.remove(child)
    for element in root.iter():
        for name, value in element.items():
            if name == "id":
                element.set(name, prefix + value)
            elif name in ("href", f"{{{_XLINK}}}href") and value.startswith("#"):
                element.set(name, f"#{prefix}{value[1:]}")
            elif name in ("clip-path", "style"):
                value = value.replace("url(#", f"url(#{prefix}")
                element.set(name, _COLOUR.sub(lambda colour: _COLOURS[colour[0]], value))
    root.set("role", "img")
    root.set("aria-label", label)
    root.attrib.pop("height", None)  # the height follows the width
    root.set("style", f"--natural: {root.get('width')}")
    ElementTree.register_namespace("", _SVG)
    ElementTree.register_namespace("xlink", _XLINK)
    return ElementTree.tostring(root, encoding="unicode")
