"""Tags and placeholders: out of a line before it is translated, and back around their words.

    >>> line = taken_out('Click <b>Save</b>, {name}.')
    >>> line.text
    'Click Save.'

A pair of tags comes back around adjacent words of the translation: those that most of its source
words' weights go to, and few of the others'. Words that start with a capital, or are the same, as
those of the source are preferred, and a short first word, such as an article, only if the source's
is short too. A tag or a placeholder that stands alone comes back between the words that its
neighbours became.
"""

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, compress
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairseq_rnnsearch.errors import UserError

if TYPE_CHECKING:
    from fairseq_rnnsearch.figures import Alignment

Span = tuple[int, int]  # characters, or words, from the first to before the last


class Links(NamedTuple):
    """Links of the tokens of a text and its translation.

    Attributes:
        source, target: where the tokens are in their text, ``(tokens, 2)``.
        weights: ``(target tokens, source tokens)``, not negative.
    """

    source: ArrayLike
    target: ArrayLike
    weights: ArrayLike

    @classmethod
    def of(cls, alignment: "Alignment | None") -> "Links":
        """Return the links of an alignment.

        Raises:
            UserError: there is none, or it is not known where its tokens are.
        """
        if alignment is None or alignment.lines is None:
            raise UserError(
                "markup: needs attention, and tokens that can be found in a line, as those of the"
                " tokenizers reversible, space and character"
            )
        source, target = (line.spans for line in alignment.lines)
        return cls(source, target, alignment.weights_of_words)

    def turned(self) -> "Links":
        """Return the same links of the translation and its text."""
        return Links(self.target, self.source, np.transpose(self.weights))


_TAG = r"""<(?P<end>/?)(?P<name>[A-Za-z][\w:.-]*)(?:[^<>"']|"[^"]*"|'[^']*')*?(?P<empty>/?)>"""
_COMMENT = "<!--.*?-->"
_PLACEHOLDER = (
    r"\$?\{+[^{}]*\}+"
    r"|(?<!\d)%(?:\(\w+\)|\d+\$)?[-+#0]?\d*(?:\.\d+)?l{0,2}[diouxXeEfFgGcs@]"
)
_ITEM = re.compile(f"{_TAG}|{_COMMENT}|{_PLACEHOLDER}")
_TAG_ALONE = re.compile(f"{_TAG}|{_COMMENT}")
_ENTITY = re.compile(r"&(?:#\d+|#x[\da-fA-F]+|[A-Za-z]\w*);")
_WORD = re.compile(r"\w{1,2}['’](?=\w)|\w(?:[^\s!-&(-,./:-@[-^`{-~—–…“”«»]*\w)?|[^\w\s]")
_WITHOUT_WORDS = frozenset("area base br col embed hr img input link meta source track wbr".split())

# chosen on the human translations of segments of software documentation, English to French
_SAME_CASE, _SAME_TEXT, _ELSEWHERE, _ARTICLE = 1.0, 3.0, 2.0, 1.0
_CLOSING = (",", ".", ";", ":", "!", "?", ")", "]", "}")


@dataclass(frozen=True)
class Item:
    """A pair of tags around words; or a tag, pair or placeholder without words.

    Attributes:
        before: the first tag, or all of an item without words.
        after: the second tag.
        span: of its words in ``Line.text``; empty for an item without words.
        parent: index of the innermost pair that it is in, or -1.
        spaces: whether there were spaces before and behind it.
    """

    before: str
    after: str
    span: Span
    parent: int
    spaces: tuple[bool, bool] = (True, True)


@dataclass(frozen=True)
class Line:
    """A line without its tags: the text, and the items in their order."""

    text: str
    items: tuple[Item, ...]
    is_html: bool

    def put_back(self, translation: str, *directions: Links) -> str:
        """Return the translation with each item once, pairs nested as they were.

        Args:
            translation: of ``text``.
            directions: links of both texts, by one model or by one of each direction.
        """
        words = _words(translation)
        places = _places(self, translation, words, directions)
        starts = [*(start for start, _ in words), len(translation)]
        ends = [0, *(end for _, end in words)]
        spans: list[Span] = []
        for item, (begin, end) in zip(self.items, places, strict=True):
            least, most = spans[item.parent] if item.parent >= 0 else (0, len(translation))
            if begin < end:
                spans.append((starts[begin], ends[end]))
            else:
                at = starts[end] if item.spaces == (True, False) else ends[end]
                spans.append((min(max(at, least), most),) * 2)
        return self._written(translation, spans, -1, (0, len(translation)))

    def _written(self, text: str, spans: Sequence[Span], parent: int, span: Span) -> str:
        """Write what a parent spans, with the items in it."""
        children = [i for i, item in enumerate(self.items) if item.parent == parent]
        written, (at, end) = "", span
        for i in sorted(children, key=lambda i: (*spans[i], i)):
            item, (first, last) = self.items[i], spans[i]
            written += self._escaped(text[at:first])
            at = last
            if first == last and item.spaces[0] and written and not written[-1].isspace():
                written += " "
            written += item.before + self._written(text, spans, i, spans[i]) + item.after
            if first == last and item.spaces[1] and text[at : min(at + 1, end)].isalnum():
                written += " "
            if item.spaces == (False, False) and text[at : min(at + 1, end)].isspace():
                at += 1
        return written + self._escaped(text[at:end])

    def _escaped(self, text: str) -> str:
        return html.escape(text, quote=False) if self.is_html else text


