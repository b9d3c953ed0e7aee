"""The file ``alignments.jsonl``, with one JSON object per line for each alignment.

Its keys are id, score, source and target (lists of words), weights (target rows, source columns),
and mattered (the same shape) where it was computed.
"""

import json
import math
from pathlib import Path

import numpy as np

from fairseq_rnnsearch.alignment.figures.alignment import Alignment
from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.files import text_lines

_LARGEST_ID = 10**12
_LARGEST_EFFECT = 10**6  # on log p, unless it is infinite
_VALID = "expected the jsonl of --heatmap-format"


def json_line(alignment: Alignment) -> str:
    """Return an alignment as a line, without its end; numbers are rounded to six decimals."""
    value = {
        "id": alignment.id,
        "score": finite(alignment.score),
        "source": alignment.source,
        "target": alignment.target,
        "weights": rounded(alignment.weights),
    }
    if alignment.mattered is not None:
        value["mattered"] = rounded(alignment.mattered)
    return json.dumps(value, ensure_ascii=False)


def rounded(matrix: np.ndarray) -> list[list[float]]:
    """Return a matrix with six decimals."""
    return np.round(matrix.astype(float), 6).tolist()


def finite(score: float | None) -> float | None:
    """Return a score, but None for infinity and NaN, which JSON does not have."""
    return score if score is not None and math.isfinite(score) else None


def read_alignments(path: Path) -> dict[int, Alignment]:
    """Read the alignments of an ``alignments.jsonl`` by their ids.

    Raises:
        UserError: if the file cannot be read, is empty or is not UTF-8, a line is not one of
            `json_line`'s, or an id occurs twice.
    """
    alignments: dict[int, Alignment] = {}
    for number, line in enumerate(text_lines(path), start=1):
        if not line.strip():
            continue
        alignment = _from_json(line, f"{path}, line {number}")
        if alignment.id in alignments:
            raise UserError(f"{path}, line {number}: found id {alignment.id} a second time")
        alignments[alignment.id] = alignment
    if not alignments:
        raise UserError(f"{path} is empty; {_VALID}")
    return alignments


def _matrix(rows: list, sizes: tuple[int, int]) -> np.ndarray:
    """Return rows as a matrix; without words on one side there are none, or empty ones."""
    matrix = np.array(rows, float)
    if matrix.size and matrix.shape != sizes:
        raise ValueError("another shape")
    return matrix.reshape(sizes)


def _are_effects(numbers: np.ndarray) -> bool:
    return not (np.abs(numbers[np.isfinite(numbers)]) > _LARGEST_EFFECT).any()


def _from_json(line: str, where: str) -> Alignment:
    try:
        entry = json.loads(line)
        source, target, number = (entry[key] for key in ("source", "target", "id"))
        sizes, score = (len(target), len(source)), entry.get("score")
        weights, mattered = _matrix(entry["weights"], sizes), entry.get("mattered")
        if mattered is not None:
            mattered = _matrix(mattered, sizes)
        is_alignment = (
            all(isinstance(word, str) for word in (*source, *target))
            and (type(number) is int and 0 <= number <= _LARGEST_ID)
            and (score is None or math.isfinite(score))
            # rounding may slightly exceed 1; NaN, of a broken model, is drawn in red
            and (np.isnan(weights) | (np.abs(weights - 0.5) <= 0.501)).all()
            and (mattered is None or _are_effects(mattered))
        )
        if not is_alignment:
            raise ValueError("a word, number or weight is not one")
    except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError) as problem:
        raise UserError(f"{where}: not an alignment; {_VALID}") from problem
    return Alignment(source, target, weights, number, score, mattered=mattered)
