"""``python -m fairseq_rnnsearch``: list the commands.

``python -m fairseq_rnnsearch versions`` prints the path to give to ``--user-dir``, and the versions
in use; ``rnnsearch-path`` the path alone: ``fairseq-train --user-dir "$(rnnsearch-path)" ...``.
"""

import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import fairseq_rnnsearch
from fairseq_rnnsearch.command_line import parser_of, program

PACKAGES = ("torch", "fairseq-fixed", "numpy", "sacrebleu", "sacremoses", "subword-nmt")
OVERVIEW = """\
rnnsearch-translate en-fr                          translate sentences that you type
rnnsearch-living en-fr --out living.html           a page that translates, in any browser
rnnsearch-align, -evaluate, -check mymodel.py      align text, judge alignments, judge your own code
rnnsearch-train --source a.en --target a.fr        a model of your own sentences (rnnsearch-export)
fairseq-train --user-dir "$(rnnsearch-path)" ...   train with any options (rnnsearch-tokenize)
$(rnnsearch-path)/manual                           how; reference.md there has all options"""


@program
def main(arguments: Sequence[str] | None = None) -> None:
    """Print the commands, or the path and versions."""
    parser = parser_of("python -m fairseq_rnnsearch", __doc__)
    parser.add_argument(
        "what",
        nargs="?",
        metavar="COMMAND",
        choices=("overview", "versions"),
        default="overview",
    )
    if parser.parse_args(arguments).what == "overview":
        print(OVERVIEW)
        return
    print(f"--user-dir {Path(fairseq_rnnsearch.__file__).parent}")
    print(f"fairseq-rnnsearch {fairseq_rnnsearch.__version__}")
    print(f"Python {platform.python_version()}")
    for package in PACKAGES:
        try:
            print(package, version(package))
        except PackageNotFoundError:
            print(package, "is not installed")


@program
def print_path(arguments: Sequence[str] | None = None) -> None:
    """Print the folder of the package, which is what --user-dir of fairseq's commands takes."""
    parser_of("rnnsearch-path", print_path.__doc__).parse_args(arguments)
    print(Path(fairseq_rnnsearch.__file__).parent)


if __name__ == "__main__":
    main()
