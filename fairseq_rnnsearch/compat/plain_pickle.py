"""Pickles read as data: their operations are followed here, and nothing that they name is called.

Python's unpickler calls whatever a file names. torch's, with ``weights_only``, calls some eighty
names, adds to them with every version and to whatever a program allows it, and leaves it to those
functions to look at what a file hands them. A checkpoint of fairseq's holds dictionaries, lists,
numbers, texts and tensors. This reader makes those itself, and refuses all else.
"""

import itertools
import math
import pickletools
from argparse import Namespace
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import IO

import numpy as np
import torch
from torch import Tensor

from fairseq_rnnsearch.data.zip_files import Refused

# An operation of one byte makes an empty dictionary of 64: without a bound a small file fills any
# memory. A checkpoint of a thousand parameters with Adam's state has 150,000 operations.
MOST_OPERATIONS = 3_000_000
# Values are counted where they are used: a list that holds another twice, which holds a third twice
# and so on, is short in the file and endless for whoever walks through it.
MOST_VALUES = 1_000_000
DEEPEST = 100
# Parameters may share memory (an embedding that is also the output's), but not without bound.
SHARED = 4

STORAGES = {
    "torch DoubleStorage": torch.float64,
    "torch FloatStorage": torch.float32,
    "torch HalfStorage": torch.float16,
    "torch BFloat16Storage": torch.bfloat16,
    "torch LongStorage": torch.int64,
    "torch IntStorage": torch.int32,
    "torch ShortStorage": torch.int16,
    "torch CharStorage": torch.int8,
    "torch ByteStorage": torch.uint8,
    "torch BoolStorage": torch.bool,
}
NAMES = {
    *STORAGES,
    "collections OrderedDict",
    "argparse Namespace",  # options of fairseq's older models and optimizers
    "torch._utils _rebuild_tensor_v2",
    "torch._utils _rebuild_parameter",
    # --eval-bleu has kept its counts as arrays; they become lists
    "numpy ndarray",
    "numpy dtype",
    "numpy.core.multiarray _reconstruct",
    "numpy._core.multiarray _reconstruct",
    "numpy.core.multiarray scalar",
    "numpy._core.multiarray scalar",
    "_codecs encode",  # bytes, in a protocol from before there were any
}
NUMBERS = {f"{kind}{width}" for kind in "iu" for width in (1, 2, 4, 8)} | {"f2", "f4", "f8"}

CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
EMPTY = {"EMPTY_LIST": list, "EMPTY_DICT": dict, "EMPTY_TUPLE": tuple}
# How many values an operation takes from the stack; None: all since the mark.
OPERANDS = {
    **{"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3, "APPEND": 1, "SETITEM": 2},
    **{"BINPERSID": 1, "REDUCE": 2, "NEWOBJ": 2, "BUILD": 1},
    **dict.fromkeys(("TUPLE", "APPENDS", "SETITEMS")),
}


def refuse(what: str) -> Refused:
    return Refused(
        f"it holds {what}, and only tensors and plain values are loaded, because anything else can "
        "run code"
    )


@dataclass(frozen=True)
class Storage:
    """The numbers that tensors are views of: (elements,), or None where they are not wanted."""

    numbers: Tensor | None


@dataclass(frozen=True)
class _Name:
    """What a pickle names; it can be an argument, and stands for nothing else."""

    text: str


@dataclass(frozen=True)
class _NumberType:
    """numpy's, such as ``i8``."""

    code: str


class PlainUnpickler:
    """Reads the pickle at the place of a file where that is read next.

    Args:
        file: binary; it is left behind the pickle.
        storage: (key, element type, number of elements) to the numbers; may raise.
        most: how many bytes all that is described may take, in numbers and encoded texts.
    """

    def __init__(
        self, file: IO[bytes], storage: Callable[[str, torch.dtype, int], Storage], most: int
    ) -> None:
        self._file, self._storage, self._room = file, storage, most
        self._stack: list = []
        self._below: list[list] = []  # the stacks under each mark
        self._memo: dict[int, object] = {}
        self._arrays: dict[int, list] = {}  # those that wait for their content

    def load(self) -> object:
        """Return the value: None, numbers, texts, tensors, or containers and namespaces of them.

        Raises:
            Refused: for anything else.
            Exception: of any kind, for a damaged pickle.
        """
        operations = pickletools.genops(self._file)
        for operation, argument, _ in itertools.islice(operations, MOST_OPERATIONS):
            if operation.name == "STOP":
                value = self._stack.pop()
                _check_values(value)
                return value
            self._follow(operation.name, argument)
        raise Refused(f"its description has more than {MOST_OPERATIONS:,} steps")

    def _follow(self, operation: str, argument: object) -> None:
        stack = self._stack
        match operation:
            case "PROTO":
                pass
            case "BINUNICODE" | "BININT" | "BININT1" | "BININT2" | "LONG1" | "BINFLOAT":
                stack.append(argument)
            case _ if operation in CONSTANTS:
                stack.append(CONSTANTS[operation])
            case _ if operation in EMPTY:
                stack.append(EMPTY[operation]())
            case "BINPUT" | "LONG_BINPUT":
                self._memo[argument] = stack[-1]
            case "BINGET" | "LONG_BINGET":
                stack.append(self._memo[argument])
            case "MARK":
                self._below.append(stack)
                self._stack = []
            case "GLOBAL":
                if argument not in NAMES:
                    raise refuse(argument.replace(" ", "."))
                stack.append(_Name(argument))
            case _ if operation in OPERANDS:
                self._use(operation, self._operands(OPERANDS[operation]))
            case _:
                raise refuse(f"the operation {operation}")

    def _operands(self, count: int | None) -> list:
        """Take so many values from the stack, or all since the mark."""
        if count is None:
            operands, self._stack = self._stack, self._below.pop()
            return operands
        return [self._stack.pop() for _ in range(count)][::-1]

    def _use(self, operation: str, operands: list) -> None:
        """Make a tuple, fill a list or a dictionary, or do what a name or a content asks for."""
        match operation:
            case "BINPERSID":
                self._stack.append(self._stored(*operands))
            case "REDUCE" | "NEWOBJ":
                self._stack.append(self._made(*operands))
            case "BUILD":
                self._build(self._stack[-1], *operands)
            case "APPEND" | "APPENDS":
                _extend(self._stack[-1], operands)
            case "SETITEM" | "SETITEMS":
                _set_items(self._stack[-1], operands)
            case _:
                self._stack.append(tuple(operands))

    def _take(self, size: int) -> None:
        self._room -= size
        if self._room < 0:
            raise Refused("what it describes takes many times the memory of the file")

    def _stored(self, place: object) -> Storage:
        match place:
            case ("storage", _Name(kind), str(key), str(), int(count), *more) if (
                kind in STORAGES and count >= 0 and more in ([], [None])
            ):
                return self._storage(key, STORAGES[kind], count)
        raise refuse("numbers of an unknown kind")

    def _made(self, name: object, arguments: object) -> object:
        """Return what a name with these arguments stands for."""
        match name, arguments:
            case _Name("collections OrderedDict"), ():
                return OrderedDict()
            case _Name("argparse Namespace"), ():
                return Namespace()
            case _Name("torch._utils _rebuild_parameter"), (Tensor() | None as value, *_):
                return value
            case (
                _Name("torch._utils _rebuild_tensor_v2"),
                (Storage(numbers), int(offset), tuple(size), tuple(stride), bool(), *_),
            ):
                return None if numbers is None else self._tensor(numbers, offset, size, stride)
            case _Name("_codecs encode"), (str(text), "latin1"):
                self._take(len(text))
                return text.encode("latin-1")
            case _Name("numpy dtype"), (str(code), *_) if code in NUMBERS:
                return _NumberType(code)
            case _Name(text), (_NumberType(code), bytes(content)) if text.endswith(" scalar"):
                (number,) = self._numbers(code, (1,), content)
                return number
            case _Name(text), (_Name("numpy ndarray"), *_) if text.endswith(" _reconstruct"):
                array = []
                self._arrays[id(array)] = array
                return array
            case _Name(text), _:
                raise refuse(f"{text.replace(' ', '.')} in an unknown form")
        raise refuse("a call of what cannot be called")

    def _build(self, value: object, state: object) -> None:
        """Give a value its content."""
        match value, state:
            case OrderedDict(), {"_metadata": OrderedDict() as metadata} if len(state) == 1:
                value._metadata = metadata  # the versions of a state_dict's modules
            case Namespace(), dict() if all(isinstance(name, str) for name in state):
                vars(value).update(state)
            case _NumberType(), (3, "<" | "|", None, None, None, -1, -1, 0):
                pass  # what the others begin with: no fields, no objects, this machine's order
            case list(), (1, tuple(shape), _NumberType(code), False, bytes(content)) if (
                self._arrays.pop(id(value), None) is value
            ):
                value += self._numbers(code, shape, content)
            case _:
                raise refuse(f"content of an unknown kind for {type(value).__name__}")

    def _numbers(self, code: str, shape: tuple, content: bytes) -> list:
        """Return a contiguous array with at least one number in it, as lists."""
        _check_numbers(shape)
        self._take(len(content))
        width = int(code[1:])
        if not shape or not content or math.prod(shape) * width != len(content):
            raise refuse(f"an array of shape {shape!r:.60} in {len(content):,} bytes")
        return np.frombuffer(content, f"<{code}").reshape(shape).tolist()

    def _tensor(self, numbers: Tensor, offset: int, size: tuple, stride: tuple) -> Tensor:
        """Return a view of the numbers, all of it within them."""
        _check_numbers((offset, *size, *stride))
        count = math.prod(size)
        self._take(count * numbers.itemsize)
        if not count:
            return numbers.new_empty(size)
        last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
        if last >= len(numbers) or count > len(numbers):
            raise refuse(
                f"a tensor of size {size!r:.60} in {len(numbers):,} numbers, larger than they are"
            )
        return numbers.as_strided(size, stride, offset)


def _check_numbers(numbers: tuple) -> None:
    if len(numbers) > 20 or not all(type(n) is int and 0 <= n < 2**40 for n in numbers):
        raise refuse(f"a size that is none, {numbers!r:.60}")


def _extend(value: object, items: list) -> None:
    if type(value) is not list:
        raise refuse("items of what is no list")
    value += items


def _set_items(value: object, items: list) -> None:
    if type(value) not in (dict, OrderedDict) or len(items) % 2:
        raise refuse("items of what is no dictionary")
    for key, item in zip(items[::2], items[1::2], strict=True):
        # the hash of a tuple within tuples recurses without bound, and ends the process
        if type(key) not in (str, int):
            raise refuse(f"a key of the kind {type(key).__name__}")
        value[key] = item


def _check_values(value: object) -> None:
    waiting, count = [(value, 0)], 1
    while waiting:
        value, depth = waiting.pop()
        parts = parts_of(value)
        count += len(parts)
        if count > MOST_VALUES or depth > DEEPEST:
            raise Refused(
                f"it holds values within values, deeper than {DEEPEST} or more than {MOST_VALUES:,}"
            )
        waiting += ((part, depth + 1) for part in parts)


def parts_of(value: object) -> Iterable[object]:
    """Return the values directly within one.

    Raises:
        Refused: when it is none that `PlainUnpickler` reads.
    """
    if isinstance(value, list | tuple):
        return value
    if isinstance(value, dict):
        return [*value.values(), *getattr(value, "__dict__", {}).values()]
    if isinstance(value, Namespace):
        return vars(value).values()
    if value is None or isinstance(value, bool | int | float | str | bytes | Tensor):
        return ()
    raise refuse(f"a {type(value).__name__.strip('_')} as a value")
