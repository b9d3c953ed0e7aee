"""``python -m fairseq_rnnsearch``: the path to give to ``--user-dir``, and the versions in use.

``rnnsearch-path`` prints the path alone: ``fairseq-train --user-dir "$(rnnsearch-path)" ...``.
"""

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import fairseq_rnnsearch

PACKAGES = ("torch", "fairseq-fixed", "numpy", "sacrebleu", "sacremoses", "subword-nmt")


def main() -> None:
    """Print the path as an option, and under it a line for each version."""
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
