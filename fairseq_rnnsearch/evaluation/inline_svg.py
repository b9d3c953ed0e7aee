"""Figures for a page: SVG files that share one document and follow its colours."""

import re
from xml.etree import ElementTree

from fairseq_rnnsearch.figures.length_curves import BAR, FAINT, INK, LINE, PAGE

_SVG = "http://www.w3.org/2000/svg"
_LINK = "{http://www.w3.org/1999/xlink}href"
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
    """An SVG file as an element of an HTML page.

    Args:
        svg: the file, as matplotlib writes it.
        prefix: for its ids, which must be unique on the page.
        label: read out instead of the picture.

    Returns:
        Markup without style sheets, links and metadata; the colours of `figures.length_curves` and
        black are the page's own.
    """
    root = ElementTree.fromstring(svg)
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in (f"{{{_SVG}}}metadata", f"{{{_SVG}}}style"):
                parent.remove(child)
    for element in root.iter():
        _adapt(element, prefix)
    root.set("role", "img")
    root.set("aria-label", label)
    root.attrib.pop("height", None)  # it follows the width
    root.set("style", f"--natural: {root.get('width')}")
    ElementTree.register_namespace("", _SVG)
    ElementTree.register_namespace("xlink", "http://www.w3.org/1999/xlink")
    return ElementTree.tostring(root, encoding="unicode")


def _adapt(element: ElementTree.Element, prefix: str) -> None:
    if "id" in element.attrib:
        element.set("id", prefix + element.get("id"))
    for name in (_LINK, "href"):
        if element.get(name, "").startswith("#"):
            element.set(name, f"#{prefix}{element.get(name)[1:]}")
    for name in ("clip-path", "style"):
        if name in element.attrib:
            value = element.get(name).replace("url(#", f"url(#{prefix}")
            element.set(name, _COLOUR.sub(lambda colour: _COLOURS[colour[0]], value))
