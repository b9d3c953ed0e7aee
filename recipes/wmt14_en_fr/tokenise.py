"""Tokenises parallel text as Moses does and leaves out what training cannot use.

    python recipes/wmt14_en_fr/tokenise.py --text FOLDER --out FOLDER [--keep-all]

reads text.en and text.fr, writes both tokenised and report.json: pairs, words, what was left out
and why. The output is the same whatever the number of processes.

Left out are pairs with a side that is not UTF-8, that has no word or more than --longest words,
or more than --ratio times as many as the other (Moses' clean-corpus-n.perl has 9), and those with
a word that fairseq would take for a symbol of its own. --keep-all, for validation and test text,
leaves out nothing, and what is not UTF-8 is a mistake.
"""

import argparse
import json
import resource
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import data_layer  # noqa: F401  before the package's modules

from fairseq_rnnsearch.data.blocks import Block, ordered_map, read_blocks
from fairseq_rnnsearch.data.plain_text import TOKENIZERS, PlainText
from fairseq_rnnsearch.errors import UserError, install_excepthook

LANGUAGES = ("en", "fr")
RESERVED = frozenset(["<s>", "</s>", "<pad>"])


@dataclass(frozen=True)
class Rules:
    """What is done to a pair; see the module's description."""

    tokenizer: str = "moses"
    lowercase: bool = False
    longest: int = 100
    ratio: float = 9.0
    keep_all: bool = False

    def objection(self, sides: list[list[str]]) -> str | None:
        """Why a pair is left out, if it is."""
        shorter, longer = sorted(map(len, sides))
        if not shorter:
            return "empty"
        if longer > self.longest:
            return "too long"
        if longer > self.ratio * shorter:
            return "too different in length"
        if not all(map(RESERVED.isdisjoint, sides)):
            return "reserved words"
        return None


@dataclass
class Tokenised:
    """Of a block: the text of either side that is kept, and counts."""

    text: tuple[str, str]
    words: list[int]
    kept: int
    dropped: Counter


class _Worker:
    """What each process has."""

    rules: Rules
    plain: tuple[PlainText, PlainText]


def prepare(rules: Rules) -> None:
    _Worker.rules = rules
    _Worker.plain = tuple(PlainText(ln, rules.tokenizer, rules.lowercase) for ln in LANGUAGES)


def tokenise_block(block: Block) -> Tokenised:
    """Tokenise and clean one block.

    Raises:
        UserError: with ``keep_all``, for a line that is not UTF-8.
    """
    rules, dropped = _Worker.rules, Counter()
    lines: tuple[list[str], list[str]] = ([], [])
    words = [0, 0]
    for pair in zip(*block, strict=True):
        try:
            sides = [
                plain.tokens(line.decode("utf-8"))
                for plain, line in zip(_Worker.plain, pair, strict=True)
            ]
        except UnicodeDecodeError as problem:
            if rules.keep_all:
                raise UserError(f"not UTF-8: the line {problem.object[:60]!r}") from problem
            dropped["not UTF-8"] += 1
            continue
        if not rules.keep_all and (reason := rules.objection(sides)):
            dropped[reason] += 1
            continue
        for side, tokens in enumerate(sides):
            lines[side].append(" ".join(tokens) + "\n")
            words[side] += len(tokens)
    return Tokenised(tuple(map("".join, lines)), words, len(lines[0]), dropped)


def tokenise(text: Path, out: Path, rules: Rules, processes: int) -> dict:
    """Tokenise a folder's text; what the report says."""
    started = said = time.monotonic()
    pairs, kept, words, dropped = 0, 0, [0, 0], Counter()
    blocks = read_blocks(text / "text.en", text / "text.fr")
    with (
        (out / "text.en").open("w", encoding="utf-8", newline="\n") as english,
        (out / "text.fr").open("w", encoding="utf-8", newline="\n") as french,
    ):
        for done in ordered_map(tokenise_block, blocks, processes, prepare, (rules,)):
            for file, content in zip((english, french), done.text, strict=True):
                file.write(content)
            kept += done.kept
            words = [a + b for a, b in zip(words, done.words, strict=True)]
            dropped += done.dropped
            pairs = kept + dropped.total()
            if time.monotonic() - said > 30:
                said = time.monotonic()
                rate = pairs / (said - started)
                print(f"  {pairs:,} pairs, {rate:,.0f} pairs/s", file=sys.stderr, flush=True)
    return {
        "pairs": pairs,
        "kept": kept,
        "words": dict(zip(LANGUAGES, words, strict=True)),
        "left out": dict(sorted(dropped.items())),
        "seconds": round(time.monotonic() - started, 1),
    }


def peak_megabytes() -> float:
    """Of this process and of the largest that it has waited for."""
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    # kilobytes on Linux, bytes on macOS
    return max(each.ru_maxrss for each in usage) / (1e6 if sys.platform == "darwin" else 1e3)


def main() -> None:
    install_excepthook()
    parser = argparse.ArgumentParser(description="Tokenise and clean parallel text.")
    parser.add_argument("--text", type=Path, required=True, help="folder with text.en, text.fr")
    parser.add_argument("--out", type=Path, required=True, help="folder to make")
    parser.add_argument("--tokenizer", choices=TOKENIZERS, default=Rules.tokenizer)
    parser.add_argument("--lowercase", action="store_true")
    parser.add_argument("--longest", type=int, default=Rules.longest, help="words of a side")
    parser.add_argument("--ratio", type=float, default=Rules.ratio)
    parser.add_argument("--keep-all", action="store_true")
    parser.add_argument("--processes", type=int, default=0, help="0: one per core")
    options = parser.parse_args()
    rules = Rules(
        options.tokenizer, options.lowercase, options.longest, options.ratio, options.keep_all
    )
    try:
        options.out.mkdir(parents=True)
        try:
            report = tokenise(options.text, options.out, rules, options.processes)
        except UserError as problem:
            raise UserError(f"{options.text}: {problem}") from problem
        (options.out / "report.json").write_text(json.dumps(report, indent=1) + "\n")
    except OSError as problem:
        raise UserError(f"{problem.filename or options.out}: {problem.strerror}") from problem
    if not report["kept"]:
        raise UserError(f"{options.text}: none of its {report['pairs']} pairs can be used")
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in report["left out"].items())
    rate = report["pairs"] / max(report["seconds"], 0.1)
    print(
        f"  {report['kept']:,} of {report['pairs']:,} pairs kept"
        + (f" (left out: {reasons})" if reasons else "")
        + f"; {rate:,.0f} pairs/s, at most {peak_megabytes():,.0f} MB in a process"
    )


if __name__ == "__main__":
    main()
