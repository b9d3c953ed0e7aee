"""``python -m fairseq_rnnsearch.evaluation``: files in, tables and figures out.

The 447 Hansards sentences, aligned by an English-French model and by a French-English model,
each of which wrote its own source word first:

    python -m fairseq_rnnsearch.evaluation aer --gold enfr.gold --hypothesis en-fr.pharaoh \\
        --hypothesis-inverse fr-en.pharaoh --reverse inverse --symmetrise grow-diag-final-and \\
        --bootstrap 1000
"""

import argparse
import inspect
from collections.abc import Sequence

from fairseq_rnnsearch.errors import OneLineParser, program
from fairseq_rnnsearch.evaluation import (
    alignment_error_rate,
    bleu_table,
    examples,
    lengths,
    links,
    report,
    scores,
    symmetrisation,
    training_log,
    training_table,
    unknown_words,
)

# The function that runs a command, whose docstring its help begins with; what adds the options; and
# what the help ends with.
_COMMANDS = {
    "report": (report.run, report.add_options, None),
    "bleu": (bleu_table.run, bleu_table.add_options, scores.__doc__),
    "training": (training_table.run, training_table.add_options, training_log.__doc__),
    "lengths": (lengths.run, lengths.add_options, lengths.__doc__),
    "examples": (examples.run, examples.add_options, None),
    "alignments": (examples.draw_alignments, examples.add_alignment_options, None),
    "aer": (alignment_error_rate.run, alignment_error_rate.add_options, links.__doc__),
    "symmetrise": (symmetrisation.run, symmetrisation.add_options, links.__doc__),
    "dictionary": (unknown_words.learn, unknown_words.add_learning_options, None),
    "replace-unk": (unknown_words.replace, unknown_words.add_replacing_options, None),
    "no-unk": (unknown_words.write_subset, unknown_words.add_subset_options, None),
}


@program
def main(argv: Sequence[str] | None = None) -> None:
    """Run one of the commands, as the program `rnnsearch-evaluate` does.

    Args:
        argv: the command and its options; without them, those of the program.

    Raises:
        UserError: for every mistake in options or files; shown as one line when nobody catches it.
    """
    parser = OneLineParser(
        prog="python -m fairseq_rnnsearch.evaluation",
        description="Files in, tables and figures out; each command's --help has its options.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    for name, (run, add_options, notes) in _COMMANDS.items():
        description = inspect.getdoc(run)
        command = commands.add_parser(
            name,
            help=description.splitlines()[0],
            description=description,
            epilog=notes,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        add_options(command)
        command.set_defaults(run=run)
    options = parser.parse_args(argv)
    options.run(options)


if __name__ == "__main__":
    main()
