"""``rnnsearch-check``: does this code compute what the paper's authors computed?

    rnnsearch-check mymodel.py:step            a function for a part of the model, or a class
    rnnsearch-check mymodel.py                 all functions in a file that are named after parts
    rnnsearch-check --explain reset-after      what a deviation is and does
    rnnsearch-check --grade FOLDER             how many functions of a course's exercises are right

It runs the code with the authors' parameters and sentences, and compares with the numbers of their
program. The exit status is 0 if all are equal, 1 if some differ, and 2 for a mistake.
"""

import argparse
import importlib.util
import inspect
import multiprocessing
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from fairseq_rnnsearch.command_line import USAGE, parser_of, program, usage
from fairseq_rnnsearch.conformance.authors_numbers import PARTS
from fairseq_rnnsearch.conformance.explanation import draw, explained, listed
from fairseq_rnnsearch.conformance.given_code import FRAMEWORKS, refused
from fairseq_rnnsearch.conformance.verdict import check
from fairseq_rnnsearch.errors import UserError, neighbours

_LONGEST = 120  # seconds for a file of --grade


@program
def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command.

    Raises:
        UsageError: for every mistake in options or in the code; shown as one line.
        SystemExit: with status 1 if the code differs, and 2 if a part of it cannot be run.
    """
    options = _parser().parse_args(arguments)
    with usage():
        status = _run(options)
    if status:
        sys.exit(status)


def _run(options: argparse.Namespace) -> int:
    if options.out and not options.explain:
        raise UserError("--out: only with --explain")
    if options.grade:
        return int(not _graded(options.grade, options.framework))
    if options.list:
        print(listed())
    elif options.explain:
        print(explained(options.explain))
        if options.out:
            draw(options.explain, options.out)
    elif options.code is None:
        raise UserError("name the code, as in mymodel.py:step (rnnsearch-check --help)")
    else:
        report = check(_loaded(options.code), options.part, options.framework)
        print(report)
        return USAGE if report.refused else int(not report.ok)
    return 0


def _graded(folder: Path, framework: str) -> bool:
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
    process = spawning.Process(target=_send_grade, args=(theirs, file, framework), daemon=True)
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


def _send_grade(to: Connection, file: Path, framework: str) -> None:
    to.send(_grade(file, framework))


def _grade(file: Path, framework: str) -> tuple[bool, str]:
    """Return whether all functions of a file are right, and which are not."""
    try:
        parts = check(_loaded(str(file)), framework=framework).parts
    except UserError as mistake:
        return False, str(mistake)
    wrong = [part.part for part in parts if not part.ok]
    reasons = [f"; {part.refusal}" for part in parts if part.refusal][:1]
    said = f"{len(parts) - len(wrong)} of {len(parts)} right"
    said += f"; wrong: {', '.join(wrong)}" if wrong else ""
    return not wrong, said + "".join(reasons)


def _loaded(code: str) -> Any:
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
    return target


def _parser() -> argparse.ArgumentParser:
    parser = parser_of("rnnsearch-check", __doc__)
    parser.add_argument(
        "code", nargs="?", metavar="FILE.py:NAME", help="the code; also FILE.py, MODULE:NAME"
    )
    parser.add_argument(
        "--part", choices=tuple(PARTS), help="what a function computes, if its name does not say so"
    )
    parser.add_argument(
        "--framework", choices=FRAMEWORKS, default="numpy",
        help="the arrays that the code takes (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--grade", type=Path, metavar="FOLDER", help="count the right functions in each file"
    )
    parser.add_argument("--list", action="store_true", help="print the catalogue of deviations")
    parser.add_argument("--explain", metavar="DEVIATION", help="its equation, effect and picture")
    parser.add_argument("--out", type=Path, metavar="PNG", help="with --explain, draws the picture")
    return parser


if __name__ == "__main__":
    main()
