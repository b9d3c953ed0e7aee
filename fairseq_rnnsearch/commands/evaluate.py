"""``rnnsearch-evaluate``: word links scored against human links, or joined.

The 447 Hansards sentences, aligned by an English-French model and by a French-English model,
each of which wrote its own source word first:

    rnnsearch-evaluate aer --gold enfr.gold --hypothesis en-fr.pharaoh \\
        --hypothesis-inverse fr-en.pharaoh --reverse inverse --symmetrise grow-diag-final-and \\
        --bootstrap 1000
"""

import argparse
import inspect
from collections.abc import Sequence

from fairseq_rnnsearch.align import alignment_error_rate, links, symmetrisation
from fairseq_rnnsearch.command_line import help_text, parser_of, program

COMMANDS = {"aer": alignment_error_rate, "symmetrise": symmetrisation}


@program
def main(argv: Sequence[str] | None = None) -> None:
    """Run one of the commands, as the program `rnnsearch-evaluate` does.

    Args:
        argv: the command and its options; without them, those of the program.
    """
    parser = parser_of("rnnsearch-evaluate", "Links between words, judged and joined.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, module in COMMANDS.items():
        text = help_text(inspect.getdoc(module.run))
        command = commands.add_parser(
            name,
            help=text.partition("\n")[0],
            description=text,
            epilog=help_text(links.__doc__),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        module.add_options(command)
        command.set_defaults(run=module.run)
    options = parser.parse_args(argv)
    options.run(options)


if __name__ == "__main__":
    main()
