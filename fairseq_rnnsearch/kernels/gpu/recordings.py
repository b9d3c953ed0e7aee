"""Costs and their gradients that are recorded once and launched as a whole: CUDA graphs.

Launching an update's thousand small operations one by one takes a program longer than they take
the GPU. A recording is valid for one shape and for the memory that it was made with. So lengths
are rounded up to a multiple of ``STEP``, words are copied into the recording's tensors before a
launch, and what it returns is read before the next launch. A shape is recorded when it comes a
second time, if there is room; others run step by step, with the same result.
"""

from collections.abc import Callable, Hashable, Sequence
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.func import functional_call

STEP = 8  # positions: a batch of 30 words is computed as one of 32

Cost = tuple[Tensor, Tensor, Tensor | None]  # cost, -log p, alignment weights
CostFunction = Callable[..., Cost]
Results = tuple[Tensor | None, ...]


class CudaRecording:
    """A CUDA graph of a function without arguments, and the memory of its result, ``returned``.

    Args:
        pool: of ``memory``; recordings that share it may not run at the same time.
    """

    def __init__(self, function: Callable[[], Results], pool: tuple[int, int]) -> None:
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):  # libraries allocate memory at their first call
            for _ in range(2):
                function()
        torch.cuda.current_stream().wait_stream(aside)
        self._graph = torch.cuda.CUDAGraph()
        # the backward pass has its own thread, beside those that load data
        with torch.cuda.graph(self._graph, pool=pool, capture_error_mode="thread_local"):
            self.returned = function()

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
        self._graph.replay()


class _OfModel:
    """The recordings of a model, one for each shape.

    Attributes:
        places: where its parameters lie; recordings know no others.
        launches: how often one was launched.
    """

    def __init__(self, places: tuple[int, ...], pool: tuple[int, int]) -> None:
        self.places, self.pool = places, pool
        self.launches = 0
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
        """See ``Backend.training_cost``."""
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
        given, recording = of_model.made[key]
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

        def with_gradients() -> Results:
            with torch.enable_grad():
                cost, nll, alpha = functional_call(of_leaves, leaves, (*given, label_smoothing))
                learned = list(leaves.values())
                gradients = torch.autograd.grad(cost, learned, materialize_grads=True)
            alpha = None if alpha is None else alpha.detach()
            return cost.detach(), nll.detach(), alpha, *gradients

        devices = [words[0].device] if words[0].is_cuda else []
        with torch.random.fork_rng(devices):  # dropout goes on as if nothing had been recorded
            return given, self._record(with_gradients, pool)


class _OfModelsParameters(nn.Module):
    """A function of a model, as ``functional_call`` wants it."""

    def __init__(self, model: nn.Module, function: CostFunction) -> None:
        super().__init__()
        self.model = model
        self._function = function

    def forward(self, *given: Tensor | float) -> Cost:
        return self._function(*given)


class _Launched(torch.autograd.Function):
    """A launch of a recording, whose gradients are there as soon as its cost is."""

    @staticmethod
    def forward(
        ctx: torch.autograd.function.FunctionCtx,
        of_model: _OfModel,
        recording: CudaRecording,
        *_: Tensor,
    ) -> Cost:
        recording.launch()
        of_model.launches += 1
        *results, ctx.gradients = *recording.returned[:3], recording.returned[3:]
        ctx.of_model, ctx.launch = of_model, of_model.launches
        cost, nll, alpha = (None if x is None else x.clone() for x in results)
        ctx.mark_non_differentiable(*(x for x in (nll, alpha) if x is not None))
        return cost, nll, alpha

    @staticmethod
    def backward(
        ctx: torch.autograd.function.FunctionCtx, d_cost: Tensor, *_: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        if ctx.launch != ctx.of_model.launches:
            raise RuntimeError("another batch's cost was computed before this one's gradients")
        return None, None, *torch._foreach_mul(ctx.gradients, d_cost)  # a few launches


def _padded(words: Tensor, pad: int) -> Tensor:
    """Return ``(batch, time)`` words with padding on the right, to a multiple of ``STEP``."""
    return nn.functional.pad(words, (0, -words.size(1) % STEP), value=pad)
