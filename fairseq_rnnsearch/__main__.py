"""``python -m fairseq_rnnsearch``: list the commands.

``python -m fairseq_rnnsearch versions`` prints the path to give to ``--user-dir``, and the versions
in use; ``rnnsearch-path`` the path alone: ``fairseq-train --user-dir "$(rnnsearch-path)" ...``.
``python -m fairseq_rnnsearch options`` lists all options that the plugin adds, with their defaults.
``python -m fairseq_rnnsearch checkpoint`` lists what the package adds to a checkpoint of fairseq's.
``python -m fairseq_rnnsearch patches`` prints what is replaced while fairseq's commands run.
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
python -m fairseq_rnnsearch options|versions       its options; manual: $(rnnsearch-path)/manual"""


@program
def main(arguments: Sequence[str] | None = None) -> None:
    """Print the commands, the path and versions, or a list."""
    parser = parser_of("python -m fairseq_rnnsearch", __doc__)
    parser.add_argument(
        "what",
        nargs="?",
        metavar="COMMAND",
        choices=("overview", "versions", "options", "checkpoint", "patches"),
        default="overview",
    )
    chosen = parser.parse_args(arguments)
    if chosen.what == "overview":
        print(OVERVIEW)
    elif chosen.what == "versions":
        _print_versions()
    else:  # these import fairseq, which makes torch warn
        from fairseq_rnnsearch.commands.command_options import show_warnings

        show_warnings()
        from fairseq_rnnsearch.plugin import option_list
        from fairseq_rnnsearch.runs import checkpoint, patches

        lists = {"options": option_list, "checkpoint": checkpoint, "patches": patches}
        print(lists[chosen.what].table())


def _print_versions() -> None:
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
