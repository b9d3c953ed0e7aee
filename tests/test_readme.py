"""What the README says of the tests."""

import subprocess
import sys

from commands import ROOT


def test_the_table_counts_what_there_is():
    """The tests of the table are those that ``-m survives`` runs, slow ones included."""
    counting = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "survives"],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    table = [line for line in counting.stdout.splitlines() if line.startswith("| ")]
    assert len(table) > 10, counting.stdout[-2000:]
    assert "\n".join(table[1:]) in (ROOT / "README.md").read_text(encoding="utf-8")
