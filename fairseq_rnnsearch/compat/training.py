"""Mends of fairseq's training program, made when a training begins."""

import functools
import sys

from fairseq import checkpoint_utils

from fairseq_rnnsearch.compat.processes import naming_lost_processes
from fairseq_rnnsearch.compat.resuming import let_finished_runs_stay_finished
from fairseq_rnnsearch.compat.signals import let_signals_stop_training


def mend_training_when_it_begins() -> None:
    """Mend ``fairseq_cli.train`` once it loads its checkpoint.

    A program that imports this package first has not loaded that module yet, and one that trains
    in another way keeps its own signals.
    """
    load, requests = checkpoint_utils.load_checkpoint, []

    @functools.wraps(load)
    def mend_and_load(cfg, trainer, **iterator_options) -> tuple:
        program = sys.modules.get("fairseq_cli.train")
        if program is not None and not requests:
            let_finished_runs_stay_finished(program)
            # for those that fairseq starts; others are named from their beginning
            program.train = naming_lost_processes(program.train)
            requests.append(let_signals_stop_training(program))
        loaded = load(cfg, trainer, **iterator_options)
        for request in requests:
            request.listen()
        return loaded

    checkpoint_utils.load_checkpoint = mend_and_load
