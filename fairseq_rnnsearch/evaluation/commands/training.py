"""`training`: the paper's Table 2, from the logs of fairseq-train."""

import argparse

from fairseq_rnnsearch.evaluation import training_log
from fairseq_rnnsearch.evaluation.commands import options as shared
from fairseq_rnnsearch.evaluation.results import table_2, training_remarks
from fairseq_rnnsearch.evaluation.tables import markdown


def add(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "training",
        help="updates, epochs, hours, device and likelihoods of trainings (Table 2)",
        description=training_log.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    shared.add_logs(parser, required=True)
    shared.add_paper(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    trainings = shared.read_logs(options)
    print(markdown(table_2(trainings, shared.beside(options, list(trainings)))))
    for remark in training_remarks(trainings):
        print(f"\n{remark}")
