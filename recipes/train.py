"""rnnsearch-train as the recipes call it: a setting may be a variable, such as HIDDEN.

    python recipes/train.py OPTION...
    python recipes/train.py plan WORK TRAIN TEST WORDS CHARACTERS DISTINCT WORDS CHARACTERS DISTINCT

``plan`` says what a training will take before its text is there, from the numbers of pairs in two
parts, and of words, characters and different characters in the source and in the target.
"""

import os
import sys
from pathlib import Path

from fairseq_rnnsearch.command_line import program
from fairseq_rnnsearch.training import estimate
from fairseq_rnnsearch.training.__main__ import main
from fairseq_rnnsearch.training.settings import Naming, Settings, check, in_environment, read
from fairseq_rnnsearch.training.steps import log

RUNS = Path(__file__).resolve().parents[1] / "runs"


def plan(work: str, *counts: str) -> None:
    """Check the settings, and say what the training takes."""
    naming = Naming(True, ("source", "target"))
    settings = Settings(**read(in_environment(os.environ, naming), naming))
    check(settings, naming)
    train, test, *sides = map(int, counts)
    source, target = (estimate.Text(*side) for side in (sides[:3], sides[3:]))
    for line in estimate.plan(Path(work), settings, (source, target), train, train, test):
        log(line)


@program
def run() -> None:
    """Run the command."""
    if sys.argv[1:2] == ["plan"]:
        plan(*sys.argv[2:])
    else:
        main(sys.argv[1:], os.environ, RUNS)


if __name__ == "__main__":
    run()
