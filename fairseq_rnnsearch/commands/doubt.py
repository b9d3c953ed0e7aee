"""Reasons to doubt a translation: what a program can see of it without a reference.

``doubtOf`` in ``living/engine.js`` judges alike, and ``tests/doubt.json`` has cases for both. The
limits were chosen on validation text.
"""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from fairseq_rnnsearch.errors import pluralize

# A translation has the first that applies.
REASONS = (
    "unknown words",
    "much too short",
    "a phrase again and again",
    "digits are missing",
    "far less sure than on its validation text",
)

ENOUGH = 12  # tokens of a source; below, only an empty translation is too short
REPEATED = r"(.{4,60}?)\1\1|(.{10,80}?)\2"  # in lower case, between spaces
_WITHIN_NUMBERS = r"([0-9])[ ,.'’\u00a0\u202f](?=[0-9])"  # 1,000 and 1 000 are 1000
_SHORT = 0.45  # of the usual length
_LESS_SURE = 0.2  # bits a token
_NAMED = 5  # lines


class Limits(NamedTuple):
    """What is still usual for a model.

    Attributes:
        shortest: target tokens for each source token.
        least_bits: log2 p of a token, the mean over a translation.
    """

    shortest: float = _SHORT
    least_bits: float = -1.3

    @classmethod
    def of(cls, source: Any, target: Any, validation: Mapping[str, float]) -> "Limits":
        """Return them from a model's dictionaries, which count the tokens of its training text.

        Args:
            validation: what a folder keeps of it. ``token_score_10`` are the bits below which a
                tenth of the translations of the validation text are.
        """
        tokens = [sum(one.count[one.nspecial :]) for one in (source, target)]
        usual = tokens[1] / tokens[0] if min(tokens) > 0 else 1.0
        bits = validation.get("token_score_10", cls().least_bits + _LESS_SURE)
        return cls(_SHORT * usual, bits - _LESS_SURE)


def doubt_of(
    source: str, text: str, tokens: tuple[int, int], is_known: bool, bits: float, limits: Limits
) -> str | None:
    """Return the first of `REASONS` to doubt a translation, or None.

    Args:
        tokens: how many the source and the translation have, without end symbols.
        is_known: whether the model knows all words of the source.
        bits: log2 p of a token, the mean over the translation and its end symbol.
    """
    joined_source, joined_text = (re.sub(_WITHIN_NUMBERS, r"\1", one) for one in (source, text))
    least = limits.shortest * tokens[0] if tokens[0] >= ENOUGH else min(tokens[0], 1)
    found = (
        not is_known,
        tokens[1] < least,
        _repeats(text) and not _repeats(source),
        any(number not in joined_text for number in re.findall("[0-9]+", joined_source)),
        bits < limits.least_bits and tokens[0] > 0,
    )
    return REASONS[found.index(True)] if any(found) else None


def doubted_lines(doubts: Mapping[int, str], lines: int) -> str:
    """Return one line about the doubts of a text.

    Args:
        doubts: the reasons by the numbers of their lines.
        lines: how many the text has.
    """
    first = ", ".join(map(str, [*doubts][:_NAMED]))
    more = f" and {len(doubts) - _NAMED:,} more" if len(doubts) > _NAMED else ""
    reasons = (f"{reason} ({times:,})" for reason, times in Counter(doubts.values()).most_common())
    which = f"{len(doubts):,} of {pluralize(lines, 'translation')} may be bad"
    return f"{which}, line{'s' if len(doubts) > 1 else ''} {first}{more}: {', '.join(reasons)}"


def _repeats(text: str) -> bool:
    return re.search(REPEATED, f" {' '.join(text.lower().split())} ", re.DOTALL) is not None
