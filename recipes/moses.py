"""Tokenise or detokenise as Moses does, from standard input to standard output, a sentence a line.

    python recipes/moses.py tokenize --language fr [--lowercase] < text > tokens
    python recipes/moses.py detokenize --language fr < tokens > text
    python recipes/moses.py tokenize --out FOLDER text/train.en text/train.fr ...

With files, their suffixes are the languages, and FOLDER gets a file of the same name for each.
With --tokenizer space the words of text that is tokenised already stay as they are, and with
--tokenizer character each character is a token; --tokenizer-of zh=character is for one language.
The rules are the same as everywhere in the package: there are no XML escapes, punctuation is not
normalised, and hyphens are not split.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import TextIO

from tqdm import tqdm

from fairseq_rnnsearch.data.plain_text import TOKENIZERS, PlainText
from fairseq_rnnsearch.errors import UserError, program


def convert(lines: Iterable[str], out: TextIO, plain_text: PlainText, action: str) -> None:
    """Write each line as tokens, or as text.

    Raises:
        UserError: the text is not UTF-8.
    """
    try:
        for line in lines:
            line = line.rstrip("\r\n")
            if action == "tokenize":
                print(" ".join(plain_text.tokens(line)), file=out)
            else:
                print(plain_text.text(line.split()), file=out)
    except UnicodeDecodeError as problem:
        raise UserError(f"the text is not UTF-8: {problem}") from problem


def counted_by(bar: tqdm, lines: TextIO) -> Iterator[str]:
    """Yield the lines of a file, and tell the bar how many bytes have been read."""
    before = bar.n
    for line in lines:
        yield line
        bar.update(before + lines.buffer.tell() - bar.n)


def of_language(given: str) -> tuple[str, str]:
    language, _, tokenizer = given.partition("=")
    if tokenizer not in TOKENIZERS:
        raise argparse.ArgumentTypeError(f"{given}: must be like zh={'|'.join(TOKENIZERS)}")
    return language, tokenizer


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Tokenise or detokenise standard input, or files.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=__doc__.partition("\n\n")[2],
    )
    parser.add_argument("action", choices=("tokenize", "detokenize"))
    parser.add_argument("files", nargs="*", type=Path, help="instead of standard input")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where files go")
    parser.add_argument("--language", help="of standard input")
    parser.add_argument("--tokenizer", choices=TOKENIZERS, default="moses")
    parser.add_argument(
        "--tokenizer-of",
        action="append",
        default=[],
        metavar="LANGUAGE=TOKENIZER",
        type=of_language,
    )
    parser.add_argument("--lowercase", action="store_true", help="after tokenising")
    options = parser.parse_intermixed_args()
    if options.lowercase and options.action == "detokenize":
        parser.error("--lowercase goes with tokenize")
    if bool(options.files) != bool(options.out) or bool(options.files) == bool(options.language):
        parser.error("valid are files with --out FOLDER, or --language and standard input")
    return options


@program
def main() -> None:
    options = read_options()
    tokenizers = dict(options.tokenizer_of)

    @cache
    def plain_text(language: str) -> PlainText:
        return PlainText(language, tokenizers.get(language, options.tokenizer), options.lowercase)

    # A line ends with \n alone, whatever else Unicode calls a line break.
    as_text = {"encoding": "utf-8", "newline": "\n"}
    if not options.files:
        sys.stdin.reconfigure(**as_text)
        sys.stdout.reconfigure(**as_text)
        convert(sys.stdin, sys.stdout, plain_text(options.language), options.action)
        return
    options.out.mkdir(parents=True, exist_ok=True)
    try:
        total = sum(path.stat().st_size for path in options.files)
        # Without a terminal nothing is shown.
        with tqdm(total=total, unit="B", unit_scale=True, leave=False, disable=None) as bar:
            for path in options.files:
                made, rules = options.out / path.name, plain_text(path.suffix[1:])
                with path.open(**as_text) as lines, made.open("w", **as_text) as out:
                    convert(counted_by(bar, lines), out, rules, options.action)
    except OSError as problem:
        raise UserError(f"{problem.filename}: {problem.strerror}") from problem


if __name__ == "__main__":
    main()
