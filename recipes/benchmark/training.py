"""What is measured: models that are trained, each as its command would."""

from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.logging import metrics
from sizes import Size, dictionary, sample

import fairseq_rnnsearch.plugin.adadelta
import fairseq_rnnsearch.plugin.criterion
import fairseq_rnnsearch.plugin.model
import fairseq_rnnsearch.plugin.task  # each registers a part with fairseq
from fairseq_rnnsearch.runs.trainer import ResumableTrainer

OURS = (
    "--task alignment_heatmap --heatmap-samples 0 --arch rnnsearch_50 --criterion alignment_heatmap"
    " --optimizer rnnsearch_adadelta --encoder-embed-dim {m} --decoder-embed-dim {m}"
    " --encoder-hidden-size {n} --decoder-hidden-size {n} --attention-size {attention}"
    " --maxout-size {l}"
)
COMMANDS = {
    "reference": f"{OURS} --kernels reference",
    "fast": f"{OURS} --kernels fast",
    "bfloat16": f"{OURS} --kernels fast --compute-dtype bfloat16",
    # It has one layer, is bidirectional, attends, and has the cheapest optimizer that there is.
    "lstm": (
        "--task translation --arch lstm --criterion cross_entropy --optimizer sgd --dropout 0"
        " --encoder-embed-dim {m} --decoder-embed-dim {m} --encoder-hidden-size {n}"
        " --decoder-hidden-size {n} --decoder-out-embed-dim {l} --encoder-bidirectional"
        " --decoder-attention 1 --lr 0.1"
    ),
}


class Training:
    """Does with one batch: its cost, its gradients, an update, or the optimizer's part of it."""

    def __init__(self, name: str, size: Size) -> None:
        torch.manual_seed(0)
        words = dictionary(size)
        with TemporaryDirectory() as folder:
            for language in ("xx", "yy"):
                words.save(str(Path(folder) / f"dict.{language}.txt"))
            cfg = _configuration(f"{folder} {COMMANDS[name].format(**size._asdict())}")
            task = tasks.setup_task(cfg.task)
        self.model = task.build_model(cfg.model)
        self.criterion = task.build_criterion(cfg.criterion)
        self.trainer = ResumableTrainer(cfg, task, self.model, self.criterion)
        self.sample = sample(size, words)
        self.parameters = sum(p.numel() for p in self.model.parameters())

    def run(self, what: str) -> None:
        if what == "update":
            with metrics.aggregate(new_root=True):
                self.trainer.train_step([self.sample])
        elif what == "optimizer":
            if next(self.model.parameters()).grad is None:
                self._run_model("forward+backward")
            self.trainer.clip_grad_norm(1.0)
            self.trainer.optimizer.step()
        else:
            self._run_model(what)

    def _run_model(self, what: str) -> None:
        self.model.train()
        self.trainer.zero_grad()
        with torch.set_grad_enabled(what != "forward"):
            cost = self.criterion(self.model, self.sample)[0]
        if what != "forward":
            cost.backward()


def _configuration(command: str) -> object:
    """Return the configuration that fairseq-train makes of its options."""
    user_dir = str(Path(fairseq_rnnsearch.__file__).parent)
    always = ["--user-dir", user_dir, *"--cpu --clip-norm 1 --batch-size 80 -s xx -t yy".split()]
    parser = options.get_training_parser()
    args = options.parse_args_and_arch(parser, [*command.split(), *always])
    return convert_namespace_to_omegaconf(args)