# --- out of a line -------------------------------------------------------------------------------


def taken_out(line: str, placeholders: bool = True) -> Line:
    """Return a line's text without its tags, and its placeholders or not, and these."""
    matches = list((_ITEM if placeholders else _TAG_ALONE).finditer(line))
    is_html = bool(_ENTITY.search(line)) or any(match["name"] for match in matches)
    text, items, open_items, gaps = "", [], [], set()
    before = ""
    for kind, part in _parts(line, matches):
        if kind == "text":
            text += html.unescape(part) if is_html else part
        elif kind == "close":
            place = open_items.pop()
            begin, _ = items[place].span
            items[place] = replace(items[place], after=part, span=(begin, len(text)))
        else:
            parent = open_items[-1] if open_items else -1
            has_space = not text or text[-1].isspace()
            if kind == "alone" or before == "close":  # or words of both sides would be one
                gaps.add(len(text))
                text += " "
            if kind == "open":
                open_items.append(len(items))
            items.append(Item(part, "", (len(text),) * 2, parent, (has_space, True)))
        before = kind
    kept = [True] * len(text)
    for run in re.finditer(r"\s+", text):
        start, end = run.span()
        is_gap = not gaps.isdisjoint(range(start, end)) and text[end : end + 1] in _CLOSING
        kept[start:end] = [False] * (end - start)
        # a new line ends a sentence in the page
        stays = max(start, text.find("\n", start, end))
        kept[stays] = start > 0 and end < len(text) and not is_gap
    at = [0, *accumulate(map(int, kept))]
    for i, item in enumerate(items):
        start, end = item.span
        has_space = end == len(text) or text[end].isspace()
        items[i] = replace(
            item,
            span=(at[start], at[end]),
            spaces=(item.spaces[0], has_space) if start == end else (True, True),
        )
    has_markup = items or is_html  # or the line stays as it is
    return Line("".join(compress(text, kept)) if has_markup else line, tuple(items), is_html)


def _parts(line: str, matches: Sequence[re.Match[str]]) -> list[tuple[str, str]]:
    """Split a line into text, first and last tags of pairs around words, and what stands alone."""
    ends = _ends_of_pairs(matches)
    last_tags = {*ends.values()}
    parts: list[tuple[str, str]] = []
    opened: list[int] = []

    def stand_alone(begin: int) -> None:
        """Join the parts from `begin` on, and what stands alone just before them, to one."""
        while begin and (parts[begin - 1][0] == "alone" or not parts[begin - 1][1].strip()):
            begin -= 1
        if parts[begin][0] == "text":
            begin += 1
        parts[begin:] = [("alone", "".join(part for _, part in parts[begin:]))]

    at = 0
    for match in matches:
        if at < match.start():
            parts.append(("text", line[at : match.start()]))
        at = match.end()
        if match.start() in ends:
            opened.append(len(parts))
            parts.append(("open", match[0]))
        elif match.start() in last_tags:
            begin = opened.pop()
            parts.append(("close", match[0]))
            if not any(kind == "text" and part.strip() for kind, part in parts[begin:]):
                stand_alone(begin)
        else:
            parts.append(("alone", match[0]))
            stand_alone(len(parts) - 1)
    return [*parts, ("text", line[at:])]


def _ends_of_pairs(matches: Sequence[re.Match[str]]) -> dict[int, int]:
    """Return where the last tag of each pair starts, by where the first one does."""
    ends, opened = {}, []
    for match in matches:
        name = match["name"]
        if not name or match["empty"] or name.lower() in _WITHOUT_WORDS:
            continue
        if not match["end"]:
            opened.append(match)
            continue
        for place in range(len(opened) - 1, -1, -1):
            if opened[place]["name"] == name:
                ends[opened[place].start()] = match.start()
                del opened[place:]  # those in between have no last tag
                break
    return ends


# --- back into its translation -------------------------------------------------------------------


def _words(text: str) -> list[Span]:
    """Return words and marks; hyphens and apostrophes in a word are of it, but d'une is two."""
    return [match.span() for match in _WORD.finditer(text)]


