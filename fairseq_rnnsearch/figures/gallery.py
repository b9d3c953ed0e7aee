"""Many alignments to one folder, in the formats that a user asks for.

png, pdf, svg    one picture a sentence: ``sentence0017.png``
text             one file a sentence, drawn with characters: ``sentence0017.txt``
html             one page for all: ``index.html``
jsonl            the weights: ``alignments.jsonl``, one object a line with the keys id, score,
                 source, target (lists of words) and weights (target rows, source columns)
pharaoh          the best source word of each target word: ``alignments.pharaoh``, one line a
                 sentence, ``0-0 1-2 ...`` with the source first, counted from 0
"""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.figures.alignment import Alignment
from fairseq_rnnsearch.figures.heatmap import save_heatmap
from fairseq_rnnsearch.figures.page import write_page
from fairseq_rnnsearch.figures.saving import FORMATS as PICTURES
from fairseq_rnnsearch.figures.terminal import text_heatmap
from fairseq_rnnsearch.files import write_text

TEXT_WIDTH = 120
_JSONL = "the jsonl of --heatmap-format"


def _write_page(folder: Path, alignments: Sequence[Alignment]) -> None:
    write_page(folder / "index.html", alignments)


def _write_jsonl(folder: Path, alignments: Sequence[Alignment]) -> None:
    write_text(folder / "alignments.jsonl", "".join(map(_json_line, alignments)))


def _write_pharaoh(folder: Path, alignments: Sequence[Alignment]) -> None:
    lines = (alignment.pharaoh() + "\n" for alignment in alignments)
    write_text(folder / "alignments.pharaoh", "".join(lines))


WHOLE: dict[str, Callable[[Path, Sequence[Alignment]], None]] = {
    "html": _write_page,
    "jsonl": _write_jsonl,
    "pharaoh": _write_pharaoh,
}
FORMATS = (*PICTURES, "text", *WHOLE)


def parse_formats(text: str) -> tuple[str, ...]:
    """``"png,html"`` to its formats.

    Raises:
        UserError: naming the first that is unknown.
    """
    formats = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    for name in formats:
        if name not in FORMATS:
            raise UserError(f"heatmap format {name!r} is unknown: choose from {', '.join(FORMATS)}")
    if not formats:
        raise UserError(f"no heatmap format given: choose from {', '.join(FORMATS)}")
    return formats


def read_alignments(path: Path) -> dict[int, Alignment]:
    """The alignments of an ``alignments.jsonl`` by their ids.

    Raises:
        UserError: a file that cannot be read, is empty or not UTF-8, a line that is none of
            `write_gallery`'s, or an id twice.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as problem:
        raise UserError(f"{path} cannot be read: {problem.strerror}") from problem
    except UnicodeDecodeError as problem:
        raise UserError(
            f"{path} is not UTF-8: byte {problem.start}; valid is {_JSONL}"
        ) from problem
    alignments: dict[int, Alignment] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        alignment = _from_json(line, f"{path}, line {number}")
        if alignment.id in alignments:
            raise UserError(f"{path}, line {number}: found id {alignment.id} a second time")
        alignments[alignment.id] = alignment
    if not alignments:
        raise UserError(f"{path} is empty; valid is {_JSONL}")
    return alignments


def _from_json(line: str, where: str) -> Alignment:
    try:
        entry = json.loads(line)
        source, target = ([str(word) for word in entry[side]] for side in ("source", "target"))
        weights = np.array(entry["weights"], dtype=float).reshape(len(target), len(source))
        return Alignment(source, target, weights, int(entry["id"]), entry.get("score"))
    except (ValueError, TypeError, KeyError, AttributeError) as problem:
        raise UserError(f"{where}: not an alignment; valid is {_JSONL}") from problem


def write_gallery(
    folder: Path,
    alignments: Iterable[Alignment],
    formats: Sequence[str],
    progress: Callable[[Sequence[Alignment]], Iterable[Alignment]] = iter,
) -> None:
    """Write every alignment in every format, in the order of their ids.

    Args:
        folder: made if it is not there.
        formats: from ``FORMATS``.
        progress: wraps the loop over sentences, such as ``tqdm``.

    Raises:
        UserError: when the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise UserError(f"cannot make the heatmap folder {folder}: {problem.strerror}") from problem
    alignments = sorted(alignments, key=lambda alignment: alignment.id)
    pictures = [name for name in formats if name in PICTURES]
    if pictures or "text" in formats:
        for alignment in progress(alignments):
            for suffix in pictures:
                save_heatmap(
                    folder / f"sentence{alignment.id:04d}.{suffix}",
                    alignment.source,
                    alignment.target,
                    alignment.weights,
                )
            if "text" in formats:
                path = folder / f"sentence{alignment.id:04d}.txt"
                write_text(path, text_heatmap(alignment, TEXT_WIDTH) + "\n")
    for name in formats:
        if name in WHOLE:
            WHOLE[name](folder, alignments)


def _json_line(alignment: Alignment) -> str:
    return (
        json.dumps(
            {
                "id": alignment.id,
                "score": alignment.score,
                "source": alignment.source,
                "target": alignment.target,
                "weights": [[round(float(w), 6) for w in row] for row in alignment.weights],
            },
            ensure_ascii=False,
        )
        + "\n"
    )
