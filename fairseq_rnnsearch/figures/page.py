"""Alignments as one HTML page: a list to search and sort, and the heatmap of the chosen sentence.

The page is one file without network access: it opens from disk, can be mailed, and still works in
ten years. It is `page.html`, `page.css` and `page.js`; what it shares with the living page, such as
the words and the matrix, is in `heatmap.css` and `heatmap.js`. A notebook shows the heatmap alone,
in a frame.

Why no library: plotting libraries such as Plotly, Vega and Observable Plot know a matrix, but
neither running text nor the link between the two, which is what this page is for. The drawing is
one `path` per shade of grey; vanilla JavaScript does it, the search, the sorting and the keyboard
in some 800 lines, and the same lines draw the heatmap on the screen and in the downloaded files.

Words are data, never markup. They travel in a JSON block in which every `<` is escaped, so that
`</script>` cannot end it, and the page's content security policy allows one script, by its hash.
"""

import base64
import hashlib
import html
import json
import math
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import IO

import numpy as np

from fairseq_rnnsearch.figures.alignment import Alignment, largest_effect
from fairseq_rnnsearch.figures.pictures import STYLES, Look
from fairseq_rnnsearch.files import replacing

# A weight is stored in two bytes as a number of steps of 1/50000, so that decimals such as 0.25 and
# 0.3 stay exact; the remaining values are free, and one of them stands for NaN.
STEPS = 50_000
NOT_A_NUMBER = 0xFFFF


def _of_weights(statistic: Callable[[Alignment], float]) -> Callable[[Alignment], float | None]:
    """Return a statistic that is None for a sentence without words, and so without weights."""
    return lambda alignment: statistic(alignment) if alignment.weights.size else None


# Statistics of a sentence, by the names on the page: their meaning, and how to compute them.
STATISTICS: dict[str, tuple[str, Callable[[Alignment], float | None]]] = {
    "confidence": (
        "mean over the target words of their largest weight; 1: each looks at one source word",
        _of_weights(Alignment.confidence),
    ),
    "entropy": (
        "bits, mean over the target words; 0: each looks at one source word, 1: at two equally",
        _of_weights(Alignment.entropy),
    ),
    "score": (
        "log-probability of the target, base 2, divided by its length as the search did",
        lambda alignment: alignment.score,
    ),
}

_HERE = Path(__file__).parent
STYLE = _HERE / "heatmap.css"  # the look that all pages share


class Page:
    """A page of alignments that needs nothing but a browser, in memory that does not grow.

    The same alignments give the same bytes.

    Args:
        path: the file, usually `index.html`; its folder must exist.
        look: heading of the page and name of its window, the model that it names, and whether it
            begins with black on white.
        sentences: an empty file, which holds them until the page is written.
    """

    def __init__(self, path: str | os.PathLike[str], look: Look, sentences: IO[bytes]) -> None:
        self._path, self._look, self._sentences = Path(path), look, sentences
        self._has_attribution = False

    @property
    def is_empty(self) -> bool:
        """Whether it has no alignment yet."""
        return self._sentences.tell() == 0

    def add(self, alignment: Alignment) -> None:
        """Add an alignment to the end of the list.

        Weights outside 0..1 are shown as the nearer limit, NaN in red. A sentence without words on
        one side is listed, without a heatmap.
        """
        sentence = _sentence(alignment)
        self._has_attribution |= "mattered" in sentence
        self._sentences.write(_as_bytes("," * (not self.is_empty) + _json(sentence)))

    def finish(self) -> None:
        """Write the file, whole or not at all.

        Raises:
            UserError: it cannot be written.
        """
        page = render_page(
            _HERE / "page.html",
            [_HERE / "page.css", _HERE / "page.js"],
            alone=False,
            title=self._look.title,
            model=self._look.model,
            step=f"{1 / STEPS:.5f}",
            statistics=list(STATISTICS),
            mattered=self._has_attribution,
            data=_json(_data([], self._look.style)),
        )
        before, sentences, after = page.partition(b'"sentences":[')
        self._sentences.seek(0)
        with replacing(self._path) as unfinished, unfinished.open("wb") as file:
            file.write(before + sentences)
            shutil.copyfileobj(self._sentences, file)
            file.write(after)


