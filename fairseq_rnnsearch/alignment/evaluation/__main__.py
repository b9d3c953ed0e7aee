"""``rnnsearch-evaluate``: word links scored against human links, and unknown words.

The 447 Hansards sentences, aligned by an English-French model and by a French-English model,
each of which wrote its own source word first:

    rnnsearch-evaluate aer --gold enfr.gold --hypothesis en-fr.pharaoh \\
        --hypothesis-inverse fr-en.pharaoh --reverse inverse --symmetrise grow-diag-final-and \\
        --bootstrap 1000
"""

import sys
from collections.abc import Sequence

from fairseq_rnnsearch.alignment.evaluation import (
    alignment_error_rate,
    drawing,
    links,
    symmetrisation,
    unknown_words,
)
from fairseq_rnnsearch.alignment.evaluation.subcommands import run_one_of
from fairseq_rnnsearch.command_line import program
from fairseq_rnnsearch.errors import UsageError

COMMANDS = {
    "alignments": (drawing.draw_alignments, drawing.add_alignment_options, None),
    "aer": (alignment_error_rate.run, alignment_error_rate.add_options, links.__doc__),
    "symmetrise": (symmetrisation.run, symmetrisation.add_options, links.__doc__),
    "dictionary": (unknown_words.learn, unknown_words.add_learning_options, None),
    "replace-unk": (unknown_words.replace, unknown_words.add_replacing_options, None),
    "no-unk": (unknown_words.write_subset, unknown_words.add_subset_options, None),
}
# commands of `python recipes/reporting`
ELSEWHERE = ("report", "bleu", "training", "lengths", "examples")


@program
def main(argv: Sequence[str] | None = None) -> None:
    """Run one of the commands, as the program `rnnsearch-evaluate` does.

    Args:
        argv: the command and its options; without them, those of the program.

    Raises:
        UserError: for every mistake in options or files; shown as one line when nobody catches it.
    """
    given = sys.argv[1:] if argv is None else argv
    if given and given[0] in ELSEWHERE:
        raise UsageError(
            f"{given[0]} is a command of the recipes: python recipes/reporting {given[0]} ..., in "
            "a checkout"
        )
    run_one_of(COMMANDS, "rnnsearch-evaluate", "Links between words, and unknown words.", argv)


if __name__ == "__main__":
    main()
