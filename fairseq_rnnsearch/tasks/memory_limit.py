"""``--max-batch-memory``: what would take more is computed in parts, and a sentence that alone
would is refused before anything begins. Where memory runs out nevertheless, the batch is named.

A model offers estimates of what its batches take (``kernels/interface.py``); the batches of
other models are left as they are.
"""

import contextlib
import logging
import os
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq import utils
from fairseq.sequence_generator import SequenceGenerator
from fairseq.sequence_scorer import SequenceScorer
from torch import Tensor

from fairseq_rnnsearch.contracts import (
    AsksForCost,
    Estimate,
    EstimatesMemory,
    ReadsBatches,
    unwrapped,
)
from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.search.generator import longest_translation
from fairseq_rnnsearch.wording import counted

logger = logging.getLogger(__name__)

GIGABYTE = 10**9


class MemoryLimit:
    """The memory that a batch may take.

    Args:
        gigabytes: 0: any amount; None: half of what there is, shared by this machine's processes,
            or of what is free on a GPU.

    Raises:
        UserError: for a negative number.
    """

    def __init__(self, gigabytes: float | None) -> None:
        if gigabytes is not None and not gigabytes >= 0:
            raise UserError(f"--max-batch-memory {gigabytes}: must be 0 (no limit) or more")
        self._gigabytes = gigabytes
        self._announced = False

    def bytes(self, device: torch.device) -> float:
        """Return the limit for a model that lies there."""
        if self._gigabytes is None:
            return memory_of(device) / 2
        return self._gigabytes * GIGABYTE or float("inf")

    def allows(self, memory: Estimate, device: torch.device, *sizes: int) -> bool:
        """Tell whether a batch of so many sentences, source and target positions is within it."""
        return memory(*sizes) <= self.bytes(device)

    def check(
        self,
        memory: Estimate,
        device: torch.device,
        source: Sequence[int],
        target: Sequence[int],
        split: str = "",
        first: int = 0,
    ) -> None:
        """Refuse a sentence that alone takes too much.

        Args:
            source, target: positions of each sentence.
            split: the part of the data that they are, if it is known.
            first: the number of the first of them.

        Raises:
            UserError: about the sentence that takes the most.
        """
        source, target = (np.asarray(sizes, dtype=float) for sizes in (source, target))
        needed, limit = memory(1, source, target), self.bytes(device)
        count = int((needed > limit).sum())
        if not count:
            return
        worst = int(needed.argmax())
        others = f" ({count - 1:,} more need more than that)" if count > 1 else ""
        where = f" of the {split!r} data, counted from 0," if split else ""
        raise UserError(
            f"sentence {first + worst}{where} has {source[worst]:,.0f} source and up to "
            f"{target[worst]:,.0f} target positions and needs about "
            f"{needed[worst] / GIGABYTE:,.3g} GB; --max-batch-memory allows "
            f"{limit / GIGABYTE:,.3g} GB{others}: leave out, cut or split long sentences "
            "(in training --max-train-words N leaves them out), or allow more (0: any amount)"
        )

    def parts(
        self, memory: Estimate, device: torch.device, source: list[int], target: list[int]
    ) -> list[slice]:
        """Return rows that together take no more than they may, or are one sentence.

        Args:
            source, target: positions of each row, without padding.
        """
        limit, found, start, size = self.bytes(device), [], 0, (0, 0)
        for row, of_row in enumerate(zip(source, target, strict=True)):
            larger = max(size[0], of_row[0]), max(size[1], of_row[1])
            if row > start and memory(row + 1 - start, *larger) > limit:
                found.append(slice(start, row))
                start, larger = row, of_row
            size = larger
        found.append(slice(start, len(source)))
        if len(found) > 1 and not self._announced:
            self._announced = True
            whole = memory(len(source), max(source), max(target)) / GIGABYTE
            logger.info(
                "a batch of %s, the longest of %s source and %s target positions, would "
                "take about %.1f GB: it is computed in %d parts, as later ones are without a word "
                "(--max-batch-memory %.3g)",
                *(counted(len(source), "sentence"), f"{max(source):,}", f"{max(target):,}", whole),
                *(len(found), limit / GIGABYTE),
            )
        return found

    def parts_of(
        self, sample: dict, model: torch.nn.Module, criterion: object, padding: int
    ) -> list[dict]:
        """Return a training batch, or batches that are computed one by one in its place."""
        memory, target = training_memory(unwrapped(model), criterion), sample.get("target")
        if memory is None or target is None or not criterion.logging_outputs_can_be_summed():
            return [sample]
        source = sample["net_input"]["src_tokens"]
        if self.allows(memory, source.device, *source.shape, target.size(1)):
            return [sample]
        lengths = (words.ne(padding).sum(dim=1).tolist() for words in (source, target))
        parts = self.parts(memory, source.device, *lengths)
        return [narrowed(rows_of(sample, rows, padding), padding) for rows in parts]


