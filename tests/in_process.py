"""fairseq's commands within the test's process: for what needs no process of its own."""

import importlib
import io
import logging
import sys
import warnings

import pytest
from launchpad import QUIET, ROOT, TASK, Finished, parse_overrides_once, words

from fairseq_rnnsearch.runs.patches import patch_fairseq

parse_overrides_once()


def fairseq(command: str, *arguments: object) -> Finished:
    """Run "generate" or another of fairseq's commands with this package as its plugin.

    Returns:
        What it printed and logged. Its exceptions are the caller's.
    """
    patch_fairseq()
    program = importlib.import_module(f"fairseq_cli.{command}")
    told = io.StringIO()
    logs = logging.StreamHandler(told)
    logging.root.addHandler(logs)
    try:
        with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(action="ignore"):
            patch.chdir(ROOT)
            patch.setattr(sys, "argv", [command, *words(TASK, *arguments)])
            patch.setattr(sys, "stdout", told)
            program.cli_main()
    finally:
        logging.root.removeHandler(logs)
    return Finished(command, 0, told.getvalue(), "")


def generate(data: object, checkpoint: object, *more: object) -> Finished:
    return fairseq("generate", data, f"{QUIET} --path={checkpoint}", *more)


def interactive(data: object, checkpoint: object, text: object, *more: object) -> Finished:
    """Translate the lines of a file."""
    return fairseq("interactive", data, f"--cpu --path={checkpoint} --input={text}", *more)
