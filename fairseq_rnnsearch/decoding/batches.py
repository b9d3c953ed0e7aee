"""Batches: from sentences, in parts, and described when memory runs out."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils._pytree import tree_map_only

from fairseq_rnnsearch.errors import pluralize

_LINKS = ("alignments", "align_weights")  # for the whole batch, not one per row
_NO_MEMORY = ("t allocate memory", "out of memory")  # torch's messages, without and with a GPU


def batch_of(
    sources: Sequence[Tensor],
    targets: Sequence[Tensor] | None,
    pad: int,
    *,
    left_pad_source: bool = False,
) -> dict:
    """Return sentences as a batch, longest source first, as fairseq collates them.

    Args:
        sources, targets: numbers of words, with the end symbol last.
    """
    lengths, order = torch.tensor([len(one) for one in sources]).sort(descending=True)
    side = "left" if left_pad_source else "right"
    words = pad_sequence(sources, True, pad, padding_side=side).index_select(0, order)
    batch: dict[str, Any] = {
        "id": order,
        "net_input": {"src_tokens": words, "src_lengths": lengths},
        "target": None,
    }
    if targets is not None:
        previous = [one.roll(1) for one in targets]  # the end symbol begins
        batch["target"] = pad_sequence(targets, True, pad).index_select(0, order)
        words = pad_sequence(previous, True, pad).index_select(0, order)
        batch["net_input"]["prev_output_tokens"] = words
    return batch


def rows_of(sample: dict, rows: slice | Tensor, padding: int) -> dict:
    """Return some sentences of a batch as a batch of the same width."""
    count = len(sample["net_input"]["src_tokens"])

    def pick(value: Tensor) -> Tensor:
        return value[rows] if value.dim() > 0 and len(value) == count else value

    part = {key: value for key, value in sample.items() if key not in _LINKS}
    part = tree_map_only(Tensor, pick, part)
    if "alignments" in sample:
        part |= _links_of_rows(sample, rows)
    if "nsentences" in sample:
        part["nsentences"] = len(part["net_input"]["src_tokens"])
    if part.get("target") is not None:
        part["ntokens"] = int(part["target"].ne(padding).sum())
    return part


def _links_of_rows(sample: dict, rows: slice | Tensor) -> dict:
    """Return some rows' links in fairseq's form: to positions in the flattened target."""
    links, (count, width) = sample["alignments"], sample["target"].shape
    chosen = torch.arange(count, device=links.device)[rows]
    place = chosen.new_full((count,), -1)
    place[chosen] = torch.arange(len(chosen), device=links.device)
    source, position = links.unbind(dim=1)
    row = place[position // width]
    links = torch.stack((source, row * width + position % width), dim=1)
    return {"alignments": links[row >= 0], "align_weights": sample["align_weights"][row >= 0]}


@contextlib.contextmanager
def naming_the_batch(sample: dict) -> Iterator[None]:
    """Name the batch that was too large when memory runs out.

    fairseq's trainer skips a batch whose error says "out of memory", as CUDA's does. The CPU's
    error is worded differently and would end training.

    Raises:
        RuntimeError: "out of memory", with the batch, its lengths and how to make it smaller.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as problem:
        reason = (str(problem) or "none is left").splitlines()[0][:200]
        if not (isinstance(problem, MemoryError) or any(said in reason for said in _NO_MEMORY)):
            raise
        raise RuntimeError(f"{_described(sample)}: {reason}") from problem


def _described(sample: dict) -> str:
    source, target = sample["net_input"]["src_tokens"], sample.get("target")
    ids = sample["id"].tolist() if "id" in sample else []
    shown = f" ({', '.join(map(str, ids[:5]))}{', ...' * (len(ids) > 5)})" * bool(ids)
    lengths = f"{source.size(1)} source"
    if target is not None:
        lengths += f" and {target.size(1)} target"
    return (
        f"out of memory in a batch of {pluralize(len(source), 'sentence')}{shown}, the longest of "
        f"{lengths} tokens, end symbols included; make it smaller with --batch-size (in fairseq's "
        "commands also with --max-tokens, and in training with --max-train-words)"
    )
