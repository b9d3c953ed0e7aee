"""A gradient that is not finite, where fairseq's trainer stops."""

import functools
import logging

from fairseq.trainer import Trainer

from fairseq_rnnsearch.errors import UserError


def stop_in_one_line_for_a_nonfinite_gradient() -> None:
    """Name the sentences instead of showing a traceback; fairseq has saved crash.pt by then."""
    # it prints all gradients, and has not found what is wrong any better
    logging.getLogger("fairseq.nan_detector").setLevel(logging.WARNING)
    train_step = Trainer.train_step

    @functools.wraps(train_step)
    def train_step_or_explain(self, samples, *args, **kwargs) -> dict | None:
        try:
            return train_step(self, samples, *args, **kwargs)
        except FloatingPointError as problem:
            record = getattr(self.task, "update_record", None)
            why = f" ({record.explain()})" if record else ""
            raise UserError(
                f"update {self.get_num_updates() + 1}: {' '.join(str(problem).split())[:300]}{why};"
                " the checkpoints are as they were, and crash.pt beside them has the model: lower "
                "--lr or --clip-norm, or train with --optimizer rnnsearch_adadelta --nonfinite skip"
            ) from problem

    Trainer.train_step = train_step_or_explain
