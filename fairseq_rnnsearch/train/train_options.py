"""The options of fairseq-train that a training's settings become."""

from collections.abc import Sequence
from pathlib import Path

from fairseq_rnnsearch.train.settings import Settings, as_argument


def for_settings(
    s: Settings, folders: Sequence[Path], save_dir: Path, epochs: int = 0, rdrop: float = 0
) -> list[object]:
    """Return the options for a training with these settings.

    Args:
        folders: what each epoch reads, one after the other.
        epochs: the number of epochs after which it ends; 0: after all updates.
        rdrop: the weight of R-Drop.
    """
    return [
        ":".join(map(str, folders)),
        "--arch", f"{s.model}_50", "--decoder-order", s.decoder_order,
        "--encoder-embed-dim", s.embedding, "--decoder-embed-dim", s.embedding,
        "--encoder-hidden-size", s.hidden, "--decoder-hidden-size", s.hidden,
        "--attention-size", s.attention, "--maxout-size", s.maxout,
        "--initialization", s.initialization, "--dropout", as_argument(s.dropout),
        "--max-train-words", s.longest,
        "--criterion", "alignment_heatmap", "--label-smoothing", as_argument(s.label_smoothing),
        *_optimization(s), "--clip-norm", as_argument(s.clip_norm),
        "--batch-size", s.batch_size, "--batch-order", s.batch_order,
        "--max-update", s.updates, "--patience", s.patience, "--seed", s.seed,
        "--num-workers", 0,
        "--save-dir", save_dir, "--no-epoch-checkpoints",
        "--keep-best-checkpoints", s.average, *_judgement(s),
        "--log-format", "simple", "--log-interval", 50, *s.train_options.split(),
        *(("--max-epoch", epochs) if epochs else ()),
        *(("--rdrop-alpha", rdrop) if rdrop else ()),
    ]  # fmt: skip


def _optimization(s: Settings) -> list[object]:
    if s.optimizer == "adadelta":
        return ["--cost-scale", "sum", "--optimizer", "rnnsearch_adadelta"]
    options: list[object] = ["--cost-scale", "word", "--optimizer", "adam"]
    options += ["--lr", as_argument(s.learning_rate)]
    options += ["--lr-scheduler", s.lr_scheduler, "--warmup-updates", s.warmup]
    if s.lr_scheduler == "polynomial_decay":
        options += ["--total-num-update", s.updates, "--end-learning-rate", "0.00001"]
    return options


def _judgement(s: Settings) -> list[str]:
    if not s.valid_bleu:
        return ["--best-checkpoint-metric", "nll_loss"]
    options = ["--best-checkpoint-metric", "bleu", "--maximize-best-checkpoint-metric"]
    options += ["--eval-bleu", "--eval-bleu-args", '{"beam": 1}']
    if s.vocabulary == "bpe":
        options.append("--eval-bleu-remove-bpe")
    return options
