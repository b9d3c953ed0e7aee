"""``rnnsearch-check``: does this code compute what the paper's authors computed?

    rnnsearch-check mymodel.py:step            a function for a part of the model, or a class
    rnnsearch-check mymodel.py                 all functions in a file that are named after parts
    rnnsearch-check --explain reset-after      what a deviation is and does

It runs the code with the authors' parameters and sentences, and compares with the numbers of their
program. The exit status is 0 if all are equal, 1 if some differ, and 2 for a mistake.
"""

import argparse
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairseq_rnnsearch.command_line import USAGE, parser_of, program, usage
from fairseq_rnnsearch.conformance.authors_numbers import PARTS
from fairseq_rnnsearch.conformance.catalogue import BY_NAME, explained, listed
from fairseq_rnnsearch.conformance.given_code import FRAMEWORKS, refused
from fairseq_rnnsearch.conformance.verdict import check
from fairseq_rnnsearch.errors import UserError


@program
def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command.

    Raises:
        UsageError: for every mistake in options or in the code; shown as one line.
        SystemExit: with status 1 if the code differs, and 2 if a part of it cannot be run.
    """
    options = _parser().parse_args(arguments)
    if options.list:
        print(listed())
    elif options.explain:
        print(explained(options.explain))
    else:
        with usage():
            report = check(imported(options.code), options.part, options.framework)
        print(report)
        if not report.ok:
            sys.exit(USAGE if report.refused else 1)


def imported(code: str) -> Any:
    """Import what FILE.py:NAME or FILE.py names.

    Raises:
        UserError: if the file cannot be imported.
    """
    file, _, name = code.partition(":")
    path = Path(file).resolve()
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None:
        raise UserError(f"{code}: expected FILE.py:NAME or FILE.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(spec.name, module)  # where dataclasses look
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as problem:
        raise refused(problem, file) from problem
    return getattr(module, name) if name else module


def _parser() -> argparse.ArgumentParser:
    parser = parser_of("rnnsearch-check", __doc__)
    forms = parser.add_mutually_exclusive_group(required=True)
    forms.add_argument(
        "code", nargs="?", metavar="FILE.py:NAME", help="the code; FILE.py is all of a file"
    )
    parser.add_argument(
        "--part", choices=tuple(PARTS), help="what a function computes, if its name does not say so"
    )
    parser.add_argument(
        "--framework", choices=FRAMEWORKS, default="numpy",
        help="the arrays that the code takes (default: %(default)s)",
    )  # fmt: skip
    forms.add_argument("--list", action="store_true", help="print the catalogue of deviations")
    forms.add_argument(
        "--explain", choices=BY_NAME, metavar="DEVIATION", help="its equation and its effect"
    )
    return parser


if __name__ == "__main__":
    main()
