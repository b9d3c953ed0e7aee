"""Adadelta as the authors ran it (appendix B.2; Zeiler 2012).

    E[g^2] <- rho E[g^2] + (1 - rho) g^2
    D = sqrt(E[D^2] + eps) / sqrt(E[g^2] + eps) g
    E[D^2] <- rho E[D^2] + (1 - rho) D^2
    parameter <- parameter - step D

g is the gradient after clipping, both averages start at zero, and step is 1: Adadelta has no
learning rate. fairseq's own ``adadelta`` lets ``--lr``, 0.25 by default, scale the update.
"""

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import List

import torch
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.logging import metrics
from fairseq.optim import FairseqOptimizer, register_optimizer
from omegaconf import II
from torch import Tensor

from fairseq_rnnsearch.errors import UserError, pluralize
from fairseq_rnnsearch.kernels.devices import CopiedNumbers
from fairseq_rnnsearch.plugin.one_pass_adadelta import OnePassAdadelta, gradients_of, norm_of
from fairseq_rnnsearch.runs.checkpoint import OwnFields
from fairseq_rnnsearch.runs.patches import PatchesFairseq

logger = logging.getLogger(__name__)


@dataclass
class RNNSearchAdadeltaConfig(FairseqDataclass):
    """The defaults are the paper's."""

    adadelta_rho: float = field(
        default=0.95, metadata={"help": "decay rho of both running averages (paper: 0.95)"}
    )
    adadelta_eps: float = field(
        default=1e-6, metadata={"help": "epsilon inside both roots (paper: 1e-6)"}
    )
    adadelta_step: float = field(
        default=1.0,
        metadata={"help": "factor for every update (paper: 1); schedulers scale it by lr / initial "
                  "lr; the value of --lr itself has no effect"},
    )  # fmt: skip
    weight_decay: float = field(default=0.0, metadata={"help": "weight decay (paper: none)"})
    nonfinite: ChoiceEnum(["skip", "shrink", "raise"]) = field(
        default="skip",
        metadata={"help": "if the gradient norm is not finite: skip the update, use 0.1 x the "
                  "parameter as the gradient (the authors' program), or stop"},
    )  # fmt: skip
    nonfinite_limit: int = field(
        default=20,
        metadata={"help": "stop after this many non-finite gradients in a row; the checkpoints "
                  "stay as they are (0: never)"},
    )  # fmt: skip
    lr: List[float] = II("optimization.lr")


