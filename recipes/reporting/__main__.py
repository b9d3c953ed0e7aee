"""``python recipes/reporting``: texts and logs in, the paper's tables and figures out."""

import argparse
import inspect
import sys
from collections.abc import Sequence
from pathlib import Path

from fairseq_rnnsearch.command_line import help_text, parser_of, program

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from reporting import bleu_table, examples, lengths, report, scores, training_log, training_table

COMMANDS = {
    "report": (report.run, report.add_options, None),
    "bleu": (bleu_table.run, bleu_table.add_options, scores.__doc__),
    "training": (training_table.run, training_table.add_options, training_log.__doc__),
    "lengths": (lengths.run, lengths.add_options, lengths.__doc__),
    "examples": (examples.run, examples.add_options, None),
}


@program
def main(argv: Sequence[str] | None = None) -> None:
    """Run one of the commands.

    Args:
        argv: the command and its options; without them, those of the program.

    Raises:
        UserError: an option or a file is invalid; uncaught, it is shown as one line.
    """
    parser = parser_of("python recipes/reporting", "The paper's tables and figures.")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    for name, (run, add_options, notes) in COMMANDS.items():
        text = help_text(inspect.getdoc(run))
        command = subparsers.add_parser(
            name,
            help=text.partition("\n")[0],
            description=text,
            epilog=help_text(notes),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        add_options(command)
        command.set_defaults(run=run)
    options = parser.parse_args(argv)
    options.run(options)


if __name__ == "__main__":
    main()
