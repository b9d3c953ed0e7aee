"""One alignment from two: a model of each direction aligns, and their links are joined.

    intersection          links that both directions have
    union                 links that either has
    grow-diag-final-and   the intersection, grown into the union

The last is the heuristic of Koehn, Och and Marcu (2003) as Koehn et al. (IWSLT 2005) write it
down and as Moses' `symal -alignment=grow -diagonal=yes -final=yes -both=yes` runs it:

    GROW-DIAG: until nothing is added, for each link (t, s), target word by target word, and for
        each of its eight neighbours: add the neighbour if it is in the union and its target word
        or its source word has no link yet. A link added further on is seen in the same scan.
    FINAL-AND(forward), then FINAL-AND(inverse), target word by target word: add a link of that
        direction if neither its target word nor its source word has a link yet.

What is added depends on the order, so the order is Moses' in every particular.
"""

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from heapq import heappop, heappush

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.evaluation.links import Link

# steps (target, source), in the order in which they are tried
NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def symmetrise(
    forward: AbstractSet[Link], inverse: AbstractSet[Link], method: str
) -> frozenset[Link]:
    """Join the links of one sentence pair.

    Args:
        forward: ``(source, target)`` by the model that translates source to target; where each
            target word chooses its source word, as with attention, this is what Moses calls the
            inverse alignment and what fast_align writes without ``-r``.
        inverse: ``(source, target)`` too, by the model that translates target to source.
        method: one of `METHODS`.

    Raises:
        UserError: for another method.
    """
    if method not in METHODS:
        raise UserError(f"symmetrisation {method!r}: must be one of {', '.join(METHODS)}")
    return frozenset(METHODS[method](forward, inverse))


def _intersection(forward: AbstractSet[Link], inverse: AbstractSet[Link]) -> AbstractSet[Link]:
    return forward & inverse


def _union(forward: AbstractSet[Link], inverse: AbstractSet[Link]) -> AbstractSet[Link]:
    return forward | inverse


def _grow_diag_final_and(forward: AbstractSet[Link], inverse: AbstractSet[Link]) -> set[Link]:
    union = {(target, source) for source, target in forward | inverse}
    links = {(target, source) for source, target in forward & inverse}
    linked_targets = {target for target, _ in links}
    linked_sources = {source for _, source in links}

    def add(target: int, source: int) -> None:
        links.add((target, source))
        linked_targets.add(target)
        linked_sources.add(source)

    grown = True
    while grown:
        grown = False
        ahead = sorted(links)  # a sorted list is a heap: the links still to come in this scan
        while ahead:
            target, source = link = heappop(ahead)
            for step_target, step_source in NEIGHBOURS:
                near = target + step_target, source + step_source
                if near in union and not (near[0] in linked_targets and near[1] in linked_sources):
                    add(*near)
                    grown = True
                    if near > link:
                        heappush(ahead, near)

    for direction in (forward, inverse):
        for target, source in sorted((target, source) for source, target in direction):
            if target not in linked_targets and source not in linked_sources:
                add(target, source)
    return {(source, target) for target, source in links}


METHODS: dict[str, Callable[[AbstractSet[Link], AbstractSet[Link]], AbstractSet[Link]]] = {
    "intersection": _intersection,
    "union": _union,
    "grow-diag-final-and": _grow_diag_final_and,
}