@register_optimizer("rnnsearch_adadelta", dataclass=RNNSearchAdadeltaConfig)
class RNNSearchAdadelta(PatchesFairseq, FairseqOptimizer):
    """``torch.optim.Adadelta`` with the authors' step, clipping and overflow handling.

    Clipping leaves gradients as they are: the update multiplies them while it reads them.

    On a GPU with Triton and ``--nonfinite skip`` or ``shrink``, the program does not wait for the
    norm: the device itself skips the update, or uses a tenth of the parameters as the gradient. The
    program reads the norm before the next update, so it logs the same, and stops at the same
    update, as on a CPU.
    """

    def __init__(self, cfg: RNNSearchAdadeltaConfig, params) -> None:
        super().__init__(cfg)
        self._initial_lr = cfg.lr[0]
        # the last gradient norm, if it is still on the GPU, and the callback that explains it
        self._unread_norm: tuple[CopiedNumbers, Callable[[], str]] | None = None
        self._nonfinite_updates = self._nonfinite_in_a_row = 0
        self.begin_update(lambda: "sentences unknown")
        self._optimizer = OnePassAdadelta(params, **self.optimizer_config)

    def begin_update(self, explain: Callable[[], str]) -> None:
        """See ``runs.trainer.NonfiniteHandler``."""
        self._explain = explain

    @property
    def optimizer_config(self) -> dict:
        """The values that override the options stored in a checkpoint."""
        return {
            "lr": self.cfg.adadelta_step,
            "rho": self.cfg.adadelta_rho,
            "eps": self.cfg.adadelta_eps,
            "weight_decay": self.cfg.weight_decay,
        }

    @property
    def supports_flat_params(self) -> bool:
        return True

    def get_lr(self) -> float:
        """Return fairseq's learning rate, which has an effect only through a scheduler."""
        return super().get_lr() / self.cfg.adadelta_step * self._initial_lr

    def set_lr(self, lr: float) -> None:
        """Scale the step by lr / initial lr."""
        super().set_lr(self.cfg.adadelta_step * (lr / self._initial_lr))

    def multiply_grads(self, c: Tensor | float) -> None:
        """Multiply as fairseq does, but do nothing for a factor of 1."""
        if isinstance(c, Tensor) or c != 1:
            super().multiply_grads(c)

    def clip_grad_norm(
        self, max_norm: float, aggregate_norm_fn: Callable[[Tensor], Tensor] | None = None
    ) -> Tensor:
        """Clip the next update's gradients, and decide what happens if the norm is not finite.

        fairseq's own trainer ends training at such a norm; ``runs.trainer`` asks
        ``handles_nonfinite``.

        Args:
            max_norm: the largest norm to allow; 0 does not clip.
            aggregate_norm_fn: combines the norms of several processes' shards.

        Returns:
            The norm before clipping.

        Raises:
            UserError: after ``--nonfinite-limit`` such norms in a row.
        """
        self.check_last_norm()
        gradients = gradients_of(self.params)
        norm = norm_of(gradients) if gradients else torch.tensor(0.0)
        if aggregate_norm_fn is not None:
            norm = aggregate_norm_fn(norm)
        # fairseq's own adds 1e-6 to the norm
        self._optimizer.factor = (max_norm / norm).clamp(max=1.0) if max_norm > 0 else None
        self._optimizer.sound = None
        if not self.handles_nonfinite():
            return norm
        if self._optimizer.runs_triton:
            self._handle_on_the_device(norm)
        elif torch.isfinite(norm):
            self._nonfinite_in_a_row = 0
        else:
            self._report(norm, self._explain)
            if self.cfg.nonfinite == "skip":
                self._optimizer.sound = False
            else:
                self._optimizer.factor = None
                for parameter in self.params:
                    parameter.grad = 0.1 * parameter.detach()
        return norm

    def _handle_on_the_device(self, norm: Tensor) -> None:
        """Let the device handle a non-finite norm, without asking whether it is one."""
        is_finite = norm < math.inf  # one launch, where isfinite is four
        if self.cfg.nonfinite == "skip":
            self._optimizer.sound = is_finite
        else:
            if (factor := self._optimizer.factor) is not None:
                self._optimizer.factor = torch.where(is_finite, factor, 1.0)
            for parameter in self.params:
                gradient = 0.0 if parameter.grad is None else parameter.grad
                parameter.grad = torch.where(is_finite, gradient, 0.1 * parameter.detach())
        self._unread_norm = CopiedNumbers(norm), self._explain

    def handles_nonfinite(self) -> bool:
        """See ``runs.trainer.NonfiniteHandler``."""
        return self.cfg.nonfinite != "raise"

    def check_last_norm(self) -> None:
        """See ``runs.trainer.NonfiniteHandler``."""
        if self._unread_norm is None:
            return
        (norm, explain), self._unread_norm = self._unread_norm, None
        norm = norm.read()
        if torch.isfinite(norm):
            self._nonfinite_in_a_row = 0
        else:
            self._report(norm, explain)

    def state_dict(self) -> dict:
        """Return fairseq's state and the counts, after checking that all updates were sound."""
        self.check_last_norm()
        counts = self._nonfinite_updates, self._nonfinite_in_a_row
        return super().state_dict() | OwnFields(nonfinite=counts).written()

    def load_state_dict(
        self, state_dict: dict, optimizer_overrides: dict[str, object] | None = None
    ) -> None:
        """Load as fairseq does, and go on counting; older checkpoints have no counts."""
        super().load_state_dict(state_dict, optimizer_overrides)
        counts = OwnFields.of(state_dict).nonfinite or (0, 0)
        self._nonfinite_updates, self._nonfinite_in_a_row = counts

    def _report(self, norm: Tensor, explain: Callable[[], str]) -> None:
        """Log why a norm is not finite, or end training after too many in a row."""
        self._nonfinite_updates += 1
        self._nonfinite_in_a_row += 1
        why = explain()
        if self.cfg.nonfinite_limit and self._nonfinite_in_a_row >= self.cfg.nonfinite_limit:
            raise UserError(
                f"{pluralize(self._nonfinite_in_a_row, 'update')} in a row had a gradient that is"
                f" not finite (--nonfinite-limit {self.cfg.nonfinite_limit}), the last because"
                f" {why}; the checkpoints are as they were: go on from one with --restore-file,"
                " with a smaller --adadelta-step or --clip-norm, or without those sentences"
            )
        skips = self.cfg.nonfinite == "skip"
        logger.warning(
            "gradient norm is %s: %s; %s (--nonfinite %s; %d so far)",
            norm.item(),
            why,
            "update skipped" if skips else "0.1 x parameter used as the gradient",
            self.cfg.nonfinite,
            self._nonfinite_updates,
        )
        metrics.log_scalar("nonfinite", self._nonfinite_updates, weight=0, priority=600)
