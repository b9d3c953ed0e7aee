"""`bleu`: the paper's Table 1, with intervals and differences, for any systems' translations."""

import argparse

from fairseq_rnnsearch.evaluation import bleu
from fairseq_rnnsearch.evaluation.commands import options as shared
from fairseq_rnnsearch.evaluation.results import (
    WHAT_P_COMPARES,
    differences,
    remark_on_unk,
    score_sets,
    table_1,
)
from fairseq_rnnsearch.evaluation.tables import markdown


def add(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "bleu",
        help="BLEU of translations with paired bootstrap intervals (Table 1)",
        description=bleu.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    shared.add_texts(parser)
    shared.add_dictionaries(parser)
    shared.add_bootstrap(parser)
    shared.add_paper(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    test, systems = shared.read_texts(options)
    bootstrap = shared.bootstrap(options, systems)
    beside = shared.beside(options, [system.name for system in systems])
    parts = []
    for kind in bleu.TOKENISERS:
        sets = score_sets(test, systems, kind, bootstrap)
        if sets is not None:
            tables = (
                table_1(sets, kind, systems, beside),
                differences(sets, kind, systems, bootstrap.baseline),
            )
            parts += [markdown(table) for table in tables if table is not None]
            parts += [remark_on_unk(sets, systems), sets["All"].signature]
    if len(systems) > 1:
        parts.append(WHAT_P_COMPARES)
    print("\n\n".join(part for part in parts if part))
