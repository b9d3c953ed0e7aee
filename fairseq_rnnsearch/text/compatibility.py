"""Check that data folders and models that are used together fit.

The number of a word means the same word only with the same dictionaries and languages, and a
sentence becomes the same tokens only by the same rules. Checkpoints keep a description of all
three.
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.text.checksums import digest
from fairseq_rnnsearch.text.plain_text import FILE_NAME, settings_of

ADVICE = ": give the data folder (or dict files) that it was trained with, and the same languages"

_SUBJECTS = {"language": "language is", "sha256": "dictionary has", "text": "text has"}

Sides = dict[str, dict[str, Any]]  # what is known about the source and the target


def describe(
    dictionaries: Mapping[str, Any],
    languages: Sequence[str] = (),
    folder: Path | None = None,
    **changes: Any,
) -> Sides:
    """Describe the source and the target, as far as they are known.

    Args:
        dictionaries: fairseq's, or those of ``dictionary_file``, by side.
        languages: of the source and the target.
        folder: a data or model folder, which may have a preprocessing.json.
        changes: arguments of ``PlainText``; those that are not None replace the file's.
    """
    sides: Sides = {
        side: {"symbols": len(words), "sha256": _digest(words)}
        for side, words in dictionaries.items()
    }
    for side, language in zip(("source", "target"), languages, strict=False):
        known = sides.setdefault(side, {})
        known["language"] = language
        if folder and (rules := _rules_of_text(folder, language, changes)):
            known["text"] = rules
    return sides


def check(
    here: Sides, there: object, where: str, other: str, advice: str = "", complete: bool = True
) -> None:
    """Compare two descriptions.

    Args:
        there: the other one, such as a checkpoint's.
        where: the folder or model that ``here`` describes, for the message.
        other: subject and verb for what ``there`` describes, such as "B has".
        complete: whether a fact that only one of them states counts as a difference.

    Raises:
        UserError: naming the first difference.
    """
    if not isinstance(there, dict):
        return
    for side, ours in here.items():
        theirs = there.get(side)
        theirs = theirs if isinstance(theirs, dict) else {}
        for fact in _SUBJECTS:
            is_known = fact in ours and fact in theirs
            if ours.get(fact) == theirs.get(fact) or not (complete or is_known):
                continue
            said, their_said = (_said(fact, known) for known in (ours, theirs))
            differs = ", other words or in another order" if said == their_said else ""
            raise UserError(
                f"the {side} {_SUBJECTS[fact]} {said} ({where}), but {other} {their_said}{differs}"
                f"{advice}"
            )


def _said(fact: str, known: dict[str, Any]) -> str:
    if fact == "sha256":
        return f"{known.get('symbols')} symbols"
    return str(known.get(fact, f"no {FILE_NAME}"))


def _rules_of_text(folder: Path, language: str, changes: Mapping[str, Any]) -> str | None:
    """Say how plain text becomes tokens, or None without a description."""
    given = {name: value for name, value in changes.items() if value is not None}
    settings = settings_of(folder).get(language, {}) | given
    if not settings:
        return None
    codes = "no BPE codes"
    if settings.get("bpe_codes"):
        path = folder / settings["bpe_codes"]
        codes = f"the BPE codes {digest(path)[:12]}" if path.exists() else "lost BPE codes"
    case = "lower case" if settings.get("lowercase") else "both cases"
    return f"the tokenizer {settings.get('tokenizer', 'space')}, {case} and {codes}"


def _digest(dictionary: Any) -> str:
    return hashlib.sha256("\n".join(dictionary.symbols).encode("utf-8", "replace")).hexdigest()