def _is_short(word: str) -> bool:
    """Tell whether a word has at most three letters, in lower case, such as "the" and "d'"."""
    return len(word.rstrip("'’")) <= 3 and word.islower()


def _shares(words: Sequence[Span], tokens: NDArray) -> NDArray:
    """Return which part of each token is in each word, ``(words, tokens)``."""
    start, end = np.reshape(words, (-1, 2, 1)).transpose(1, 0, 2)
    inside = np.minimum(end, tokens[:, 1]) - np.maximum(start, tokens[:, 0])
    return inside.clip(0) / (tokens[:, 1] - tokens[:, 0]).clip(1)


def _links(words: Sequence[Span], of_source: Sequence[Span], given: Links) -> NDArray:
    """Return links between words, ``(words, source words)``; the sum of each row is one."""
    source, target = (np.reshape(side, (-1, 2)) for side in given[:2])
    weights = np.reshape(given.weights, (len(target), len(source)))
    links = _shares(words, target) @ weights @ _shares(of_source, source).T
    return links / links.sum(axis=1, keepdims=True).clip(1e-9)


def _places(
    line: Line, translation: str, words: Sequence[Span], directions: Sequence[Links]
) -> list[Span]:
    """Return the words of the translation for each item; for one without words, where it is.

    Each item has the place of the largest score in its parent's that the items before it have left.
    """
    of_source = _words(line.text)
    links = np.ones((len(words), len(of_source)))
    for given in directions:
        links *= _links(words, of_source, given) ** (1 / len(directions))
    links /= links.sum(axis=1, keepdims=True).clip(1e-9)
    places: list[Span] = []
    for item in line.items:
        has_parent = item.parent >= 0
        first, last = line.items[item.parent].span if has_parent else (0, len(line.text))
        start, end = item.span
        begin, stop = places[item.parent] if has_parent else (0, len(words))
        is_first = not line.text[first:start].strip()
        is_last = not line.text[end:last].strip()
        if (is_first and is_last) or (start == end and (is_first or is_last)):
            at_once = (begin, stop) if start < end else (begin, begin) if is_first else (stop, stop)
            places.append(at_once)
            continue
        scores = _scores(line.text, translation, item, of_source, words, links)
        scores[:begin] = scores[:, stop + 1 :] = -np.inf
        for other, (left, right) in zip(line.items, places, strict=False):
            if other.parent == item.parent:  # apart from it
                scores[:right, left + 1 :] = -np.inf
        best = np.unravel_index(scores.argmax(), scores.shape)
        is_found = np.isfinite(scores[best])
        places.append(tuple(map(int, best)) if is_found else (begin, begin))
    return places


def _scores(
    source: str,
    target: str,
    item: Item,
    of_source: Sequence[Span],
    words: Sequence[Span],
    links: NDArray,
) -> NDArray:
    """Return scores of places, ``(words + 1, words + 1)``; minus infinity where there is none."""
    start, end = item.span
    count = len(words)
    scores = np.full((count + 1, count + 1), -np.inf)
    starts, ends = (np.array(side, int) for side in zip(*words, strict=True)) if words else ([], [])
    if start == end:
        behind = sum(last <= start for _, last in of_source)
        distance = np.arange(len(of_source)) - behind
        near = np.where(distance < 0, 2.0**distance, -(2.0 ** (-1 - distance)))
        sums = np.cumsum([0, *(links @ near)])
        np.fill_diagonal(scores, 2 * sums - sums[-1])
        return scores
    text = source[start:end].strip()
    inside = np.array([first < end and start < last for first, last in of_source])
    if not count or not inside.any():
        return scores
    columns = links / links.sum(axis=0).clip(1e-9)
    gain = links[:, inside].sum(axis=1) - 0.5
    gain += columns[:, inside].sum(axis=1) - columns[:, ~inside].sum(axis=1)
    sums = np.cumsum([0, *gain])
    middles = (starts[:, None] + ends) / 2 / len(target)
    there = sums[1:] - sums[:-1, None]
    if start > 0 and text[0].isalpha():
        same = [target[at].isupper() == text[0].isupper() for at in starts]
        there += np.where(same, _SAME_CASE / 2, -_SAME_CASE / 2)[:, None]
    if not _is_short(text[slice(*_words(text)[0])]):
        there[[_is_short(target[first:last]) for first, last in words]] -= _ARTICLE
    there -= _ELSEWHERE * abs(middles - (start + end) / 2 / len(source))
    for match in re.finditer(f"(?={re.escape(text)})", target):
        there[np.ix_(starts == match.start(), ends == match.start() + len(text))] += _SAME_TEXT
    scores[:-1, 1:] = np.where(np.tri(count, dtype=bool).T, there, -np.inf)
    return scores
