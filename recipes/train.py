"""rnnsearch-train for the recipes: settings can be environment variables, such as HIDDEN."""

import os
import sys
from pathlib import Path

from fairseq_rnnsearch.command_line import program
from fairseq_rnnsearch.train.__main__ import main

RUNS = Path(__file__).resolve().parents[1] / "runs"


@program
def run() -> None:
    """Run the command."""
    main(sys.argv[1:], os.environ, RUNS)


if __name__ == "__main__":
    run()
