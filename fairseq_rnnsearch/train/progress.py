"""Show how a training goes in short lines, from fairseq-train's messages on standard input.

fairseq-train ... 2>&1 | python -P -m fairseq_rnnsearch.train.progress UPDATES EPOCHS
"""

import re
import signal
import sys
import time

from fairseq_rnnsearch.command_line import program
from fairseq_rnnsearch.errors import as_text

_REPORT = re.compile(
    r"\| epoch (?P<epoch>\d+): +\d+ / (?P<batches>\d+) .* ppl=(?P<perplexity>[^ ,]+)"
    r".* num_updates=(?P<update>\d+)"
)
_VALIDATION = re.compile(r"\| valid \| epoch (\d+) .* nll_loss [^ ]+ .* ppl ([^ ]+)")
_KEPT = re.compile(r"(\d+) of (\d+) training pairs have at most (\d+) tokens")
_RESUMED = re.compile(r"Loaded checkpoint .* \(epoch (\d+) @ (\d+) updates\)")
_SHOWN = re.compile(r"[Ee]rror|WARNING")


def _duration(seconds: float) -> str:
    """Return a time in the unit that suits it."""
    for least, unit, name in ((7200, 3600, "h"), (120, 60, "min")):
        if seconds >= least:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds:.0f} s"


class Progress:
    """Writes a line for each report, with the time that is left, and warnings as they are.

    Args:
        updates, epochs: where the training ends; 0: there is no such limit.
    """

    def __init__(self, updates: int, epochs: int) -> None:
        self._updates, self._epochs = updates, epochs
        self._begun = time.monotonic()  # after a resume, fairseq's own `wall` stays 0
        self._first: tuple[int, float] | None = None  # update and time of the first report
        self._left_out = ""

    def show(self, line: str) -> None:
        """Show what matters of a line."""
        if report := _REPORT.search(line):
            self._show_report(report)
        elif match := _KEPT.search(line):
            left_out = (
                f"{int(match[2]) - int(match[1])} of {match[2]} pairs, of more than {match[3]}"
            )
            if match[1] != match[2] and left_out != self._left_out:  # each epoch says it
                self._print(f"left out of training: {left_out} words or pieces")
                self._left_out = left_out
        elif validation := _VALIDATION.search(line):
            self._print(f"epoch {int(validation[1])}: validation perplexity {validation[2]}")
        elif resumed := _RESUMED.search(line):
            self._print(f"goes on after update {int(resumed[2])}, in epoch {int(resumed[1])}")
        elif _SHOWN.search(line):
            self._print(as_text(line))

    def _show_report(self, report: re.Match[str]) -> None:
        update, total = int(report["update"]), self._updates
        of_epochs = self._epochs * int(report["batches"])
        if not total or 0 < of_epochs <= total:
            total = of_epochs
        now = time.monotonic()
        text = f"update {update} of {total}, epoch {int(report['epoch'])}: training perplexity"
        text += f" {report['perplexity']}, {_duration(now - self._begun)} so far"
        if self._first is None:
            self._first = update, now
        elif update < total and update > self._first[0]:
            a_second = (update - self._first[0]) / (now - self._first[1])
            text += f", {_duration((total - update) / a_second)} left"
        self._print(text)

    def _print(self, text: str) -> None:
        print(f"  {text}", flush=True)


@program
def main() -> None:
    """Show the lines of standard input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the training, which gets it too, ends the input
    progress = Progress(*map(int, sys.argv[1:3]))
    for line in sys.stdin.buffer:
        progress.show(line.decode(errors="replace").rstrip("\n"))


if __name__ == "__main__":
    main()
