"""Tokenise or detokenise as Moses does, from standard input to standard output, a sentence a line.

    python recipes/moses.py tokenize --language fr [--lowercase] < text > tokens
    python recipes/moses.py detokenize --language fr < tokens > text

With --tokenizer space the words of text that is tokenised already stay as they are. The rules are
the same as everywhere in the package: there are no XML escapes, punctuation is not normalised, and
hyphens are not split.
"""

import argparse
import sys

from fairseq_rnnsearch.data.plain_text import TOKENIZERS, PlainText
from fairseq_rnnsearch.errors import UserError, install_excepthook


def main() -> None:
    install_excepthook()
    parser = argparse.ArgumentParser(description="Tokenise or detokenise standard input.")
    parser.add_argument("action", choices=("tokenize", "detokenize"))
    parser.add_argument("--language", required=True)
    parser.add_argument("--tokenizer", choices=TOKENIZERS, default="moses")
    parser.add_argument("--lowercase", action="store_true", help="after tokenising")
    options = parser.parse_args()
    if options.lowercase and options.action == "detokenize":
        parser.error("--lowercase goes with tokenize")
    plain_text = PlainText(options.language, options.tokenizer, options.lowercase)
    # A line ends with \n alone, whatever else Unicode calls a line break.
    sys.stdin.reconfigure(encoding="utf-8", newline="\n")
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    try:
        for line in sys.stdin:
            line = line.rstrip("\r\n")
            if options.action == "tokenize":
                print(" ".join(plain_text.tokens(line)))
            else:
                print(plain_text.text(line.split()))
    except UnicodeDecodeError as problem:
        raise UserError(f"the text is not UTF-8: {problem}") from problem


if __name__ == "__main__":
    main()
