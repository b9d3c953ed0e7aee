"""A `Translator`'s result: a translation, its alternatives, and its alignment."""

import io
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from fairseq_rnnsearch.commands.doubt import REASONS
from fairseq_rnnsearch.errors import UserError, as_text
from fairseq_rnnsearch.text.plain_text import joined_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

    from fairseq_rnnsearch.figures import Alignment
    from fairseq_rnnsearch.figures.pictures import StyleName

# Drawing, and reading a checkpoint with fairseq, temporarily change settings of the whole process.
one_at_a_time = threading.Lock()
LONGEST_SHOWN = 50  # letters of a sentence in a message


@dataclass(frozen=True, repr=False)
class Translation:
    """A sentence, its translation, and its alignment.

    A `Translator` gives both texts and the score; the rest is computed when it is asked for.

    Attributes:
        source, text: both sentences as plain text.
        source_tokens, tokens: the columns and rows of ``weights``: words, or subword pieces if
            these are not merged, with the end symbols.
        score: log-probability to base 2 over the number of tokens to the power of ``lenpen``, as
            fairseq prints it; for a line that was split into sentences, the mean score. Minus
            infinity if the authors' search found no translation.
        alignment: the same with its weights, for ``figures``; None if the model has no
            attention.
        probabilities: of each of ``tokens``, given the source and the tokens before it.
        is_cut: whether the search cut it off at the model's length limit.
        others: the search's other hypotheses, best first; see ``nbest``.
        unknown: the unknown source words, each once, in order. The model has read ``<unk>`` instead
            of them, so the translation is probably bad.
        doubt: one of ``doubt.REASONS`` to distrust the translation, or None; None for given ones.
        markup: ``text`` with the source's tags and placeholders, if ``markup=True`` was given.
    """

    source: str
    text: str
    source_tokens: tuple[str, ...]
    tokens: tuple[str, ...]
    score: float
    alignment: "Alignment | None"
    probabilities: tuple[float, ...] = field(default_factory=tuple)
    is_cut: bool = False
    others: tuple["Translation", ...] = field(default_factory=tuple)
    unknown: tuple[str, ...] = field(default_factory=tuple)
    doubt: str | None = None
    markup: str | None = None

    @classmethod
    def begun(cls, known: dict[str, Any], make: Callable[[], dict[str, Any]]) -> "Translation":
        """Return a translation with the known attributes.

        Args:
            make: returns the others; called when one of them is first asked for.
        """
        translation = cls.__new__(cls)
        vars(translation).update(known, _make=make)
        return translation

    def __getattr__(self, name: str) -> Any:
        """Make the attributes that have not been asked for before."""
        if name in self.__dataclass_fields__ and "_make" in vars(self):
            vars(self).update(self._make())
            return vars(self)[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __getstate__(self) -> dict[str, Any]:
        """Return all attributes, for pickles and copies."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    @property
    def nbest(self) -> tuple["Translation", ...]:
        """The hypotheses in the final beam, best first; the first is this one.

        Of those that are split differently but have the same text, the best stays.
        """
        by_text: dict[str, Translation] = {}
        for one in (self, *self.others):
            by_text.setdefault(one.text, one)
        return (*by_text.values(),)

    @property
    def weights(self) -> NDArray[np.floating]:
        """Alignment weights, ``(target, source)``, rows sum to one; read-only.

        Where the authors' search found no translation, all are zero.

        Raises:
            UserError: if the model has no attention.
        """
        return self._alignment.weights

    @property
    def mattered(self) -> NDArray[np.floating] | None:
        """How much each source position helped each target word, ``(target, source)``; read-only.

        The natural logarithm of the word's probability minus what it is when attention cannot look
        at the position: positive if the position helped. See
        ``decoding.engine_networks.attribution``. Merged words have the sum of their pieces'
        (``Alignment.merge_pieces``). None unless it was asked for with ``attribution=True``, for
        RNNencdec, and for ``others``.
        """
        return None if self.alignment is None else self.alignment.attribution

    def to_dict(self) -> dict[str, Any]:
        """Return everything but ``others`` as JSON values, as ``--json`` prints it.

        Numbers are rounded to six decimals; weights are one list per row, or None if the model
        has no attention; the score is None if it is not finite; ``mattered`` and ``markup`` are
        there only if they were asked for.
        """
        from fairseq_rnnsearch.figures.jsonl import finite, rounded

        more = {} if self.mattered is None else {"mattered": rounded(self.mattered)}
        more |= {} if self.markup is None else {"markup": self.markup}
        return {
            "source": self.source,
            "source_tokens": list(self.source_tokens),
            "unknown": list(self.unknown),
            "text": self.text,
            "score": finite(round(self.score, 6)),
            "tokens": list(self.tokens),
            "probabilities": [round(p, 6) for p in self.probabilities],
            "weights": self.alignment and rounded(self.weights),
            **more,
            "is_cut": self.is_cut,
            "doubt": self.doubt,
        }

    def plot(
        self,
        path: str | Path | None = None,
        *,
        ax: "Axes | None" = None,
        style: "StyleName" = "paper",
        cmap: "str | Colormap | None" = None,
        title: str | None = None,
        values: bool | Literal["mattered"] = False,
        dpi: float | None = None,
    ) -> "Axes":
        """Draw the alignment as in the paper's Figure 3.

        Args:
            path: a file to write as well, without ``ax``: .png, .pdf or .svg.
            ax: matplotlib axes to draw into (default: a new figure's, as large as the words need
                and unknown to pyplot: ``plot().figure``).
            style: "paper" (white on black), "inverted" (black on white) or "slides" (large).
            cmap: a matplotlib colour map or its name, instead of greys.
            title: a line above the picture (default: for `align`, which weights they are).
            values: whether to write the weights into the cells; "mattered" draws and writes
                `mattered` instead, blue where a position helped, red where it hurt.
            dpi: dots per inch of a new figure and its file (default: 150).

        Returns:
            The axes; a notebook shows the picture.

        Raises:
            UserError: if the model has no attention, the file cannot be written, or `mattered` was
                not computed.
        """
        from fairseq_rnnsearch.figures import draw_heatmap, save_heatmap

        matrix, signed = self._alignment.weights, values == "mattered"
        if signed:
            matrix = self.mattered
            if matrix is None:
                raise UserError('plot: values="mattered" needs translate(..., attribution=True)')
        drawn = self._alignment.source, self._alignment.target, matrix
        look = {"style": style, "cmap": cmap, "title": title or self._alignment.title}
        look |= {"values": bool(values), "signed": signed}
        if ax is not None:
            return draw_heatmap(*drawn, **look, axes=ax)
        with one_at_a_time:
            if path is not None:
                save_heatmap(path, *drawn, **look, dpi=dpi)
            ax = draw_heatmap(*drawn, **look, dpi=dpi)
        figure = ax.figure
        ax._repr_png_ = figure._repr_png_ = lambda: _png(figure)  # notebooks know pyplot's only
        return ax

    def html(self, style: "StyleName" = "paper") -> str:
        """Return both sentences and the heatmap as HTML, with weights on words and cells.

        It is one self-contained element, for a notebook or another page.

        Raises:
            UserError: if the model has no attention.
        """
        from fairseq_rnnsearch.figures.page import embedded_page

        return embedded_page(self._alignment, style)

    @property
    def _alignment(self) -> "Alignment":
        if self.alignment is None:
            raise UserError(
                "this translation has no alignment: its model has no attention (RNNencdec reads "
                "the source through one vector)"
            )
        return self.alignment

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        import html

        text = f"<p>{html.escape(self.source)}<br><b>{html.escape(self.text)}</b></p>"
        return text if self.alignment is None else text + self.html()

    def __repr__(self) -> str:
        source, text = (as_text(sentence, LONGEST_SHOWN) for sentence in (self.source, self.text))
        score = round(self.score, 2) + 0.0  # no minus before 0.00
        return f"Translation({source!r} -> {text!r}, score {score:.2f})"

    def __str__(self) -> str:
        return self.text


def joined(source: str, parts: Sequence[Translation]) -> Translation:
    """Join the translations of a line's sentences.

    All sentences share one column for their end symbols; only the last one's end symbol has a row.
    Each of the others has another translation of one sentence.
    """
    if len(parts) == 1:
        return parts[0]
    doubts = {part.doubt for part in parts}
    known = {
        "source": source,
        "text": " ".join(part.text for part in parts),
        "score": sum(part.score for part in parts) / len(parts),
        "is_cut": any(part.is_cut for part in parts),
        "doubt": next((one for one in REASONS if one in doubts), None),
    }
    return Translation.begun(known, partial(_joined_details, source, parts, known["score"]))


def _joined_details(source: str, parts: Sequence[Translation], score: float) -> dict[str, Any]:
    from fairseq_rnnsearch.figures import Alignment

    probabilities = _with_one_end([part.probabilities for part in parts])
    alignment = None
    if of_parts := [part.alignment for part in parts if part.alignment is not None]:
        attributions = [one.attribution for one in of_parts if one.attribution is not None]
        of_lines = [one.lines for one in of_parts if one.lines is not None]
        texts = source, " ".join(part.text for part in parts)
        sides = zip(texts, zip(*of_lines, strict=True), strict=False)
        lines = tuple(joined_line(*side) for side in sides)
        alignment = Alignment(
            _with_one_end([one.source for one in of_parts]),
            _with_one_end([one.target for one in of_parts]),
            _blocks([one.weights for one in of_parts]),
            score=score,
            probabilities=probabilities,
            attribution=_blocks(attributions) if attributions else None,
            lines=lines if len(of_lines) == len(parts) else None,
        )
    others = (
        joined(source, [*parts[:place], other, *parts[place + 1 :]])
        for place, part in enumerate(parts)
        for other in part.others
    )
    return {
        "source_tokens": _with_one_end([part.source_tokens for part in parts]),
        "tokens": _with_one_end([part.tokens for part in parts]),
        "alignment": alignment,
        "probabilities": probabilities,
        "others": tuple(sorted(others, key=lambda one: -one.score)),
        "unknown": tuple(dict.fromkeys(word for part in parts for word in part.unknown)),
    }


def _with_one_end(sentences: Sequence[tuple]) -> tuple:
    return tuple(one for sentence in sentences for one in sentence[:-1]) + sentences[-1][-1:]


def _blocks(matrices: Sequence[np.ndarray]) -> np.ndarray:
    """Put sentences' matrices on a diagonal; the columns of their end symbols become one."""
    joined = np.zeros(np.sum([one.shape for one in matrices], axis=0) - len(matrices) + 1)
    row = column = 0
    for one in matrices:
        rows, columns = one.shape
        joined[row] = 0  # the end of the sentence before
        joined[row : row + rows, column : column + columns - 1] = one[:, :-1]
        joined[row : row + rows, -1] = one[:, -1]
        row, column = row + rows - 1, column + columns - 1
    return joined


def _png(figure: "Figure") -> bytes:
    file = io.BytesIO()
    with one_at_a_time:
        figure.savefig(file, format="png")
    return file.getvalue()
