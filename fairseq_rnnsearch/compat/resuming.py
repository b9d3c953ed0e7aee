"""What an interrupted training run must find again."""

import functools
import sys

from fairseq import checkpoint_utils
from fairseq.trainer import Trainer


def let_patience_survive_a_resume() -> None:
    """Keep --patience's count in the checkpoint; fairseq begins anew whenever it is resumed."""
    save, load = Trainer.save_checkpoint, checkpoint_utils.load_checkpoint
    if getattr(load, "restores_patience", False):
        return

    def counter() -> dict | None:
        """fairseq keeps the count as attributes of a function."""
        program = sys.modules.get("fairseq_cli.train")
        return vars(program.should_stop_early) if program else None

    @functools.wraps(save)
    def save_with_count(self, filename, extra_state) -> None:
        return save(self, filename, {**extra_state, "patience": dict(counter() or {})})

    @functools.wraps(load)
    def load_with_count(cfg, trainer, **iterator_options) -> tuple:
        extra_state, iterator = load(cfg, trainer, **iterator_options)
        count = (extra_state or {}).get("patience", {})
        if counter() is not None and not (cfg.reset_meters or cfg.reset_optimizer):
            counter().update({name: count[name] for name in ("best", "num_runs") if name in count})
        return extra_state, iterator

    load_with_count.restores_patience = True
    Trainer.save_checkpoint, checkpoint_utils.load_checkpoint = save_with_count, load_with_count
