"""What a command need not import to start: torch and fairseq take four seconds."""

import subprocess
import sys

import pytest
from commands import ROOT

# Words that show help, or are mistakes that are found before any work.
QUICK = {
    "fairseq_rnnsearch": ["", "--help", "optoins"],
    "fairseq_rnnsearch.groundhog": ["--help", "import --help", "import", "improt"],
    "fairseq_rnnsearch.alignment.evaluation": [
        "--help",
        "raport",
        "aer --gold /nosuch --hypothesis /nosuch",
    ],
}
COMMANDS = "alignments aer symmetrise dictionary replace-unk"
QUICK["fairseq_rnnsearch.alignment.evaluation"] += [
    f"{command} --help" for command in f"{COMMANDS} no-unk".split()
]

STARTS = """
import contextlib, io, runpy, sys
from fairseq_rnnsearch.errors import UserError
for words in LINES:
    sys.argv[1:] = words.split()
    with contextlib.suppress(SystemExit, UserError), contextlib.redirect_stdout(io.StringIO()):
        runpy.run_module(MODULE, run_name="__main__", alter_sys=True)
    print(words, sys.modules.keys() & {"torch", "fairseq"} or "")
"""
PAGE = """
import sys
from pathlib import Path
import numpy as np
from fairseq_rnnsearch.alignment.figures import Alignment, Gallery
with Gallery(Path(sys.argv[1]), ("html", "jsonl")) as gallery:
    gallery.add(Alignment(("a",), ("b",), np.ones((1, 1)), 0))
print(sys.modules.keys() & {"torch", "fairseq", "matplotlib"} or "")
"""


def printed(program, *arguments):
    """What a program prints, in a process of its own, which has imported nothing."""
    ran = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, cwd=ROOT
    )
    assert not ran.returncode, ran.stderr
    return ran.stdout.splitlines()


@pytest.mark.parametrize("module", QUICK)
def test_help_and_mistakes_need_neither_torch_nor_fairseq(module):
    lines = QUICK[module]
    program = STARTS.replace("LINES", repr(lines)).replace("MODULE", repr(module))
    assert printed(program) == [f"{words} " for words in lines]


def test_the_page_needs_neither_torch_nor_fairseq_nor_matplotlib(tmp_path):
    assert printed(PAGE, str(tmp_path)) == [""]
    assert (tmp_path / "index.html").stat().st_size > 1000
