"""``python -m fairseq_rnnsearch.evaluation``: files in, tables and figures out.

The 447 Hansards sentences, aligned by an English-French model and by a French-English model,
each of which wrote its own source word first:

    python -m fairseq_rnnsearch.evaluation aer --gold enfr.gold --hypothesis en-fr.pharaoh \\
        --hypothesis-inverse fr-en.pharaoh --reverse inverse --symmetrise grow-diag-final-and \\
        --bootstrap 1000
"""

from collections.abc import Sequence

from fairseq_rnnsearch.errors import OneLineParser, install_excepthook
from fairseq_rnnsearch.evaluation import (
    alignment_error_rate,
    bleu_table,
    examples,
    lengths,
    report,
    symmetrisation,
    training_table,
    unknown_words,
)

_IDEAS = (
    report,
    bleu_table,
    training_table,
    lengths,
    examples,
    alignment_error_rate,
    symmetrisation,
    unknown_words,
)


def main(argv: Sequence[str] | None = None) -> None:
    """Run one of the commands, as the program `rnnsearch-evaluate` does.

    Args:
        argv: the command and its options; without them, those of the program.

    Raises:
        UserError: for every mistake in options or files; shown as one line when nobody catches it.
    """
    install_excepthook()
    parser = OneLineParser(
        prog="python -m fairseq_rnnsearch.evaluation",
        description="Files in, tables and figures out; each command's --help has its options.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    for idea in _IDEAS:
        idea.add(commands)
    options = parser.parse_args(argv)
    options.run(options)


if __name__ == "__main__":
    main()
