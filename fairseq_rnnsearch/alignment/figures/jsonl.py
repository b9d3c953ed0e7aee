"""The file ``alignments.jsonl``, with one JSON object per line for each alignment.

Its keys are id, score, source and target (lists of words), weights (target rows, source columns),
and mattered (the same shape) where it was computed.
"""

import json
import sys
from pathlib import Path

import numpy as np

from fairseq_rnnsearch.alignment.figures.alignment import Alignment
from fairseq_rnnsearch.errors import UserError, counted

_LARGEST_ID = 10**12
_VALID = "expected the jsonl of --heatmap-format"


def json_line(alignment: Alignment) -> str:
    """Return an alignment as a line, without its end; numbers are rounded to six decimals."""
    value = {
        "id": alignment.id,
        "score": alignment.score,
        "source": alignment.source,
        "target": alignment.target,
        "weights": _rounded(alignment.weights),
    }
    if alignment.mattered is not None:
        value["mattered"] = _rounded(alignment.mattered)
    return json.dumps(value, ensure_ascii=False)


def _rounded(matrix: np.ndarray) -> list[list[float]]:
    return [[round(float(number), 6) for number in row] for row in matrix]


def read_alignments(path: Path) -> dict[int, Alignment]:
    """Read the alignments of an ``alignments.jsonl`` by their ids.

    Raises:
        UserError: a file that cannot be read, is empty or not UTF-8, a line that is none of
            `json_line`'s, or an id twice.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as problem:
        raise UserError(f"{path} cannot be read: {problem.strerror}") from problem
    except UnicodeDecodeError as problem:
        raise UserError(f"{path} is not UTF-8: byte {problem.start}; {_VALID}") from problem
    alignments: dict[int, Alignment] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        alignment = _from_json(line, f"{path}, line {number}")
        if alignment.id in alignments:
            raise UserError(f"{path}, line {number}: found id {alignment.id} a second time")
        alignments[alignment.id] = alignment
    if not alignments:
        raise UserError(f"{path} is empty; {_VALID}")
    return alignments


def _from_json(line: str, where: str) -> Alignment:
    try:
        entry = json.loads(line)
        source, target, rows, number = (entry[key] for key in ("source", "target", "weights", "id"))
        score = entry.get("score")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as problem:
        raise UserError(f"{where}: not an alignment; {_VALID}") from problem
    for name, words in (("source", source), ("target", target)):
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise UserError(f"{where}: {name} must be a list of words; {_VALID}")
    if type(number) is not int or not 0 <= number <= _LARGEST_ID:
        raise UserError(f"{where}: id {str(number)[:40]} must be a number from 0")
    if score is not None and not _is_number(score):
        raise UserError(f"{where}: score {str(score)[:40]!r} must be a number or null")
    sizes = len(target), len(source)
    _check_matrix("weights", rows, sizes, where)
    if wrong := [weight for row in rows for weight in row if not _is_weight(weight)]:
        raise UserError(f"{where}: {str(wrong[0])[:40]!r} is not a weight; expected 0 to 1, or NaN")
    weights, mattered = np.array(rows, dtype=float).reshape(sizes), None
    if (effects := entry.get("mattered")) is not None:
        _check_matrix("mattered", effects, sizes, where)
        if wrong := [
            effect for row in effects for effect in row if type(effect) not in (int, float)
        ]:
            raise UserError(f"{where}: mattered has {str(wrong[0])[:40]!r}, which is not a number")
        mattered = np.array(effects, dtype=float).reshape(sizes)
    return Alignment(source, target, weights, number, score, mattered=mattered)


def _check_matrix(name: str, rows: object, sizes: tuple[int, int], where: str) -> None:
    fits = isinstance(rows, list) and len(rows) == sizes[0]
    if not fits or not all(isinstance(row, list) and len(row) == sizes[1] for row in rows):
        raise UserError(
            f"{where}: {name} must be {counted(sizes[0], 'row')}, one for each target word, of"
            f" {counted(sizes[1], 'number')}, one for each source word"
        )


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def _is_weight(value: object) -> bool:
    """Tell whether a value can be a weight.

    Rounding may slightly exceed 1. NaN comes from a broken model, and is drawn in red.
    """
    return type(value) in (int, float) and (value != value or -1e-3 <= value <= 1 + 1e-3)
