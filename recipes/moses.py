"""Moses tokenisation as a filter: standard input to standard output, a sentence a line.

    python recipes/moses.py tokenize --language fr [--lowercase] < text > tokens
    python recipes/moses.py detokenize --language fr < tokens > text

--tokenizer space leaves the words of text that is tokenised already.

The same rules as everywhere in the package: without XML escapes, punctuation not normalised,
hyphens not split.
"""

import argparse
import sys
from collections.abc import Callable

from fairseq_rnnsearch.data.plain_text import TOKENIZERS, PlainText


def line_filter(
    action: str, language: str, tokenizer: str, lowercase: bool
) -> Callable[[str], str]:
    plain_text = PlainText(language, tokenizer, lowercase)
    if action == "detokenize":
        return lambda line: plain_text.text(line.split())
    return lambda line: " ".join(plain_text.tokens(line))


def main() -> None:
    parser = argparse.ArgumentParser(description="Tokenise or detokenise standard input.")
    parser.add_argument("action", choices=("tokenize", "detokenize"))
    parser.add_argument("--language", required=True)
    parser.add_argument("--tokenizer", choices=TOKENIZERS, default="moses")
    parser.add_argument("--lowercase", action="store_true", help="after tokenising")
    options = parser.parse_args()
    if options.lowercase and options.action == "detokenize":
        parser.error("--lowercase goes with tokenize")
    convert = line_filter(options.action, options.language, options.tokenizer, options.lowercase)
    # lines end with \n alone, whatever else Unicode calls a line break
    sys.stdin.reconfigure(encoding="utf-8", newline="\n")
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    try:
        for line in sys.stdin:
            print(convert(line.rstrip("\r\n")))
    except UnicodeDecodeError as problem:
        sys.exit(f"error: the text is not UTF-8: {problem}")


if __name__ == "__main__":
    main()
