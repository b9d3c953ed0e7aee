"""Trainings in the test's own process, for what needs no command line.

It is the main function of fairseq-train, with the package's patches. A command takes longer to
compose its options than such a training to make some updates.
"""

import signal
from pathlib import Path

from fairseq.dataclass.configs import FairseqConfig
from fairseq.dataclass.initialize import add_defaults
from fairseq_cli import train
from models import SIZES
from omegaconf import DictConfig, OmegaConf

import fairseq_rnnsearch  # noqa: F401  (registers its parts)
from fairseq_rnnsearch.runs import patches

PARTS = {
    "task": "alignment_heatmap",
    "model": "rnnsearch_tiny",
    "criterion": "alignment_heatmap",
    "optimizer": "adam",
    "lr_scheduler": "fixed",
}
DEFAULTS = dict(
    **SIZES, source_lang="en", target_lang="fr", cpu=True, no_progress_bar=True,
    distributed_world_size=1, num_workers=0, batch_size=20, clip_norm=1.0, lr=[0.01], seed=5,
    heatmap_samples=0, save_interval_updates=2,
)  # fmt: skip


def configuration(data: Path, folder: Path, **options: object) -> DictConfig:
    """Return fairseq-train's configuration.

    Args:
        options: the names of parts (task, model, criterion, optimizer, lr_scheduler), and any
            option in the group that has it.
    """
    cfg = OmegaConf.structured(FairseqConfig())
    for part, name in PARTS.items():
        cfg[part] = {"_name": options.pop(part, name)}
    add_defaults(cfg)
    for name, value in (DEFAULTS | {"data": str(data), "save_dir": str(folder)} | options).items():
        groups = [group for group in cfg.values() if OmegaConf.is_dict(group) and name in group]
        assert groups or name in DEFAULTS, name
        for group in groups:
            if not OmegaConf.is_interpolation(group, name):
                group[name] = value
    return cfg


def train_here(data: Path, folder: Path, **options: object) -> None:
    """Train; see `configuration`."""
    patches.patch_fairseq()
    handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
    try:
        train.main(configuration(data, folder, **options))
    finally:
        for number, handler in handlers.items():
            if signal.getsignal(number) is not handler:
                signal.signal(number, handler)
