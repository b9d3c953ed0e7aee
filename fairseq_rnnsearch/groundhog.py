"""Import the authors' parameters.

    python -m fairseq_rnnsearch.groundhog import --params params.npz --out model.pt

``authors_parameters`` does the conversion.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from fairseq_rnnsearch.command_line import OneLineParser, program
from fairseq_rnnsearch.errors import UserError


@program
def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    options = _parser().parse_args(arguments)
    languages = options.source_lang, options.target_lang
    if len(set(languages)) == 1:
        raise UserError("--source-lang and --target-lang must differ: each names a dictionary")
    from fairseq_rnnsearch.models.authors_parameters import import_parameters  # imports fairseq

    words = options.source_words, options.target_words
    import_parameters(options.params, options.out, *words, languages)
    print(f"wrote {options.out}", file=sys.stderr)


def _parser() -> OneLineParser:
    parser = OneLineParser(prog="python -m fairseq_rnnsearch.groundhog")
    parser.add_argument("command", choices=["import"])
    parser.add_argument("--params", type=Path, required=True, help="the authors' .npz")
    parser.add_argument("--out", type=Path, required=True, help="checkpoint to write")
    parser.add_argument("--source-words", type=Path, help="one word a line, from number 2")
    parser.add_argument("--target-words", type=Path, help="one word a line, from number 2")
    parser.add_argument("--source-lang", default="en", help="writes dict.<source-lang>.txt")
    parser.add_argument("--target-lang", default="fr", help="writes dict.<target-lang>.txt")
    return parser


if __name__ == "__main__":
    main()
