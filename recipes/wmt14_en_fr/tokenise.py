"""Tokenise parallel text as Moses does, and omit pairs that training cannot use.

    python recipes/wmt14_en_fr/tokenise.py --text FOLDER --out FOLDER [--keep-all]

reads text.en and text.fr, and writes both tokenised, and report.json, which says how many pairs and
words there are, what was left out and why. The output is the same whatever the number of processes.

A pair is omitted if a side is not UTF-8, has no words or more than --longest, has more than --ratio
times as many as the other side (Moses' clean-corpus-n.perl uses 9), or has a word that fairseq
would take for one of its symbols. --keep-all, for validation and test text, omits nothing and
reports text that is not UTF-8 as an error.
"""

import argparse
import json
from collections import Counter
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from parallel_text import LANGUAGES, Block, Progress, new_sides, ordered_map, read_blocks, sides

from fairseq_rnnsearch.command_line import program
from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.text.plain_text import PlainText
from fairseq_rnnsearch.text.tokenizers import TOKENIZERS

RESERVED = frozenset(["<s>", "</s>", "<pad>"])


@dataclass(frozen=True)
class Rules:
    """What is done to a pair; the module's description explains it."""

    tokenizer: str = "moses"
    lowercase: bool = False
    longest: int = 100
    ratio: float = 9.0
    keep_all: bool = False

    def objection(self, pair: list[list[str]]) -> str | None:
        """Return why a pair is left out, or None."""
        shorter, longer = sorted(map(len, pair))
        if not shorter:
            return "empty"
        if longer > self.longest:
            return "too long"
        if longer > self.ratio * shorter:
            return "too different in length"
        if not all(map(RESERVED.isdisjoint, pair)):
            return "reserved words"
        return None


@dataclass
class Tokenised:
    """What becomes of a block.

    Attributes:
        text: what is kept of either side, in UTF-8.
        words: how many words either side of it has.
        kept: how many pairs that are.
        dropped: how many pairs are left out, by the reason.
    """

    text: tuple[bytes, bytes]
    words: list[int]
    kept: int
    dropped: Counter


@cache
def plain_texts(rules: Rules) -> list[PlainText]:
    """Make the tokenizers of both languages, once in each process."""
    return [PlainText(language, rules.tokenizer, rules.lowercase) for language in LANGUAGES]


def tokenise_block(rules: Rules, block: Block) -> Tokenised:
    """Tokenise and clean one block.

    Raises:
        UserError: a line is not UTF-8, and the rules are to keep all.
    """
    lines: tuple[list[str], list[str]] = ([], [])
    words, dropped, plain_of_sides = [0, 0], Counter(), plain_texts(rules)
    for pair in zip(*block, strict=True):
        try:
            tokenised = [
                plain.tokens(line.decode("utf-8"))
                for plain, line in zip(plain_of_sides, pair, strict=True)
            ]
        except UnicodeDecodeError as problem:
            if rules.keep_all:
                raise UserError(f"not UTF-8: the line {problem.object[:60]!r}") from problem
            dropped["not UTF-8"] += 1
            continue
        if not rules.keep_all and (reason := rules.objection(tokenised)):
            dropped[reason] += 1
            continue
        for side, tokens in enumerate(tokenised):
            lines[side].append(" ".join(tokens) + "\n")
            words[side] += len(tokens)
    text = tuple("".join(side).encode() for side in lines)
    return Tokenised(text, words, len(lines[0]), dropped)


def tokenise(text: Path, out: Path, rules: Rules, processes: int) -> tuple[dict, str]:
    """Tokenise a folder's text.

    Returns:
        What report.json says, and how fast it went.
    """
    progress, kept, words, dropped = Progress(), 0, [0, 0], Counter()
    blocks = read_blocks(*sides(text))
    with new_sides(out) as files:
        for done in ordered_map(partial(tokenise_block, rules), blocks, processes):
            for file, content in zip(files, done.text, strict=True):
                file.write(content)
            kept += done.kept
            words = [sum(counts) for counts in zip(words, done.words, strict=True)]
            dropped += done.dropped
            progress.add(done.kept + done.dropped.total())
    report = {
        "pairs": progress.pairs,
        "kept": kept,
        "words": dict(zip(LANGUAGES, words, strict=True)),
        "left out": dict(sorted(dropped.items())),
        "seconds": round(progress.seconds, 1),
    }
    return report, progress.summary()


@program
def main() -> None:
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
            report, summary = tokenise(options.text, options.out, rules, options.processes)
        except UserError as problem:
            raise UserError(f"{options.text}: {problem}") from problem
        (options.out / "report.json").write_text(json.dumps(report, indent=1) + "\n")
    except OSError as problem:
        raise UserError(f"{problem.filename or options.out}: {problem.strerror}") from problem
    if not report["kept"]:
        raise UserError(f"{options.text}: no pair of {report['pairs']:,} can be used")
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in report["left out"].items())
    print(
        f"  {report['kept']:,} of {report['pairs']:,} pairs kept"
        + (f" (left out: {reasons})" if reasons else "")
        + f"; {summary}"
    )


if __name__ == "__main__":
    main()
