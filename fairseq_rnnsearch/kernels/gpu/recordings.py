"""Costs and their gradients that are recorded once and launched as a whole: CUDA graphs.

Launching an update's thousand small operations one by one takes a program longer than they take
the GPU. A recording is valid for one shape and for the memory that it was made with. So lengths
are rounded up to a multiple of ``STEP``, words are copied into the recording's tensors before a
launch, and its results are read before the next launch. Gradients are not copied: a parameter's
lies in the recording's memory, and is moved away if it is still there at the next launch. A shape
is recorded when it comes a second time, if there is room; others run step by step, with the same
result.
"""

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.func import functional_call

from fairseq_rnnsearch.kernels.derived import first_order

STEP = 8  # positions: a batch of 30 words is computed as one of 32

Cost = tuple[Tensor, Tensor, Tensor | None]  # cost, -log p, alignment weights
CostFunction = Callable[..., Cost]
Gradients = tuple[Tensor, ...]


class CudaRecording:
    """CUDA graphs of a cost and of its gradients.

    Args:
        cost: computes it, and what else a batch's cost returns.
        gradients: takes the cost and its own gradient.
        pool: of ``memory``; recordings that share it may not run at the same time.

    Attributes:
        returned, gradients: where results lie.
    """

    def __init__(
        self,
        cost: Callable[[], Cost],
        gradients: Callable[[Tensor, Tensor], Gradients],
        pool: tuple[int, int],
    ) -> None:
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):  # libraries allocate memory at their first call
            for _ in range(2):
                total, *_ = cost()
                self._d_cost = torch.ones_like(total)
                gradients(total, self._d_cost)
                del total  # and autograd's nodes, which remember this stream
        torch.cuda.current_stream().wait_stream(aside)
        self._cost, self._gradients = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        # the backward pass has its own thread, beside those that load data
        recorded = partial(torch.cuda.graph, pool=pool, capture_error_mode="thread_local")
        with recorded(self._cost):
            total, *others = cost()
        with recorded(self._gradients):
            self.gradients = gradients(total, self._d_cost)
        self.returned = total.detach(), *others

    @staticmethod
    def memory() -> tuple[int, int]:
        """Return memory for recordings, which lives as long as they do."""
        return torch.cuda.graph_pool_handle()

    @staticmethod
    def has_room() -> bool:
        """Tell whether another one fits; a quarter of the GPU's memory is for the batches."""
        free, whole = torch.cuda.mem_get_info()
        return free > whole / 4

    def launch(self) -> None:
        """Recompute ``returned`` from the current contents of the function's tensors."""
        self._cost.replay()

    def launch_gradients(self, d_cost: Tensor) -> None:
        """Recompute ``gradients``, once for each ``launch``."""
        self._d_cost.copy_(d_cost)
        self._gradients.replay()


class _OfModel:
    """The recordings of a model, one for each shape.

    Attributes:
        places: where its parameters lie; recordings know no others.
        launches: how often one was launched.
        lent: where gradients lie that parameters may have taken over.
    """

    def __init__(self, places: tuple[int, ...], pool: tuple[int, int]) -> None:
        self.places, self.pool = places, pool
        self.launches = 0
        self.lent: set[int] = set()
        self.seen: set[Hashable] = set()
        self.made: dict[Hashable, tuple[list[Tensor], CudaRecording]] = {}


