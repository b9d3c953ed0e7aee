"""What a training knows of its model: whether it came to its end, and how well it translates.

rnnsearch-train keeps these numbers in its work folder, and rnnsearch-export in a model's config:

    updates, planned   of a training that was stopped before its end
    BLEU, chrF2        of the translations of the test
    token_score_10     a tenth of these have a lower mean log2 p of a token
"""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from fairseq_rnnsearch.files import write_text
from fairseq_rnnsearch.models.find import find_beside

FILE_NAME = "validation.json"
_USEFUL = 10  # BLEU; below, most translations are wrong
_SAVED = re.compile(r"Saved checkpoint .* @ (\d+) updates")


def validation_of(checkpoint: str | Path) -> dict[str, float]:
    """Return these numbers for a checkpoint of rnnsearch-train, and nothing for others."""
    done = find_beside(str(checkpoint), ".done")
    if done is None or not (settings := done.with_name("training-settings")).is_file():
        return {}
    if (file := done.with_name(FILE_NAME)).is_file():
        return json.loads(file.read_text(encoding="utf-8"))
    planned = re.search(r"^UPDATES=(\d+)$", settings.read_text(encoding="utf-8"), re.MULTILINE)
    if (done / "train").exists() or not planned:
        return {}
    return {"updates": saved_updates(done.parent), "planned": int(planned[1])}


def saved_updates(work: Path) -> int:
    """Return the update of the last checkpoint in a work folder, by the log; 0 if there is none."""
    log = work / "logs/train.log"
    if not log.is_file() or not (work / "checkpoints/checkpoint_last.pt").is_file():
        return 0
    with log.open(encoding="utf-8", errors="replace") as lines:
        return max((int(saved[1]) for line in lines if (saved := _SAVED.search(line))), default=0)


def keep(work: Path, numbers: Mapping[str, float]) -> None:
    """Keep numbers of the model in a work folder, besides those that it has."""
    known = validation_of(work / "checkpoint_best.pt")
    write_text(work / FILE_NAME, json.dumps({**known, **numbers}, indent=1) + "\n")


def tenth_of_scores(generated: Iterable[str]) -> float:
    """Return ``token_score_10`` of the lines that fairseq-generate wrote."""
    tokens = (line.split("\t")[1].split() for line in generated if line.startswith("P-"))
    means = sorted(sum(map(float, each)) / len(each) for each in tokens)
    return round(means[len(means) // 10], 3)


def warning_of(validation: Mapping[str, float]) -> str | None:
    """Say why a model's translations may all be bad; None if nothing says so."""
    reasons = []
    if validation.get("updates", 0) < validation.get("planned", 0):
        reasons.append(
            f"its training was stopped at update {validation['updates']:.0f} of"
            f" {validation['planned']:.0f}"
        )
    if (bleu := validation.get("BLEU", _USEFUL)) < _USEFUL:
        reasons.append(f"it has {bleu:.1f} BLEU on its test: most translations are wrong")
    return "; ".join(reasons) or None
