"""Importing somebody's code, and grading a folder of it.

It stands outside of ``__main__``, because a new process cannot import that by name.
"""

import importlib.util
import inspect
import multiprocessing
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from fairseq_rnnsearch.conformance.authors_numbers import PARTS
from fairseq_rnnsearch.conformance.given_code import refused
from fairseq_rnnsearch.conformance.verdict import check
from fairseq_rnnsearch.errors import UserError, neighbours

_LONGEST = 120  # seconds for a file


def imported(code: str) -> Any:
    """Import what FILE.py:NAME, FILE.py, MODULE:NAME or MODULE names."""
    place, _, name = code.partition(":")
    path = Path(place)
    is_file = path.suffix == ".py"
    if is_file and not path.is_file():
        raise UserError(f"{path}: no such file")
    if not is_file and (path.is_file() or not all(map(str.isidentifier, place.split(".")))):
        raise UserError(f"{code}: expected FILE.py:NAME, FILE.py, MODULE:NAME or MODULE")
    sys.path.insert(0, str(path.parent.resolve() if is_file else Path.cwd()))
    try:
        if is_file:
            spec = importlib.util.spec_from_file_location(path.stem, path.resolve())
            module = importlib.util.module_from_spec(spec)
            sys.modules.setdefault(spec.name, module)  # where dataclasses look
            spec.loader.exec_module(module)
        else:
            module = importlib.import_module(place)
    except (Exception, SystemExit) as problem:
        raise refused(problem, place) from problem
    target: Any = module
    for part in name.split(".") if name else ():
        names = dict(inspect.getmembers(target))
        if part not in names:
            raise UserError(f"{place} has no {part!r}{neighbours(part, names)}")
        target = names[part]
    if name and not callable(target) and not any(hasattr(target, part) for part in PARTS):
        raise UserError(
            f"{name} in {place} is of type {type(target).__name__}; expected a function, or a "
            f"class or object with functions named for parts of the model: {', '.join(PARTS)}"
        )
    return target


def grade(folder: Path, framework: str) -> bool:
    """Print for each file of a folder how many of its functions are right, and tell if all are."""
    files = sorted(folder.glob("*.py"))
    if not files:
        raise UserError(f"--grade {folder}: expected a folder with files NAME.py")
    right = 0
    for file in files:
        is_right, said = _grade_elsewhere(file, framework)
        right += is_right
        print(f"{file.name:<20} {said}")
    print(f"{right} of {len(files)} files are right")
    return right == len(files)


def _grade_elsewhere(file: Path, framework: str) -> tuple[bool, str]:
    """Grade a file in a process of its own, which it may change or end."""
    spawning = multiprocessing.get_context("spawn")
    ours, theirs = spawning.Pipe(duplex=False)
    process = spawning.Process(target=_send, args=(theirs, file, framework), daemon=True)
    process.start()
    theirs.close()
    try:
        if ours.poll(_LONGEST):
            return ours.recv()
        return False, f"took more than {_LONGEST} seconds"
    except EOFError:
        return False, "ended Python"
    finally:
        process.kill()
        process.join()


def _send(to: Connection, file: Path, framework: str) -> None:
    to.send(_grade_file(file, framework))


def _grade_file(file: Path, framework: str) -> tuple[bool, str]:
    """Return whether all functions of a file are right, and which are not."""
    try:
        parts = check(imported(str(file)), framework=framework).parts
    except UserError as mistake:
        return False, str(mistake)
    wrong = [part.part for part in parts if not part.ok]
    reasons = [f"; {part.refusal}" for part in parts if part.refusal][:1]
    said = f"{len(parts) - len(wrong)} of {len(parts)} right"
    said += f"; wrong: {', '.join(wrong)}" if wrong else ""
    return not wrong, said + "".join(reasons)
