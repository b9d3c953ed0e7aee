"""Moses tokenisation as a filter: standard input to standard output, a sentence a line.

    python recipes/multi30k/moses.py tokenize --language fr [--lowercase] < text > tokens
    python recipes/multi30k/moses.py detokenize --language fr < tokens > text

sacremoses' own command always escapes `&`, `'` and the like for XML; here they stay as they are.
Punctuation is not normalised and hyphens are not split.
"""

import argparse
import sys
from collections.abc import Callable

from sacremoses import MosesDetokenizer, MosesTokenizer


def line_filter(action: str, language: str, lowercase: bool) -> Callable[[str], str]:
    if action == "detokenize":
        detokenizer = MosesDetokenizer(lang=language)
        return lambda line: detokenizer.detokenize(line.split(), unescape=False)
    tokenizer = MosesTokenizer(lang=language)

    def tokenize(line: str) -> str:
        tokens = tokenizer.tokenize(line, escape=False, return_str=True)
        return tokens.lower() if lowercase else tokens

    return tokenize


def main() -> None:
    parser = argparse.ArgumentParser(description="Tokenise or detokenise standard input.")
    parser.add_argument("action", choices=("tokenize", "detokenize"))
    parser.add_argument("--language", required=True, choices=("en", "fr"))
    parser.add_argument("--lowercase", action="store_true", help="after tokenising")
    options = parser.parse_args()
    if options.lowercase and options.action == "detokenize":
        parser.error("--lowercase goes with tokenize")
    convert = line_filter(options.action, options.language, options.lowercase)
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
