"""Time, disk and memory that a training needs, and its progress.

The estimate of time is for one core of a CPU: the multiplications of all updates, at the rate at
which the Multi30k recipe did its own (recipes/RESULTS.md). Disk and memory are those of that
recipe's parts, scaled. `Progress` picks short lines from fairseq-train's messages; as a command, it
reads them from standard input:

    fairseq-train ... 2>&1 | python -P -m fairseq_rnnsearch.train.progress UPDATES EPOCHS
"""

import os
import re
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from fairseq_rnnsearch.command_line import program
from fairseq_rnnsearch.errors import as_text, pluralize
from fairseq_rnnsearch.train.settings import Settings, as_argument

FLOPS = 60e9  # a second of one core, with validations
SEARCH_FLOPS = 15e9
SECONDS_OF_UPDATE = 0.05  # besides its multiplications
SECONDS_TO_START = 60  # of all programs together
SECONDS_OF_MERGE = 0.0016  # to learn it
SECONDS_OF_WORD = 6e-5  # to split it into subwords and to binarise them, once for each copy
PROGRAM_BYTES = 0.5e9  # torch and fairseq, in memory

_REPORT = re.compile(
    r"\| epoch (?P<epoch>\d+): +\d+ / (?P<batches>\d+) .* ppl=(?P<perplexity>[^ ,]+)"
    r".* num_updates=(?P<update>\d+)"
)
_VALIDATION = re.compile(r"\| valid \| epoch (\d+) .* nll_loss [^ ]+ .* ppl ([^ ]+)")
_KEPT = re.compile(r"(\d+) of (\d+) training pairs have at most (\d+) tokens")
_RESUMED = re.compile(r"Loaded checkpoint .* \(epoch (\d+) @ (\d+) updates\)")
_WORD_OR_MARK = re.compile(r"\w+|[^\w\s]")  # nearly what the tokenizers split
_SHOWN = re.compile(r"[Ee]rror|WARNING")


class Text(NamedTuple):
    """What was counted in one side of a corpus.

    Attributes:
        words: what stands between spaces.
        characters: without spaces.
        distinct: how many different characters there are.
    """

    words: int
    characters: int
    distinct: int


def describe(sentences: Iterable[str]) -> Text:
    """Count words and characters."""
    words, counts = 0, Counter[str]()
    for sentence in sentences:
        words += len(sentence.split())
        counts.update(sentence)
    del counts[" "]
    return Text(words, counts.total(), len(counts))


def flops_of_pair(
    sizes: Sequence[int], tokens: Sequence[float], types: Sequence[int]
) -> tuple[float, float]:
    """Return the multiplications and additions of a pair's source, and of its target.

    Args:
        sizes: m, n, n' and l; n' of RNNencdec, which has no attention, is 0.
    """
    m, n, a, l = sizes
    c = 2 * n if a else n  # the size of the context; RNNencdec's encoder has one direction
    source, target = tokens
    encoder = 2 * (3 * c * (m + n) + c * a)
    attention = a * n + source * (a + c) if a else 0
    decoder = 2 * ((3 * n + 2 * l) * (m + n + c) + l * types[1] + attention)
    return source * encoder, target * decoder


def parameters_of(sizes: Sequence[int], types: Sequence[int]) -> int:
    """Return the number of parameters but for biases; the sizes are those of ``flops_of_pair``."""
    m, n, a, l = sizes
    c = 2 * n if a else n
    recurrent = 3 * c * (m + n) + 3 * n * (m + n + c) + n * n + (n + c) * a
    return m * sum(types) + recurrent + 2 * l * (m + n + c) + l * types[1]


def duration(seconds: float) -> str:
    """Return a time in the largest unit that fits."""
    for unit, name, least in ((86400, "days", 3), (3600, "hours", 5 / 3), (60, "minutes", 5 / 3)):
        if seconds >= least * unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds:.0f} seconds"


def gigabytes(number: float) -> str:
    return f"{max(number / 1e9, 0.1):.1f} GB"


def free_at(path: Path) -> int:
    """Return the free bytes of the disk on which a folder is, or will be."""
    while not path.exists():
        path = path.parent
    return shutil.disk_usage(path).free


