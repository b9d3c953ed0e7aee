"""Parts that time the device by itself: its ceilings, an update, searches, and what they take."""

import warnings
from collections import Counter
from collections.abc import Callable

import torch
from device import Device, Measured, Measurements, bounded, moved, products_in
from search import lstm, rnnsearch, sentences

from fairseq_rnnsearch.decoding.search.torch_steps import TorchSteps
from fairseq_rnnsearch.plugin.adadelta import RNNSearchAdadelta, RNNSearchAdadeltaConfig
from fairseq_rnnsearch.plugin.generators import StepwiseGenerator

BEAM, TOGETHER = 12, 40
LAUNCHES = {  # as CUDA's libraries call them
    *("cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cuLaunchKernelEx"),
    *("cudaGraphLaunch", "cudaMemcpyAsync", "cudaMemsetAsync"),
}


def both(device: Device) -> tuple[str, str]:
    """Return the plain kernels, and those to be measured."""
    return "reference", device.kernels


def kinds(device: Device) -> list[tuple[str, str]]:
    """Return kernels, and the types of operands that are of interest and that the device has."""
    of = {"reference": ("float32", "bfloat16"), device.kernels: ("float32", "tf32", "bfloat16")}
    return [(k, o) for k, operands in of.items() for o in operands if o in device.operands]


# --- an update ------------------------------------------------------------------------------------


class Updates:
    """A training without fairseq's trainer, update by update.

    Args:
        options: of the model.
    """

    def __init__(self, device: Device, **options: str) -> None:
        self.model = device.model(**options).to(device.torch).train()
        self._batch, self._criterion = moved(device.batch(), device.torch), device.criterion()
        config = RNNSearchAdadeltaConfig(lr=[1.0])
        self._optimizer = RNNSearchAdadelta(config, list(self.model.parameters()))

    def forward(self) -> torch.Tensor:
        """Return the cost."""
        return self._criterion(self.model, self._batch)[0]

    def backward(self) -> None:
        """Compute gradients, after a forward pass."""
        self._optimizer.zero_grad()
        self.forward().backward()

    def move(self) -> None:
        """Clip the gradients that there are, and move the parameters."""
        self._optimizer.clip_grad_norm(1.0)
        self._optimizer.step()

    def update(self) -> None:
        """Make an update."""
        self.backward()
        self.move()


def profile(device: Device) -> Measurements:
    """Milliseconds of an update by pass, its launches, and the kernels that take the most."""

    def measure(kernels: str, operands: str) -> Measured:
        training = Updates(device, kernels=kernels, compute_dtype=operands)
        with products_in(operands):
            forward, both = (
                1e3 * device.seconds(part) for part in (training.forward, training.backward)
            )
            measured = {"forward, ms": forward, "backward, ms": both - forward}
            measured["clipping and Adadelta, ms"] = 1e3 * device.seconds(training.move)
            measured["update, ms"] = 1e3 * device.seconds(training.update)
            with torch.profiler.profile() as profiler:
                training.update()
                device.wait()
        events = [e for e in profiler.key_averages() if not e.is_user_annotation]
        measured["launches by the program"] = sum(e.count for e in events if e.key in LAUNCHES)
        kind = torch.autograd.DeviceType.CUDA if device.is_gpu else torch.autograd.DeviceType.CPU
        run = [e for e in events if e.device_type == kind]
        time_of, count = Counter(), Counter()
        for e in run:
            time_of[e.key[:50]] += 1e-3 * _own_time(e, device.is_gpu)
            count[e.key[:50]] += e.count
        measured["kernels"] = count.total()
        measured["the device is at work, ms"] = time_of.total()
        for name, ms in time_of.most_common(20):
            measured[f"ms of {count[name]} x {name}"] = ms
        return measured

    return {f"{k} kernels, {o}": lambda k=k, o=o: measure(k, o) for k, o in kinds(device)}


def _own_time(event: torch.autograd.profiler_util.FunctionEventAvg, on_gpu: bool) -> float:
    return event.self_device_time_total if on_gpu else event.self_cpu_time_total


