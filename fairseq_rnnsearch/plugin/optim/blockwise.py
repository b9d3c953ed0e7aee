"""torch's Adadelta, computed block by block on a CPU, for all parameters together elsewhere.

torch's own makes two copies of every parameter and reads memory for each of ten operations. On a
CPU, a block's intermediate results stay in the cache. On a GPU, each operation is a few launches
for all parameters, and an update can be skipped without asking the device. The operations and
their order are the same; checkpoints of either continue with the other.
"""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from fairseq_rnnsearch.devices import runs_triton

# numbers: six such blocks of float32 take 12 MB of the shared cache; with smaller ones the cores
# wait for each other more often
BLOCK = 2**19


class BlockwiseAdadelta(torch.optim.Adadelta):
    """Adadelta for real parameters; torch's own if one is not contiguous on a CPU.

    Attributes:
        sound: on a GPU, whether to make the next update, as a boolean tensor there; None: yes.
        factor: the next update's factor for gradients, if it ``takes_factor``; None: 1.
    """

    sound: Tensor | None = None
    factor: Tensor | None = None

    @property
    def takes_factor(self) -> bool:
        """Whether an update can clip gradients while reading them, as it reads them once."""
        return all(runs_triton(p) for group in self.param_groups for p in group["params"])

    @torch.no_grad()
    def step(self, closure: Callable | None = None) -> Tensor | float | None:
        """Make one update."""
        parameters = [p for group in self.param_groups for p in group["params"]]
        on_cpu = any(p.device.type == "cpu" for p in parameters)
        plain = all(_is_plain(p) and (p.grad is None or _is_plain(p.grad)) for p in parameters)
        if on_cpu and not plain:
            return super().step(closure)
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            learning = [p for p in group["params"] if p.grad is not None]
            if not on_cpu:
                self._update_together(learning, group)
                continue
            for parameter in learning:
                self._update(parameter, group)
        return loss

    def _state_of(self, parameter: Tensor) -> tuple[Tensor, Tensor]:
        """Return E[g^2] and E[D^2] before an update."""
        state = self.state[parameter]
        if not state:
            state["step"] = torch.zeros(())
            state["square_avg"], state["acc_delta"] = (torch.zeros_like(parameter) for _ in "gd")
        state["step"] += 1
        return state["square_avg"], state["acc_delta"]

    def _update_together(self, parameters: Sequence[Tensor], group: dict) -> None:
        if not parameters:
            return
        rho, eps = group["rho"], group["eps"]
        gradients = [parameter.grad for parameter in parameters]
        square_avgs, acc_deltas = zip(*map(self._state_of, parameters), strict=True)
        if runs_triton(parameters[0]):
            from fairseq_rnnsearch.plugin.optim import fused_adadelta

            sound = None if self.sound is None else self.sound.int()
            for tensors in zip(parameters, gradients, square_avgs, acc_deltas, strict=True):
                fused_adadelta.update(*tensors, sound, self.factor, group)
            return
        if decay := group["weight_decay"]:
            gradients = torch._foreach_add(gradients, parameters, alpha=decay)
        if self.sound is not None:
            gradients = [torch.where(self.sound, gradient, 0.0) for gradient in gradients]
        old_share = (
            rho if self.sound is None else torch.where(self.sound, rho, 1.0).to(parameters[0])
        )
        torch._foreach_mul_(square_avgs, old_share)
        torch._foreach_addcmul_(square_avgs, gradients, gradients, value=1 - rho)
        roots, deltas = (torch._foreach_add(x, eps) for x in (square_avgs, acc_deltas))
        torch._foreach_sqrt_(roots)
        torch._foreach_sqrt_(deltas)
        torch._foreach_div_(deltas, roots)
        torch._foreach_mul_(deltas, gradients)
        torch._foreach_mul_(acc_deltas, old_share)
        torch._foreach_addcmul_(acc_deltas, deltas, deltas, value=1 - rho)
        torch._foreach_add_(parameters, deltas, alpha=-float(group["lr"]))

    def _update(self, parameter: Tensor, group: dict) -> None:
        rho, eps, decay = group["rho"], group["eps"], group["weight_decay"]
        tensors = (parameter, parameter.grad, *self._state_of(parameter))
        root, delta = parameter.new_empty(2, min(BLOCK, parameter.numel()))
        for p, g, square_avg, acc_delta in _blocks(*tensors):
            r, d = root[: len(p)], delta[: len(p)]
            if decay:
                g = g.add(p, alpha=decay)
            square_avg.mul_(rho).addcmul_(g, g, value=1 - rho)
            torch.add(square_avg, eps, out=r).sqrt_()
            torch.add(acc_delta, eps, out=d).sqrt_()
            d.div_(r).mul_(g)
            acc_delta.mul_(rho).addcmul_(d, d, value=1 - rho)
            p.add_(d, alpha=-float(group["lr"]))


def _is_plain(tensor: Tensor) -> bool:
    return tensor.device.type == "cpu" and tensor.is_floating_point() and tensor.is_contiguous()


def _blocks(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    yield from zip(*(tensor.detach().view(-1).split(BLOCK) for tensor in tensors), strict=True)
