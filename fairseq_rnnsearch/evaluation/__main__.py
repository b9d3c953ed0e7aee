"""``python -m fairseq_rnnsearch.evaluation``: files in, tables and figures out.

The 447 Hansards sentences, aligned by an English-French model and by a French-English model,
each of which wrote its own source word first:

    python -m fairseq_rnnsearch.evaluation aer --gold enfr.gold --hypothesis en-fr.pharaoh \\
        --hypothesis-inverse fr-en.pharaoh --reverse inverse --symmetrise grow-diag-final-and \\
        --bootstrap 1000
"""

from collections.abc import Sequence

from fairseq_rnnsearch.errors import OneLineParser, install_excepthook
from fairseq_rnnsearch.evaluation.commands import (
    aer,
    alignments,
    bleu,
    examples,
    lengths,
    report,
    symmetrise,
    training,
    unknown_words,
)

_COMMANDS = (report, bleu, training, lengths, alignments, examples, aer, symmetrise, unknown_words)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one of the commands.

    Raises:
        UserError: for every mistake in options or files; shown as one line when nobody catches it.
    """
    install_excepthook()
    parser = OneLineParser(
        prog="python -m fairseq_rnnsearch.evaluation",
        description="Files in, tables and figures out; each command's --help has its options.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    for command in _COMMANDS:
        command.add(commands)
    options = parser.parse_args(arguments)
    options.run(options)


if __name__ == "__main__":
    main()