@cache
def memory_of(device: torch.device) -> float:
    """Return the bytes that are free on a GPU, or this process's share of the machine or cgroup.

    They are asked for once: what fits shall not depend on the batches before.
    """
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        # torch has taken this from the GPU and gives it to nobody else
        return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), *_cgroup_limits()]
    return min(sizes) / int(os.environ.get("LOCAL_WORLD_SIZE", 1))


def _cgroup_limits() -> Iterator[int]:
    """Yield the limits of containers and of Slurm's jobs.

    They are those of this process's group, and of the groups around it.
    """
    root = Path("/sys/fs/cgroup")
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            folder = root / controllers / path.lstrip("/")
            name = "memory.limit_in_bytes" if controllers else "memory.max"
            for group in (folder, *folder.parents):
                with contextlib.suppress(OSError, ValueError):  # "max" is no number
                    yield int((group / name).read_text())


# --- estimates -----------------------------------------------------------------------------------


def training_memory(model: torch.nn.Module | None, criterion: object) -> Estimate | None:
    """Return the model's estimate of what a batch takes in training; None: it has none."""
    if criterion is None or not isinstance(model, EstimatesMemory):
        return None
    asks_for_cost = isinstance(criterion, AsksForCost) and criterion.asks_for_cost()
    estimate = model.training_memory(all_logits=not asks_for_cost)
    times = readings(criterion)
    return lambda sentences, source, target: estimate(times * sentences, source, target)


def readings(criterion: object) -> int:
    """Return how often a criterion gives a batch of training to the model at the same time."""
    return criterion.readings() if isinstance(criterion, ReadsBatches) else 1


def search_memory(
    generator: SequenceGenerator | SequenceScorer, models: Sequence[torch.nn.Module]
) -> Estimate | None:
    """Return the estimate of all models together; None: one of them has no estimate."""
    if not all(isinstance(model, EstimatesMemory) for model in models):
        return None
    if isinstance(generator, SequenceScorer):
        estimates = [model.training_memory(all_logits=True) for model in models]
    else:
        estimates = [model.search_memory(generator.beam_size) for model in models]
    return lambda *sizes: sum(estimate(*sizes) for estimate in estimates)


def target_positions(
    generator: SequenceGenerator | SequenceScorer, source: Any, target: Any
) -> Any:
    """Return the positions of the longest translation that may be found, or of the given one.

    Args:
        source, target: arrays of positions; ``target`` may be None where there is none given.
    """
    if isinstance(generator, SequenceScorer):
        return target
    return longest_translation(generator, source) + 1


# --- batches ----------------------------------------------------------------------------------

_WORDS = ("src_tokens", "prev_output_tokens", "target")
_LINKS = ("alignments", "align_weights")  # of the whole batch, not one for each row