def embedded_page(alignment: Alignment, style: str = "paper") -> str:
    """Return a self-contained HTML element that shows one alignment.

    It is a page in a frame, so that its style and script stay apart from those around it, and one
    notebook can hold several.
    """
    page = render_page(
        _HERE / "page.html",
        [],
        alone=True,
        title="Alignment",
        mattered=alignment.attribution is not None,
        data=_json(_data([alignment], style)),
    )
    # The page corrects its height once it is laid out.
    height = 300 + 26 * len(alignment.target)
    return (
        f'<iframe title="alignment" style="width: 100%; height: {height}px; border: 0"'
        f' srcdoc="{html.escape(page.decode())}"></iframe>'
    )


def render_page(template: Path, files: Sequence[Path], **parts: object) -> bytes:
    """Return a page with the heatmap's style and script, which the head of `heatmap.js` describes.

    Args:
        template: `page.html`, or extends it.
        files: style sheets (.css) and scripts (.js) that follow the heatmap's, in this order.
        parts: the template's variables; words in them are escaped.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    every_file = [STYLE, _HERE / "heatmap.js", *files]

    def joined(suffix: str) -> str:
        chosen = (file for file in every_file if file.suffix == suffix)
        return "".join(file.read_text(encoding="utf-8") for file in chosen)

    environment = Environment(
        loader=FileSystemLoader([template.parent, _HERE]), autoescape=True,
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    script = joined(".js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    page = environment.get_template(template.name)
    policy, style = f"sha256-{digest}", joined(".css")
    return _as_bytes(page.render(policy=policy, style=style, script=script, **parts))


def _data(alignments: Iterable[Alignment], style: str) -> dict:
    return {
        "steps": STEPS,
        "nan": NOT_A_NUMBER,
        "inverted": STYLES[style].inverted,
        "statistics": {name: meaning for name, (meaning, _) in STATISTICS.items()},
        "sentences": [_sentence(alignment) for alignment in alignments],
    }


def _sentence(alignment: Alignment) -> dict:
    """Return the page's data for a sentence, with links and statistics of the exact weights."""
    return {
        "id": int(alignment.id),
        "source": alignment.source,
        "target": alignment.target,
        "weights": _encoded(alignment.weights),
        "links": [source for source, _ in alignment.links()],
        **{name: _number(of(alignment)) for name, (_, of) in STATISTICS.items()},
        **_probabilities(alignment),
        **_attribution(alignment),
    }


def _probabilities(alignment: Alignment) -> dict:
    known = [_number(value) for value in alignment.probabilities or ()]
    return {"probabilities": known} if known and None not in known else {}


def _attribution(alignment: Alignment) -> dict:
    """Return what mattered with its scale: `most` is stored as weight 1, its opposite as 0."""
    if alignment.attribution is None:
        return {}
    effects = np.asarray(alignment.attribution, dtype=np.float64)
    most = largest_effect(effects)
    return {"mattered": {"most": most, "numbers": _encoded((effects / most + 1) / 2)}}


def _encoded(weights: np.ndarray) -> str:
    """Encode (target, source) row by row in base64, two bytes a number, the lower byte first."""
    weights = np.asarray(weights, dtype=np.float64)
    steps = np.rint(np.clip(np.nan_to_num(weights), 0, 1) * STEPS)
    steps[np.isnan(weights)] = NOT_A_NUMBER
    return base64.b64encode(steps.astype("<u2").tobytes()).decode()


def _number(value: float | None) -> float | None:
    """Round to four decimals; return None for NaN and infinity, which JSON does not have."""
    return round(float(value), 4) if value is not None and math.isfinite(value) else None


def _as_bytes(text: str) -> bytes:
    # A lone surrogate has no UTF-8; as \udc80 it is JSON's own notation for itself.
    return text.encode("utf-8", "backslashreplace")


def _json(value: dict) -> str:
    """Write JSON that can stand in a script element: without `<` and line separators."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
