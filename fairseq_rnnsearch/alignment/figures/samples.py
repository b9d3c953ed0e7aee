"""The choice of sentences that are drawn."""

from dataclasses import dataclass

from fairseq_rnnsearch.errors import UserError, counted


@dataclass(frozen=True)
class Samples:
    """Chosen sentence numbers, which count from 0 in the order of the data set.

    Attributes:
        first: how many from the start are chosen; None for no limit.
        ids: the only numbers to choose; None for all.
    """

    first: int | None = None
    ids: frozenset[int] | None = None

    def __contains__(self, sentence: int) -> bool:
        if self.ids is not None:
            return sentence in self.ids
        return self.first is None or sentence < self.first

    def check(self, sentences: int, where: str) -> None:
        """Refuse chosen numbers that do not exist.

        Raises:
            UserError: naming the first of them.
        """
        missing = sorted(number for number in self.ids or () if number >= sentences)
        if missing:
            raise UserError(
                f"--heatmap-samples ids:{missing[0]}: {where} has {counted(sentences, 'sentence')},"
                f" valid: 0 to {sentences - 1}"
            )


def parse_samples(text: str) -> Samples:
    """Read ``--heatmap-samples``.

    Args:
        text: "20" for the first twenty, "all", or "ids:3,17" for these two.

    Raises:
        UserError: for anything else.
    """
    text = str(text).strip()
    if text == "all":
        return Samples()
    if text.isdecimal():
        return Samples(first=int(text))
    kind, _, numbers = text.partition(":")
    parts = [part.strip() for part in numbers.split(",")]
    if kind == "ids" and all(part.isdecimal() for part in parts):
        return Samples(ids=frozenset(map(int, parts)))
    raise UserError(
        f"--heatmap-samples {text!r}: must be a number (the first N sentences), all, or "
        "ids:3,17 (sentence numbers, from 0)"
    )