class Recordings:
    """All recordings.

    Args:
        record: the class that makes one.
        kind: the device type that can record.
    """

    def __init__(self, record: type[CudaRecording], kind: str = "cuda") -> None:
        self._record, self._kind = record, kind
        self._of_models: WeakKeyDictionary[nn.Module, _OfModel] = WeakKeyDictionary()

    def cost(
        self,
        function: CostFunction,
        model: nn.Module,
        words: Sequence[Tensor],
        pads: Sequence[int],
        label_smoothing: float,
    ) -> Cost:
        """See ``Reference.training_cost``."""
        kind = words[0].device.type
        if kind != self._kind or torch.is_autocast_enabled(kind):
            return function(*words, label_smoothing)
        longer = [_padded(x, pad) for x, pad in zip(words, pads, strict=True)]
        cost, nll, alpha = self._of_rounded_lengths(function, model, longer, label_smoothing)
        if alpha is not None:
            alpha = alpha[:, : words[-1].size(1), : words[0].size(1)]
        return cost, nll, alpha

    def _of_rounded_lengths(
        self, function: CostFunction, model: nn.Module, words: list[Tensor], label_smoothing: float
    ) -> Cost:
        learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
        places = tuple(parameter.data_ptr() for parameter in learned)
        of_model = self._of_models.get(model)
        if of_model is None or of_model.places != places:
            of_model = self._of_models[model] = _OfModel(places, self._record.memory())
        # a recording repeats products in the precision it was made with
        precision = torch.get_float32_matmul_precision()
        key = precision, model.training, label_smoothing, *(x.shape for x in words)
        if key not in of_model.seen or (key not in of_model.made and not self._record.has_room()):
            of_model.seen.add(key)
            return function(*words, label_smoothing)
        if key not in of_model.made:
            of_model.made[key] = self._make(function, model, words, label_smoothing, of_model.pool)
            of_model.lent.update(x.data_ptr() for x in of_model.made[key][1].gradients)
        given, recording = of_model.made[key]
        for parameter in learned:  # an earlier batch's, which this one's will be added to
            if parameter.grad is not None and parameter.grad.data_ptr() in of_model.lent:
                parameter.grad = parameter.grad.clone()
        for place, tensor in zip(given, words, strict=True):
            place.copy_(tensor)
        return _Launched.apply(of_model, recording, *learned)

    def _make(
        self,
        function: CostFunction,
        model: nn.Module,
        words: Sequence[Tensor],
        label_smoothing: float,
        pool: tuple[int, int],
    ) -> tuple[list[Tensor], CudaRecording]:
        given = [x.clone() for x in words]
        # other leaves of the same memory: autograd ties a parameter to the stream of its first use
        leaves = {
            f"model.{name}": parameter.detach().requires_grad_()
            for name, parameter in model.named_parameters()
            if parameter.requires_grad
        }
        of_leaves = _OfModelsParameters(model, function)

        def cost() -> Cost:
            with torch.enable_grad():
                total, nll, alpha = functional_call(of_leaves, leaves, (*given, label_smoothing))
            return total, nll.detach(), None if alpha is None else alpha.detach()

        def gradients(total: Tensor, d_cost: Tensor) -> Gradients:
            learned = list(leaves.values())
            return torch.autograd.grad(total, learned, d_cost, materialize_grads=True)

        devices = [words[0].device] if words[0].is_cuda else []
        with torch.random.fork_rng(devices):  # dropout goes on as if nothing had been recorded
            return given, self._record(cost, gradients, pool)


class _OfModelsParameters(nn.Module):
    """A function of a model, as ``functional_call`` wants it."""

    def __init__(self, model: nn.Module, function: CostFunction) -> None:
        super().__init__()
        self.model = model
        self._function = function

    def forward(self, *given: Tensor | float) -> Cost:
        return self._function(*given)


class _Launched(torch.autograd.Function):
    """A launch of a recording, and, in the backward pass, of its gradients."""

    @staticmethod
    def forward(
        ctx: torch.autograd.function.FunctionCtx,
        of_model: _OfModel,
        recording: CudaRecording,
        *_: Tensor,
    ) -> Cost:
        recording.launch()
        of_model.launches += 1
        ctx.of_model, ctx.recording, ctx.launch = of_model, recording, of_model.launches
        cost, nll, alpha = (None if x is None else x.clone() for x in recording.returned)
        ctx.mark_non_differentiable(*(x for x in (nll, alpha) if x is not None))
        return cost, nll, alpha

    @staticmethod
    @first_order
    def backward(
        ctx: torch.autograd.function.FunctionCtx, d_cost: Tensor, *_: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        of_model, gradients = ctx.of_model, ctx.recording.gradients
        if ctx.launch != of_model.launches:
            raise RuntimeError(
                "a batch's gradients are computed once, before another batch's cost is"
            )
        of_model.launches += 1  # they overwrite what they read: no second time
        ctx.recording.launch_gradients(d_cost)
        # autograd gives a parameter a tensor that nobody else has, and copies any other
        return None, None, *(gradient.detach() for gradient in gradients)


def _padded(words: Tensor, pad: int) -> Tensor:
    """Return ``(batch, time)`` words with padding on the right, to a multiple of ``STEP``."""
    return nn.functional.pad(words, (0, -words.size(1) % STEP), value=pad)