def waits(device: Device) -> Measurements:
    """How often the program waits for the device, as torch itself counts it."""

    def of_update(kernels: str) -> Measured:
        training = Updates(device, kernels=kernels)
        for _ in range(3):
            training.update()
        return _counted(device, training.update, 0)

    def of_step() -> Measured:
        translate, steps = _search(device, f"{device.kernels} float32", TOGETHER), []
        translate()
        step = TorchSteps._step
        TorchSteps._step = lambda self, words: steps.append(1) or step(self, words)
        try:
            return _counted(device, translate, 5, lambda: len(steps))
        finally:
            TorchSteps._step = step

    measurements = {f"an update, {k} kernels": lambda k=k: of_update(k) for k in both(device)}
    return measurements | {"a step of search": of_step}


def _counted(
    device: Device, function: Callable[[], object], bound: float, of: Callable[[], int] = lambda: 1
) -> Measured:
    """Return how often a function waits, over how often something happens in it."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        if device.is_gpu:
            torch.cuda.set_sync_debug_mode("warn")
        try:
            function()
        finally:
            if device.is_gpu:
                torch.cuda.set_sync_debug_mode("default")
    lines = Counter(
        f"{warning.filename.rpartition('/')[2]}:{warning.lineno}"
        for warning in said
        if "synchronizing CUDA" in str(warning.message)
    )
    where = ", ".join(f"{count} x {line}" for line, count in lines.most_common(8))
    return bounded(lines.total() / of(), bound, where)


# --- search, memory -------------------------------------------------------------------------------


def _search(device: Device, name: str, together: int) -> Callable[[], list]:
    """Return a search for random sentences; none ends before its last step."""
    size, task = device.size, device.task
    torch.manual_seed(0)
    model = lstm(size, task) if name == "lstm" else rnnsearch(size, task, *name.split())
    model.to(device.torch).eval()
    model.make_generation_fast_(need_attn=False)
    longest = size.source - 1
    generator = StepwiseGenerator(
        *([model], task.target_dictionary), beam_size=BEAM, min_len=longest, max_len_b=longest
    )
    words = sentences(size, together).to(device.torch)
    lengths = torch.full((together,), size.source, device=device.torch)
    source = {"net_input": {"src_tokens": words, "src_lengths": lengths}}
    return lambda: generator.generate(None, source)


def search(device: Device) -> Measurements:
    """Sentences a second with a beam of 12, 40 together and one by one."""
    names = [f"{k} {o}" for k, o in kinds(device) if (k, o) != ("reference", "bfloat16")]

    def measure(name: str, together: int) -> float:
        with products_in("float32" if name == "lstm" else name.split()[1]):
            return together / device.seconds(_search(device, name, together), 1, 3)

    return {
        f"{name}, {together} together": lambda n=name, t=together: measure(n, t)
        for together in (TOGETHER, 1)
        for name in (*names, "lstm")
    }


def memory(device: Device) -> Measurements:
    """Gigabytes that an update and a search take beside what stays."""

    def taken(
        function: Callable[[], object], clear: Callable[[], object] = lambda: None
    ) -> Measured:
        for _ in range(3):
            function()
        clear()
        device.wait()
        if not device.is_gpu:
            return {}
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        function()
        device.wait()
        return {
            "taken, GB": (torch.cuda.max_memory_allocated() - before) / 1e9,
            "of torch in all, GB": torch.cuda.max_memory_reserved() / 1e9,
        }

    def of_update(kernels: str) -> Measured:
        training = Updates(device, kernels=kernels)
        gradients = sum(p.nbytes for p in training.model.parameters()) / 1e9
        measurements = taken(training.backward, training.model.zero_grad)
        return measurements | {"of these gradients of parameters, GB": gradients}

    def of_search(kernels: str) -> Measured:
        return taken(_search(device, f"{kernels} float32", TOGETHER))

    measurements = {f"an update, {k} kernels": lambda k=k: of_update(k) for k in both(device)}
    return measurements | {f"a search, {k} kernels": lambda k=k: of_search(k) for k in both(device)}
