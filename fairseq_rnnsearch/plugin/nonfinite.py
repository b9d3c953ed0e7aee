"""Find the sentences that made a cost or a gradient non-finite.

The update has summed over all of them; in this rare case, each is scored again alone.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from fairseq_rnnsearch.decoding.batches import rows_of
from fairseq_rnnsearch.runs.trainer import unwrapped

_NAMED = 10


class UpdateRecord:
    """The batches of one update, kept until its gradient is known to be finite.

    Attributes:
        update: its number; None: no update.
    """

    def __init__(self, update: int | None = None) -> None:
        self.update = update
        self._batches: list[dict] = []
        self._model: torch.nn.Module | None = None
        self._criterion: torch.nn.Module | None = None

    def add(self, sample: dict, model: torch.nn.Module, criterion: Any) -> None:
        """Remember a batch."""
        self._batches.append(sample)
        # without the wrappers, whose processes wait for each other: others may have no problem
        self._model, self._criterion = unwrapped(model), criterion

    def explain(self) -> str:
        """Describe what is not finite: a parameter, or sentences by number, counted from 0."""
        if self._model is None:
            return "no batch is known"
        for name, parameter in self._model.named_parameters():
            if not torch.isfinite(parameter).all():
                return f"the parameter {name} is not finite itself"
        with torch.random.fork_rng():
            norms = dict(self._norms())
        bad = sorted(number for number, norm in norms.items() if not torch.isfinite(norm))
        if bad:
            alone = f"{name_sentences(bad)} of {len(norms):,}"
            return f"computed one by one, {alone} {'have' if bad[1:] else 'has'} no finite gradient"
        largest = max(norms, key=norms.__getitem__, default=None)
        return (
            f"each of its {len(norms)} sentences alone has a finite gradient, {largest} the "
            f"largest (norm {float(norms.get(largest, 0)):.3g}): {name_sentences(sorted(norms))}"
        )

    def _norms(self) -> Iterator[tuple[int, Tensor]]:
        """Yield sentences and their gradient norms, NaN if the cost is not finite."""
        parameters = [p for p in self._model.parameters() if p.requires_grad]
        for sample in self._batches:
            for row in range(len(sample["id"])):
                one = rows_of(sample, slice(row, row + 1), self._criterion.padding_idx)
                cost = self._criterion(self._model, one)[0]
                gradients = torch.autograd.grad(cost, parameters, allow_unused=True)
                norms = [g.double().norm() for g in gradients if g is not None]
                yield int(one["id"]), torch.stack(norms).norm() + 0 * cost.detach().double()


def name_sentences(numbers: list[int]) -> str:
    """Return ``sentences 3, 17`` and the number of further ones."""
    more = f" and {len(numbers) - _NAMED} more" if len(numbers) > _NAMED else ""
    word = "sentence" if len(numbers) == 1 else "sentences"
    return f"{word} {', '.join(map(str, numbers[:_NAMED]))}{more}"
