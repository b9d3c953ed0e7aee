"""A pretend accelerator: tensors that say they lie on a device and compute on the CPU.

The numbers are real. What CUDA refuses, tensors of two devices in one operation, is refused. What
makes the program wait for a GPU, reading a number above all, is counted; an event does not, once
the program has asked for more.
"""

from contextlib import contextmanager
from dataclasses import dataclass
from unittest import mock

import pytest
import torch
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

if "_setup_privateuseone_for_python_backend" not in vars(backend_registration):
    pytest.skip("this torch has no devices written in Python", allow_module_level=True)

NAME = "pretend"
aten = torch.ops.aten


class MixedDevices(RuntimeError):
    """An operation has met tensors of the device and of the CPU."""


@dataclass
class Counts:
    """How often the device was asked for something, and how often the program waited for it."""

    waits: int = 0
    operations: int = 0


_counts = Counts()

_WAITS = {
    aten._local_scalar_dense.default,
    aten.equal.default,
    aten.is_nonzero.default,
    aten.masked_select.default,
    aten.nonzero.default,
    aten.repeat_interleave.Tensor,
    aten._unique2.default,
    aten.unique_consecutive.default,
    aten.unique_dim.default,
}
_INDEXING = {
    aten.index.Tensor,
    aten._unsafe_index.Tensor,
    aten.index_put.default,
    aten.index_put_.default,
    aten._index_put_impl_.default,
}
# these take no number of the CPU beside the device's tensors; elementwise operations do
_NO_SCALARS = {"cat", "stack", "mm", "addmm", "bmm", "baddbmm", "index_select", "gather"}


class OnDevice(torch.Tensor):
    """A tensor that says that it lies on the device; ``numbers`` has what it holds."""

    @staticmethod
    def __new__(cls, real, requires_grad=False):
        return torch.Tensor._make_wrapper_subclass(
            cls,
            real.size(),
            strides=real.stride(),
            storage_offset=real.storage_offset(),
            dtype=real.dtype,
            device=DEVICE,
            requires_grad=requires_grad,
        )

    def __init__(self, real, requires_grad=False):
        self.numbers = real

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        return _run(function, args, kwargs or {})

    # what torch does in C++ for tensors that have memory of their own

    def tolist(self):
        return self.cpu().tolist()

    def new_tensor(self, data, dtype=None, **_):
        return OnDevice(torch.tensor(data, dtype=dtype or self.dtype))

    def __setitem__(self, index, value):
        if isinstance(value, int | float):  # CUDA takes it along with the launch
            self[index].fill_(value)
        else:
            super().__setitem__(index, value)


def _is_device(device):
    return device is not None and torch.device(device).type == NAME


def _run(function, args, kwargs):
    flat, _ = tree_flatten((args, kwargs))
    tensors = [x for x in flat if isinstance(x, torch.Tensor)]
    ours = [x for x in tensors if isinstance(x, OnDevice)]
    others = [x for x in tensors if not isinstance(x, OnDevice)]
    goes_to = kwargs.get("device")
    if not ours and not _is_device(goes_to):
        return function(*args, **kwargs)
    _counts.operations += 1
    name = function._schema.name.removeprefix("aten::")
    to_host = _goes_to_host(function, args, kwargs, ours)
    if to_host is None:
        _refuse_mixing(function, name, args, ours, others)
    if function in _WAITS:
        _counts.waits += 1
    if _is_device(goes_to):
        kwargs = {**kwargs, "device": torch.device("cpu")}
    real = tree_map(lambda x: x.numbers if isinstance(x, OnDevice) else x, (args, kwargs))
    out = function(*real[0], **real[1])
    if to_host or function in (aten.equal.default, aten._local_scalar_dense.default):
        return out

    def wrapped(x):
        if not isinstance(x, torch.Tensor) or isinstance(x, OnDevice):
            return x
        in_place = next((t for t in tensors if getattr(t, "numbers", t) is x), None)
        return OnDevice(x) if in_place is None else in_place

    return tree_map(wrapped, out)


def _goes_to_host(function, args, kwargs, ours):
    """Whether a copy goes to the host, or None of what is no copy; count those that wait."""
    if function is aten._to_copy.default:
        to_host = bool(ours) and kwargs.get("device") is not None
        to_host = to_host and not _is_device(kwargs["device"])
    elif function is aten.copy_.default:
        to_host = isinstance(args[1], OnDevice) and not isinstance(args[0], OnDevice)
    else:
        return None
    does_not_wait = kwargs.get("non_blocking") or (len(args) > 2 and args[2])
    if to_host and not does_not_wait:
        _counts.waits += 1
    return to_host


def _refuse_mixing(function, name, args, ours, others):
    if function in _INDEXING:
        indices = [x for x in args[1] if x is not None]
        if not isinstance(args[0], OnDevice):
            raise MixedDevices(f"{name}: indices on the device, the tensor on the CPU")
        if any(x.dtype == torch.bool for x in indices):
            _counts.waits += 1
    elif any(x.dim() for x in others) or (others and name in _NO_SCALARS):
        raise MixedDevices(f"{name}: tensors of the device and of the CPU")


class _Mode(TorchDispatchMode):
    """Lets tensors that are made for the device be made."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return _run(function, args, kwargs or {})


# --- the device, as torch wants to know it --------------------------------------------------------


class _Event:
    """In the place of ``torch.Event``, which has no such device."""

    def __init__(self, device):
        assert device.type == NAME

    def record(self):
        self.operations = _counts.operations

    def synchronize(self):
        if self.operations == _counts.operations:
            _counts.waits += 1


class _Module(backend_registration._DummyBackendModule):
    @staticmethod
    def is_available():
        return False  # torch shall not take it for this machine's accelerator

    @staticmethod
    def get_amp_supported_dtype():
        return [torch.bfloat16, torch.float16]

    # nothing is drawn on the device

    @staticmethod
    def get_rng_state(device):
        return torch.empty(0)

    @staticmethod
    def set_rng_state(state, device):
        pass


class _Hooks(backend_registration._DummyPrivateUse1Hook):
    def is_available(self):
        return False


backend_registration._setup_privateuseone_for_python_backend(
    NAME, backend_module=_Module(), hook=_Hooks()
)
DEVICE = torch.device(NAME, 0)


# --- for tests ------------------------------------------------------------------------------------


_tensor_of_the_cpu = torch.tensor


def _tensor(data, *, device=None, **options):
    """``torch.tensor``, which copies to a device in C++."""
    if not _is_device(device):
        return _tensor_of_the_cpu(data, device=device, **options)
    return OnDevice(_tensor_of_the_cpu(data, **options))


@contextmanager
def pretending():
    """Let tensors be made on the device; yields the counts, which begin at zero."""
    _counts.__init__()
    with _Mode(), mock.patch("torch.Event", _Event), mock.patch("torch.tensor", _tensor):
        yield _counts


def on_device(x):
    """Copy a tensor, or those of a dictionary, to the device."""
    if isinstance(x, dict):
        return {key: on_device(value) for key, value in x.items()}
    return OnDevice(x.clone()) if isinstance(x, torch.Tensor) else x


def move(model):
    """Move a model's parameters to the device in place; returns it."""
    for module in model.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                real = OnDevice(parameter.detach().clone())
                module._parameters[name] = torch.nn.Parameter(real)
    return model


def numbers(x):
    """Return a tensor's numbers, wherever it lies."""
    x = x.detach()
    return x.numbers if isinstance(x, OnDevice) else x
