"""torch's Adadelta a block of numbers at a time: what it computes on the way stays in the cache.

torch's own makes two copies of every parameter and goes through memory for each of ten operations.
The operations and their order are the same here; a checkpoint of one goes on with the other.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

# numbers: six such blocks of float32 are 12 MB, for the cache that cores share; in smaller ones the
# cores wait for each other more often
BLOCK = 2**19


class BlockwiseAdadelta(torch.optim.Adadelta):
    """Elsewhere than on a CPU, torch's own."""

    @torch.no_grad()
    def step(self, closure: Callable | None = None) -> Tensor | float | None:
        """Make one update."""
        parameters = [p for group in self.param_groups for p in group["params"]]
        if not all(_is_plain(p) and (p.grad is None or _is_plain(p.grad)) for p in parameters):
            return super().step(closure)
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, group)
        return loss

    def _update(self, parameter: Tensor, group: dict) -> None:
        state = self.state[parameter]
        if not state:
            state["step"] = torch.zeros(())
            state["square_avg"], state["acc_delta"] = (torch.zeros_like(parameter) for _ in "gd")
        state["step"] += 1
        rho, eps, decay = group["rho"], group["eps"], group["weight_decay"]
        tensors = (parameter, parameter.grad, state["square_avg"], state["acc_delta"])
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
