"""``python -m fairseq_rnnsearch``: the path to give to ``--user-dir``, and the versions in use.

``rnnsearch-path`` prints the path alone: ``fairseq-train --user-dir "$(rnnsearch-path)" ...``.
``python -m fairseq_rnnsearch options`` lists all options that the plugin adds, with their defaults.
``python -m fairseq_rnnsearch mends`` prints what is replaced while fairseq's commands run.
"""

import argparse
import html
import platform
import textwrap
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import fairseq_rnnsearch
from fairseq_rnnsearch.errors import OneLineParser, program

PACKAGES = ("torch", "fairseq-fixed", "numpy", "sacrebleu", "sacremoses", "subword-nmt")


@program
def main(arguments: Sequence[str] | None = None) -> None:
    """Print the path as an option, and under it a line for each version; or a list."""
    parser = OneLineParser(
        prog="python -m fairseq_rnnsearch",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    lists = {"versions": _print_versions, "options": _print_options, "mends": _print_mends}
    parser.add_argument("what", nargs="?", choices=lists, default="versions")
    lists[parser.parse_args(arguments).what]()


def _print_versions() -> None:
    print(f"--user-dir {Path(fairseq_rnnsearch.__file__).parent}")
    print(f"fairseq-rnnsearch {fairseq_rnnsearch.__version__}")
    print(f"Python {platform.python_version()}")
    for package in PACKAGES:
        try:
            print(package, version(package))
        except PackageNotFoundError:
            print(package, "is not installed")


def _print_options() -> None:
    """Print the manual's tables, which are made from what fairseq reads: to import that takes long.

    ``tests/test_manual.py`` holds them to be complete.
    """
    manual = Path(fairseq_rnnsearch.__file__).with_name("MANUAL.md").read_text(encoding="utf-8")
    tables = manual.partition("<!-- options:")[2].partition("<!-- end of options")[0]
    for row in tables.splitlines():
        if not row.startswith("| "):
            continue
        name, default, text = (html.unescape(cell.strip("` ")) for cell in row.split("|")[1:-1])
        if default == "default":
            print(f"\n{name.replace('`', '')}\n")
            continue
        print(f"  {name}" + f"  (default: {default})" * bool(default))
        print(textwrap.fill(text, 96, initial_indent=" " * 6, subsequent_indent=" " * 6))


def _print_mends() -> None:
    from fairseq_rnnsearch.compat import mends  # which imports fairseq

    print(mends.table())


@program
def print_path() -> None:
    """Print the folder of the package, which is what ``--user-dir`` takes."""
    print(Path(fairseq_rnnsearch.__file__).parent)


if __name__ == "__main__":
    main()
