"""Import and export the authors' parameters.

    python -m fairseq_rnnsearch.groundhog import --params params.npz --out model.pt
    python -m fairseq_rnnsearch.groundhog export --checkpoint model.pt --out params.npz

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
    if options.command == "import" and options.source_lang == options.target_lang:
        raise UserError("--source-lang and --target-lang must differ: each names a dictionary")
    from fairseq_rnnsearch.plugin import authors_parameters  # imports torch and fairseq

    if options.command == "export":
        authors_parameters.export_parameters(options.checkpoint, options.out)
    else:
        authors_parameters.import_parameters(
            options.params,
            options.out,
            options.source_words,
            options.target_words,
            (options.source_lang, options.target_lang),
        )
    print(f"wrote {options.out}", file=sys.stderr)


def _parser() -> OneLineParser:
    parser = OneLineParser(prog="python -m fairseq_rnnsearch.groundhog")
    commands = parser.add_subparsers(required=True, dest="command")
    importer = commands.add_parser("import", help="the authors' .npz to a fairseq checkpoint")
    importer.add_argument("--params", type=Path, required=True, help="the authors' .npz")
    importer.add_argument("--out", type=Path, required=True, help="checkpoint to write")
    importer.add_argument("--source-words", type=Path, help="one word a line, from number 2")
    importer.add_argument("--target-words", type=Path, help="one word a line, from number 2")
    importer.add_argument("--source-lang", default="en", help="writes dict.<source-lang>.txt")
    importer.add_argument("--target-lang", default="fr", help="writes dict.<target-lang>.txt")
    exporter = commands.add_parser("export", help="a fairseq checkpoint to the authors' .npz")
    exporter.add_argument("--checkpoint", type=Path, required=True)
    exporter.add_argument("--out", type=Path, required=True, help=".npz to write")
    return parser


if __name__ == "__main__":
    main()
