"""``python -m fairseq_rnnsearch``: the path to give to ``--user-dir``, and the versions in use.

``rnnsearch-path`` prints the path alone: ``fairseq-train --user-dir "$(rnnsearch-path)" ...``.
``python -m fairseq_rnnsearch mends`` prints what is replaced while fairseq's commands run.
"""

import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import fairseq_rnnsearch
from fairseq_rnnsearch.errors import OneLineParser, install_excepthook

PACKAGES = ("torch", "fairseq-fixed", "numpy", "sacrebleu", "sacremoses", "subword-nmt")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the path as an option, and under it a line for each version; or the table of mends."""
    install_excepthook()
    parser = OneLineParser(prog="python -m fairseq_rnnsearch", description=__doc__)
    parser.add_argument("what", nargs="?", choices=("versions", "mends"), default="versions")
    if parser.parse_args(arguments).what == "versions":
        _print_versions()
        return
    from fairseq_rnnsearch.compat import mends  # which imports fairseq

    print(mends.table())


def _print_versions() -> None:
    print(f"--user-dir {Path(fairseq_rnnsearch.__file__).parent}")
    print(f"fairseq-rnnsearch {fairseq_rnnsearch.__version__}")
    print(f"Python {platform.python_version()}")
    for package in PACKAGES:
        try:
            print(package, version(package))
        except PackageNotFoundError:
            print(package, "is not installed")


def print_path() -> None:
    """Print the folder of the package, which is what ``--user-dir`` takes."""
    print(Path(fairseq_rnnsearch.__file__).parent)


if __name__ == "__main__":
    main()
