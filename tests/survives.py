"""The manual's table "What it survives": which tests are its cases, and how many of them passed.

    bash tests/run.sh -m survives                    # with the slow ones; prints the table
    python -m pytest --collect-only -q -m survives   # counts without running

A test says with ``@pytest.mark.survives(row, cases=1)`` of which row it is, and how many cases it
goes through itself; a row is one of `ROWS`.
"""

from collections import defaultdict
from collections.abc import Iterable

import pytest

ROWS = {
    "killed": "SIGKILL at random moments of a small training (two loading processes, `--update-freq"
    " 2`, in the middle of epochs), then the same command again: the bits of an unbroken one",
    "killed while saving": "SIGKILL while a checkpoint is written, flushed, renamed or copied, or"
    " in a validation; a full disk",
    "power": "the power lost at any step of saving, with what was not flushed lost, torn or there:"
    " a whole checkpoint remains, none older than the last that was saved; pictures, check sums and"
    " work folders of recipes are whole, old or absent",
    "pictures and logs": "damaged pictures in `heatmaps/`, folders and logs that cannot be written,"
    " drawing that fails, two trainings that draw into one folder: one warning, and training goes"
    " on; what other programs are writing below `--save-dir` stays",
    "damaged checkpoint": "the last checkpoint truncated, empty, zeros, a bit flipped, missing;"
    " several bad; all bad; something else that torch loads; of other dictionaries; states that no"
    " training has written",
    "signals": "SIGTERM, Ctrl-C, SIGUSR1: alone, also to loading processes, at an epoch's end, in a"
    " validation or save, twice, at the last update; handed on by the example for Slurm",
    "resumed": "stopped at an update and continued: with fairseq's batches and Adam in bfloat16,"
    " `--patience`, a learning rate that follows the validations; with other batches, processes or"
    " options, and from another model: gone on with as far as it had come, or refused in one line",
    "one folder": "two trainings in one save folder, also through a link; the folder of a killed"
    " one; a file system without locks",
    "circumstances": "killed in a save folder that is a link or on another file system, one of two"
    " killed while it saves, a clock that has jumped back: the bits of an unbroken one",
    "loading processes": "data-loading processes end with the last batch of an epoch, and with the"
    " program, also unfinished and collected",
    "several processes": "two and four processes, and two `torchrun`s as on two machines: the"
    " gradients of one process, resumed, one signalled, one killed, no usable checkpoint",
    "shares": "the paper's batches shared by 1 to 16 processes: no pair dropped or repeated",
    "numbers": "costs and gradients that are not finite, sums that overflow, energies of 10,000",
    "damaged files": "files of twelve kinds damaged at random: read rightly or refused in one line;"
    " the library of compiled steps that is kept: compiled anew",
    "properties": "made up by hypothesis: text, dictionaries, binary data, links, alignments,"
    " values",
    "bad input": "text, dictionaries, binary data, arrays, test sets and options, each wrong in its"
    " own way: refused in one line, nothing written",
    "long lines": "sentences of thousands of words, batches that do not fit into memory",
    "hostile": "files, options, checkpoints and archives that try to run code, reach memory that is"
    " not theirs, leave their folder or fill the disk; 1,000 made-up pickles",
}


def cases(all_of_them: Iterable[object], *quick: object) -> list:
    """Return the parameters of a test, of which all but the quick ones are slow.

    Args:
        quick: which ones, the first where none is named.
    """
    params = list(all_of_them)
    quick = quick or params[:1]
    return [pytest.param(p, marks=[pytest.mark.slow] * (p not in quick)) for p in params]


class SurvivalTable:
    """A plugin for pytest that counts the cases of each row and prints them as Markdown.

    What a test counts for travels with its report, so that the process that prints hears of the
    tests of all workers.
    """

    def __init__(self):
        self.passed, self.collected = {}, {}  # what `table` takes, of each test
        self.files = set()  # names of those that were collected

    def pytest_collection_modifyitems(self, items):
        """Count the tests before -m and -k leave some out."""
        for item in items:
            self.files.add(item.path.name)
            mark = item.get_closest_marker("survives")
            if mark is None:
                continue
            (row,) = mark.args
            if row not in ROWS:
                raise pytest.UsageError(f"{item.nodeid}: no row {row!r} in survives.ROWS")
            slow = item.get_closest_marker("slow") is not None
            counted = row, mark.kwargs.get("cases", 1), slow, item.path.name
            item.user_properties.append(("survives", counted))
            self.collected[item.nodeid] = counted

    def pytest_runtest_logreport(self, report):
        if report.when == "call" and report.passed:
            for name, counted in report.user_properties:
                if name == "survives":
                    self.passed[report.nodeid] = tuple(counted)

    def pytest_terminal_summary(self, terminalreporter, config):
        if "survives" not in config.option.markexpr:
            return
        terminalreporter.section("what it survives")
        cases = self.collected if config.option.collectonly else self.passed
        for line in table(cases.values()):
            terminalreporter.write_line(line)


def table(cases) -> list[str]:
    """Return the lines of the table.

    Args:
        cases: of each test its row, how many cases it goes through, whether it is slow, its file.
    """
    quick, slow, files = defaultdict(int), defaultdict(int), defaultdict(set)
    for row, count, is_slow, file in cases:
        (slow if is_slow else quick)[row] += count
        files[row].add(file)
    lines = ["| what | cases | tests |", "|---|---|---|"]
    for row, text in ROWS.items():
        count = f"{quick[row] + slow[row]:,}" + f" ({slow[row]} slow)" * (slow[row] > 0)
        names = ", ".join(f"`{file}`" for file in sorted(files[row]))
        lines.append(f"| {text} | {count} | {names} |")
    return lines