def rows_of(sample: dict, rows: slice, padding: int) -> dict:
    """Return some sentences of a batch as a batch, as wide as before."""
    count = len(sample["net_input"]["src_tokens"])

    def pick(value: Tensor) -> Tensor:
        return value[rows] if value.dim() > 0 and len(value) == count else value

    part = {key: value for key, value in sample.items() if key not in _LINKS}
    part = utils.apply_to_sample(pick, part)
    if "alignments" in sample:
        part |= _links_of_rows(sample, rows)
    if "nsentences" in sample:
        part["nsentences"] = len(part["net_input"]["src_tokens"])
    if part.get("target") is not None:
        part["ntokens"] = int(part["target"].ne(padding).sum())
    return part


def _links_of_rows(sample: dict, rows: slice | Tensor) -> dict:
    """Return the links of some rows as fairseq keeps them: to a position of the flat target."""
    links, (count, width) = sample["alignments"], sample["target"].shape
    kept = torch.arange(count, device=links.device)[rows]
    place = kept.new_full((count,), -1)
    place[kept] = torch.arange(len(kept), device=links.device)
    source, position = links.unbind(dim=1)
    row = place[position // width]
    links = torch.stack((source, row * width + position % width), dim=1)
    return {"alignments": links[row >= 0], "align_weights": sample["align_weights"][row >= 0]}


def narrowed(sample: dict, padding: int) -> dict:
    """Return the same batch without columns that are all padding."""

    def narrow(key: str, value: Any) -> Any:
        if isinstance(value, dict):
            return {inner: narrow(inner, held) for inner, held in value.items()}
        return value[:, value.ne(padding).any(dim=0)] if key in _WORDS else value

    narrower = {key: narrow(key, value) for key, value in sample.items()}
    if "alignments" in sample:
        is_source, is_target = (
            words.ne(padding).any(dim=0)
            for words in (sample["net_input"]["src_tokens"], sample["target"])
        )
        (source, position), width = sample["alignments"].unbind(dim=1), len(is_target)
        column = (is_target.cumsum(0) - 1)[position % width]
        position = position // width * is_target.sum() + column
        source = (is_source.cumsum(0) - 1)[source]
        narrower["alignments"] = torch.stack((source, position), dim=1)
    return narrower


def summed(results: Sequence[tuple[Tensor, int, dict]]) -> tuple[Tensor, int, dict]:
    """Add up what a criterion returns of several batches: cost, sample size, what it logs."""
    if len(results) == 1:
        return results[0]
    costs, sizes, logs = zip(*results, strict=True)
    return sum(costs), sum(sizes), {key: sum(log[key] for log in logs) for key in logs[0]}


# --- memory that runs out all the same -----------------------------------------------------------


@contextlib.contextmanager
def in_fairseqs_words(sample: dict) -> Iterator[None]:
    """Lose one batch and not the run, on a CPU too.

    fairseq's trainer clears up and goes on when an error says "out of memory", as CUDA's does; the
    CPU's speaks of memory that cannot be allocated, and would end the training.

    Raises:
        RuntimeError: in the place of such an error.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as problem:
        if not (isinstance(problem, MemoryError) or "t allocate memory" in str(problem)):
            raise
        raise RuntimeError(_explanation(sample, problem)) from problem


def _explanation(sample: dict, problem: Exception) -> str:
    """Say what the batch was, and what would make it smaller."""
    ids = sample["id"].tolist()
    shown = ", ".join(map(str, ids[:5])) + ", ..." * (len(ids) > 5)
    source = sample["net_input"]["src_tokens"].shape[1]
    target = sample["target"].shape[1]
    reason = (str(problem) or "none is left").splitlines()[0][:200]
    return (
        f"out of memory in a batch of {counted(len(ids), 'sentence')} ({shown}), the longest of"
        f" {source} source and {target} target words; a smaller --batch-size, --max-tokens or"
        f" --max-train-words makes it smaller: {reason}"
    )
