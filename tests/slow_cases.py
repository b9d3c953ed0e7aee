"""Tables of cases of which the quick suite runs a few and the slow suite the rest."""

from collections.abc import Iterable

import pytest


def cases(all_of_them: Iterable[object], *quick: object) -> list:
    """Return the parameters of a test; all but the quick ones are marked slow.

    Args:
        quick: the cases that the quick suite runs; by default the first.
    """
    params = list(all_of_them)
    quick = quick or params[:1]
    return [pytest.param(p, marks=[pytest.mark.slow] * (p not in quick)) for p in params]
