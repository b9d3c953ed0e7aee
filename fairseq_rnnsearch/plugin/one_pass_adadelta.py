"""torch's Adadelta in one pass over memory: in C on a CPU, in Triton on a GPU.

torch's own copies every parameter twice and reads memory for each of ten operations. It does the
work where there is neither a compiler nor Triton, and on what is not contiguous or of several
types. The equations are the same, and checkpoints of either continue with the other.
"""

import ctypes
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from fairseq_rnnsearch.engine.c_library import INTEGER, POINTER, REAL
from fairseq_rnnsearch.kernels.c_functions import Functions
from fairseq_rnnsearch.kernels.devices import runs_triton

AVERAGES = ("square_avg", "acc_delta")  # torch's names of E[g^2] and E[D^2]
FUNCTIONS = Functions(Path(__file__).with_name("adadelta.c"), {
    "sum_of_squares": (*2 * (INTEGER,), *2 * (POINTER,)),
    "update": (*2 * (INTEGER,), *4 * (POINTER,), *5 * (REAL,)),
})  # fmt: skip


class OnePassAdadelta(torch.optim.Adadelta):
    """Adadelta that clips gradients while it reads them.

    Attributes:
        factor: what the next update multiplies gradients by; None: 1.
        sound: whether to make the next update; None: yes. If ``runs_triton``, it may be a boolean
            tensor on the device.
    """

    factor: Tensor | None = None
    sound: Tensor | bool | None = None

    @property
    def runs_triton(self) -> bool:
        """Whether an update is made by Triton, which can skip it without asking the device."""
        parameters = [p for group in self.param_groups for p in group["params"]]
        return all(map(runs_triton, parameters)) and self._takes(parameters)

    @torch.no_grad()
    def step(self, closure: Callable | None = None) -> Tensor | float | None:
        """Make one update; a closure first computes the cost, which is returned, and gradients."""
        cost = None if closure is None else torch.enable_grad()(closure)()
        parameters = [p for group in self.param_groups for p in group["params"]]
        learning = [p for p in parameters if p.grad is not None]
        if learning and self.sound is not False:
            self._update(learning)
        self.factor = self.sound = None
        return cost

    def _update(self, learning: Sequence[Tensor]) -> None:
        if self.runs_triton:
            from fairseq_rnnsearch.plugin import fused_adadelta

            sound = None if self.sound is None else self.sound.int()
            update = partial(fused_adadelta.update, sound=sound, factor=self.factor)
        elif self._takes(learning) and (functions := FUNCTIONS.library_for(*learning)):
            factor = 1.0 if self.factor is None else self.factor.item()
            update = partial(_update, functions=functions, factor=factor)
        else:
            if self.factor is not None:
                torch._foreach_mul_(gradients_of(learning), self.factor)
            super().step()
            return
        for group in self.param_groups:
            update(
                [(p, p.grad, *self._averages_of(p)) for p in group["params"] if p.grad is not None],
                group,
            )
        for parameter in learning:  # autograd cannot see what C and Triton write
            torch.autograd.graph.increment_version(parameter)
        torch._foreach_add_([self.state[parameter]["step"] for parameter in learning], 1)

    def _takes(self, parameters: Sequence[Tensor]) -> bool:
        """Tell whether one pass can update them: an update's four tensors are dense and alike."""
        for parameter in parameters:
            state = self.state.get(parameter, {})  # another program may have stored it
            own = [state.get(name, parameter) for name in AVERAGES]
            own += [parameter, *gradients_of([parameter])]
            if not all(
                x.layout is torch.strided
                and x.is_contiguous()
                and (x.shape, x.dtype) == (parameter.shape, parameter.dtype)
                for x in own
            ):
                return False
        return not any(group["maximize"] for group in self.param_groups)

    def _averages_of(self, parameter: Tensor) -> tuple[Tensor, Tensor]:
        """Return E[g^2] and E[D^2], zero before the first update."""
        state = self.state[parameter]
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32)
            state |= {name: torch.zeros_like(parameter) for name in AVERAGES}
        return tuple(state[name] for name in AVERAGES)


def gradients_of(parameters: Sequence[Tensor]) -> list[Tensor]:
    """Return the gradients of those that have one."""
    return [parameter.grad for parameter in parameters if parameter.grad is not None]


def norm_of(gradients: Sequence[Tensor]) -> Tensor:
    """Return the norm of all gradients together, ``()``, in float32 at least."""
    dtype = torch.promote_types(gradients[0].dtype, torch.float32)
    if functions := FUNCTIONS.library_for(*gradients):
        squares = torch.empty(len(gradients), dtype=torch.float64, device="cpu")
        for gradient, square in zip(gradients, squares, strict=True):
            functions.sum_of_squares(
                *(torch.get_num_threads(), gradient.numel()),
                *(gradient.data_ptr(), square.data_ptr()),
            )
        return squares.sum().sqrt().to(dtype)
    if all(map(runs_triton, gradients)) and {gradient.dtype for gradient in gradients} == {dtype}:
        from fairseq_rnnsearch.plugin import fused_adadelta

        return fused_adadelta.norm_of([gradient.contiguous() for gradient in gradients])
    norms = torch._foreach_norm(gradients, 2, dtype=dtype)
    return torch.linalg.vector_norm(torch.stack(norms))


def _update(
    rows: Sequence[Sequence[Tensor]], group: dict, functions: ctypes.CDLL, factor: float
) -> None:
    for tensors in rows:
        functions.update(
            *(torch.get_num_threads(), tensors[0].numel()),
            *(tensor.data_ptr() for tensor in tensors),
            *(group["rho"], group["eps"], group["weight_decay"], float(group["lr"]), factor),
        )
