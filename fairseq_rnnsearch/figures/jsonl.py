"""The file ``alignments.jsonl``, with one JSON object per line for each alignment.

Its keys are id, score, source and target (lists of words), weights (target rows, source columns),
mattered (the same shape) where it was computed, kind ("attention" or "posterior") where there is a
choice, and spans (of the source's and of the target's tokens) if links count characters.
"""

import json
import math
import operator
from dataclasses import replace
from pathlib import Path

import numpy as np

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.figures.alignment import Alignment
from fairseq_rnnsearch.text.corpus import text_lines


def json_line(alignment: Alignment) -> str:
    """Return an alignment as a line, without its end; numbers are rounded to six decimals."""
    value = {
        "id": alignment.id,
        "score": finite(alignment.score),
        "source": alignment.source,
        "target": alignment.target,
        "weights": rounded(alignment.weights),
    }
    if alignment.attribution is not None:
        value["mattered"] = rounded(alignment.attribution)
    if alignment.kind:
        value["kind"] = alignment.kind
    if alignment.units == "characters":
        value["spans"] = [line.spans for line in alignment.lines]
    return json.dumps(value, ensure_ascii=False)


def rounded(matrix: np.ndarray) -> list[list[float]]:
    """Return a matrix with six decimals."""
    return np.round(matrix.astype(float), 6).tolist()


def finite(score: float | None) -> float | None:
    """Return a score, but None for infinity and NaN, which JSON does not have."""
    return score if score is not None and math.isfinite(score) else None


def read_alignments(path: Path) -> dict[int, Alignment]:
    """Read the alignments of an ``alignments.jsonl`` by their ids, which count from 1.

    Those of d09b774 count from 0, and get one more.

    Raises:
        UserError: if the file cannot be read, a line is not one of `json_line`'s, or an id occurs
            twice.
    """
    alignments: dict[int, Alignment] = {}
    for number, line in enumerate(text_lines(path), start=1):
        if not line.strip():
            continue
        try:
            alignment = _from_json(json.loads(line))
        except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError) as problem:
            raise UserError(
                f"{path}, line {number}: not an alignment of --heatmap-format jsonl"
            ) from problem
        if alignment.id in alignments:
            raise UserError(f"{path}, line {number}: found id {alignment.id} a second time")
        alignments[alignment.id] = alignment
    if 0 in alignments:
        return {number + 1: replace(one, id=number + 1) for number, one in alignments.items()}
    return alignments


def _from_json(entry: dict) -> Alignment:
    source, target, attribution = entry["source"], entry["target"], entry.get("mattered")
    sizes, score = (len(target), len(source)), entry.get("score")
    if attribution is not None:
        attribution = _matrix(attribution, sizes)
    weights = _matrix(entry["weights"], sizes)
    number, kind = operator.index(entry["id"]), entry.get("kind", "")
    return Alignment(source, target, weights, number, score, attribution=attribution, kind=kind)


def _matrix(rows: list, sizes: tuple[int, int]) -> np.ndarray:
    """Return rows as a matrix; without words on one side there are none, or empty ones."""
    matrix = np.array(rows, float)
    return matrix if matrix.size else matrix.reshape(sizes)
