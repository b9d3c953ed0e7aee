"""Which sentences are drawn."""

from collections.abc import Callable

from fairseq_rnnsearch.errors import UserError


def parse_samples(text: str) -> Callable[[int], bool]:
    """A test for sentence numbers, which count from 0 in the order of the data set.

    Args:
        text: "20", the first twenty; "all"; or "ids:3,17", these.

    Raises:
        UserError: for anything else.
    """
    text = str(text).strip()
    if text == "all":
        return lambda sentence: True
    if text.isdecimal():
        return lambda sentence: sentence < int(text)
    kind, _, numbers = text.partition(":")
    parts = [part.strip() for part in numbers.split(",")]
    if kind == "ids" and all(part.isdecimal() for part in parts):
        chosen = frozenset(map(int, parts))
        return lambda sentence: sentence in chosen
    raise UserError(
        f"--heatmap-samples {text!r}: must be a number (the first N sentences), all, or "
        "ids:3,17 (sentence numbers, from 0)"
    )