def plan(
    work: Path,
    settings: Settings,
    texts: Sequence[Text],
    pairs: int,
    train: int,
    test: int,
    done: int = 0,
) -> Iterator[str]:
    """Describe the model, and the time, disk and memory that its training takes.

    Args:
        work: the work folder.
        pairs, train, test: how many there are, in all and in two of the parts.
        done: updates that were made before.
    """
    s, tokens, types = settings, [], []
    sizes, has_merges = [s.embedding, s.hidden, s.attention, s.maxout], s.vocabulary == "bpe"
    if s.model == "rnnencdec":
        sizes[2] = 0
    yield (
        f"{pairs} pairs: {'/'.join(map(str, sizes))} units,"
        f"{f' {s.bpe_merges} merges,' * has_merges} dropout"
        f" {as_argument(s.dropout)}, {s.updates} updates of {s.batch_size} pairs"
    )
    for tokenizer, text in zip(s.tokenizers, texts, strict=True):
        if tokenizer == "character":
            tokens.append(text.characters)
            types.append(text.distinct)
        elif not has_merges:
            tokens.append(text.words)
            # words that occur three times: 7.4 to 10.5 in Multi30k and 150,000 pairs of Tatoeba
            types.append(round(9 * text.words**0.5))
        else:
            tokens.append(text.words * 6 // 5)  # a word is 1.2 subwords in Multi30k
            # and each of two languages has two thirds of the merges that they share.
            types.append(s.bpe_merges * (3 - s.bpe_joint) // 3)
    lengths = [count / train + 1 for count in tokens]
    source, target = flops_of_pair(sizes, lengths, types)
    update = 3 * s.batch_size * (source + target) / FLOPS + SECONDS_OF_UPDATE
    again = s.updates - s.bpe_dropout_epochs * train // s.batch_size  # with R-Drop, read twice
    left = max(s.updates - done, 0)
    updates = left + (min(max(again, 0), left) if s.rdrop else 0)
    search = test * (source + s.beam * target) / SEARCH_FLOPS
    parameters = parameters_of(sizes, types)
    # A checkpoint has the parameters and two averages of Adam's; text is kept in five forms.
    disk = 12 * parameters * (s.average + 2) + 5 * 6 * sum(tokens)
    widest = s.batch_size * 100 * 60 * s.hidden
    memory = PROGRAM_BYTES + 32 * parameters + 4 * widest + 200 * train
    free = free_at(work.absolute())
    words = sum(text.words for text in texts)
    copies = s.bpe_copies + 1 if s.bpe_dropout else 1
    prepare = 0 if done else has_merges * s.bpe_merges * SECONDS_OF_MERGE
    prepare += 0 if done else copies * words * SECONDS_OF_WORD
    seconds = SECONDS_TO_START + prepare + updates * update + search
    what = f"the {left} updates that are left and the translation" if done else "all steps"
    yield (
        f"about {parameters / 1e6:.1f} million parameters; {what} take about {duration(seconds)} on"
        f" one core and {gigabytes(memory)} of memory"
    )
    yield f"{work} takes {gigabytes(disk)} of disk, where {gigabytes(free)} are free"
    if disk > free:
        yield "warning: the disk is too small"
    if memory > (there := os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")):
        yield f"warning: this machine has {gigabytes(there)} of memory"


def too_long(settings: Settings, pairs: Sequence[tuple[str, str]]) -> str:
    """Say how many pairs are longer than ``--longest``; of subwords, how many are so at least."""
    s, longer = settings, 0
    for pair in pairs:
        lengths = [
            len(side) if tokenizer == "character"
            else len(side.split()) if tokenizer == "space"
            else sum(1 for _ in _WORD_OR_MARK.finditer(side))
            for side, tokenizer in zip(pair, s.tokenizers, strict=True)
        ]  # fmt: skip
        longer += max(lengths) > s.longest
    unit = "characters" if "character" in s.tokenizers else "words and marks"
    at_least, of_pieces = "", ""
    if s.vocabulary == "bpe" and {*s.tokenizers} != {"character"}:
        at_least = "at least " if longer else ""
        of_pieces = ", more where words are split into pieces"
    return (
        f"{at_least}{longer} of {pluralize(len(pairs), 'training pair')} longer than --longest"
        f" {s.longest} {unit}{of_pieces}: left out of training"
    )


# --- while it runs -----------------------------------------------------------------------------


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
            left_out = f"{int(match[2]) - int(match[1])} of {match[2]} pairs, longer than --longest"
            if match[1] != match[2] and left_out != self._left_out:  # each epoch says it
                self._print(f"left out of training: {left_out} {match[3]} words or pieces")
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
        text += f" {report['perplexity']}, {duration(now - self._begun)} so far"
        if self._first is None:
            self._first = update, now
        elif update < total and update > self._first[0]:
            a_second = (update - self._first[0]) / (now - self._first[1])
            text += f", {duration((total - update) / a_second)} left"
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
