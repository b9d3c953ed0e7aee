"""``python -m fairseq_rnnsearch``: the path to give to ``--user-dir``, and the versions in use."""

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import fairseq_rnnsearch

PACKAGES = ("torch", "fairseq-fixed", "numpy", "sacrebleu", "sacremoses", "subword-nmt")


def main() -> None:
    print(f"--user-dir {Path(fairseq_rnnsearch.__file__).parent}")
    print(f"fairseq-rnnsearch {fairseq_rnnsearch.__version__}")
    print(f"Python {platform.python_version()}")
    for package in PACKAGES:
        try:
            print(package, version(package))
        except PackageNotFoundError:
            print(package, "is not installed")


if __name__ == "__main__":
    main()
