"""Checkpoints made up from the names that they may hold, and what a child makes of them.

Damage at random hardly ever gives a pickle that goes on beyond its first change. These are put
together from the operations themselves (GLOBAL, REDUCE, NEWOBJ, BUILD, ...), so that arguments of
every kind arrive where they are used. Children forked from this process read them, some hundred
each; one that dies by a signal names its case.
"""

import contextlib
import functools
import io
import json
import os
import random
import resource
import signal
import struct
import sys
import tempfile
import traceback
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import torch
from fairseq import checkpoint_utils

from fairseq_rnnsearch.compat import mends
from fairseq_rnnsearch.compat.plain_pickle import NAMES, STORAGES, PlainUnpickler
from fairseq_rnnsearch.errors import UserError

BATCH = 500  # cases of a child
SECONDS = 20  # of the processor, after which a case hangs; other programs may use it too
MEMORY = 2**29  # bytes that a child may take beyond this process
DONE = ("os.system", "subprocess.Popen", "os.exec", "os.posix_spawn", "socket.connect")

# --- writing pickles ------------------------------------------------------------------------------

MARK, NONE, TRUE, FALSE, EMPTY_TUPLE = b"(", b"N", b"\x88", b"\x89", b")"
REDUCE, NEWOBJ, BUILD, STOP, PERSISTENT = b"R", b"\x81", b"b", b".", b"Q"


def number(value: int) -> bytes:
    size = value.bit_length() // 8 + 1
    return b"\x8a" + bytes([size]) + value.to_bytes(size, "little", signed=True)


def text(value: str) -> bytes:
    content = value.encode("utf-8", "surrogatepass")
    return b"X" + struct.pack("<I", len(content)) + content


def named(name: str) -> bytes:
    return b"c" + name.replace(" ", "\n").encode() + b"\n"


def tuple_of(*parts: bytes) -> bytes:
    return MARK + b"".join(parts) + b"t"


def list_of(*parts: bytes) -> bytes:
    return b"](" + b"".join(parts) + b"e"


def dictionary_of(**parts: bytes) -> bytes:
    return b"}(" + b"".join(text(name) + part for name, part in parts.items()) + b"u"


def call(name: str, *arguments: bytes, operation: bytes = REDUCE) -> bytes:
    return named(name) + tuple_of(*arguments) + operation


def encoded(content: bytes) -> bytes:
    return call("_codecs encode", text(content.decode("latin-1")), text("latin1"))


def numbers(key: str, count: int, kind: str = "torch FloatStorage") -> bytes:
    place = text("storage"), named(kind), text(key), text("cpu"), number(count)
    return tuple_of(*place) + PERSISTENT


def tensor(storage: bytes, size: tuple, stride: tuple, offset: int = 0) -> bytes:
    shape = tuple_of(*map(number, size)), tuple_of(*map(number, stride))
    hooks = call("collections OrderedDict")
    return call("torch._utils _rebuild_tensor_v2", storage, number(offset), *shape, FALSE, hooks)


def number_type(code: str, order: str = "<", flags: int = 0) -> bytes:
    state = number(3), text(order), NONE, NONE, NONE, number(-1), number(-1), number(flags)
    return call("numpy dtype", text(code), FALSE, TRUE) + tuple_of(*state) + BUILD


def array(code: bytes, shape: tuple, content: bytes, module: str = "numpy._core") -> bytes:
    begun = named("numpy ndarray"), tuple_of(number(0)), encoded(b"b")
    state = number(1), tuple_of(*map(number, shape)), code, FALSE, encoded(content)
    return call(f"{module}.multiarray _reconstruct", *begun) + tuple_of(*state) + BUILD


def checkpoint(**changed: bytes) -> bytes:
    """One that fairseq loads, with parts of it replaced."""
    history = {"criterion_name": text(""), "lr_scheduler_state": b"}", "num_updates": number(7)}
    parts = {
        "args": NONE,
        "cfg": dictionary_of(model=dictionary_of(_name=text("rnnsearch"))),
        "model": dictionary_of(a=tensor(numbers("0", 6), (2, 3), (3, 1))),
        "optimizer_history": list_of(dictionary_of(**history)),
        "extra_state": dictionary_of(
            counts=list_of(array(number_type("i8"), (2,), bytes(16))), train_iterator=b"}"
        ),
        "last_optimizer_state": dictionary_of(state=b"}"),
    }
    return dictionary_of(**{**parts, **changed})


CONTENT = {"0": bytes(24), "1": bytes(range(16))}  # of two storages


def as_archive(pickle: bytes, content: dict[str, bytes] = CONTENT) -> bytes:
    """As torch writes it."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02" + pickle + STOP)
        archive.writestr("archive/byteorder", b"little")
        archive.writestr("archive/version", b"3\n")
        for key, part in content.items():
            archive.writestr(f"archive/data/{key}", part)
    return file.getvalue()


def as_legacy(pickle: bytes, content: dict[str, bytes] = CONTENT, width: int = 4) -> bytes:
    """As torch wrote it before 1.6."""
    system = b"}(" + text("little_endian") + TRUE + b"u"
    keys = list_of(*map(text, content))
    head = [number(0x1950A86A20F9469CFC6C), number(1001), system, pickle, keys]
    parts = [struct.pack("<q", len(part) // width) + part for part in content.values()]
    return b"".join(b"\x80\x02" + value + STOP for value in head) + b"".join(parts)


# --- a grammar of them ----------------------------------------------------------------------------

SIZES = (0, 1, 2, 3, 4, 6, 7, 2**31, 2**40, 2**63 - 1, 2**64, 2**200, -1, -3, -(2**63))
TEXTS = (
    "", "a", "latin1", "utf-8", "storage", "_metadata", "__class__", "__setstate__", "__dict__",
    "keys", "copy", "O8", "O", "i8", "f4", "V8", "<", "|", ">", "=", "cpu", "meta", "cuda:0", "0",
    "\ud800", "${a}", "a\0b", "x" * 300,
)  # fmt: skip
NAMED, NUMBERS = sorted(NAMES), [*STORAGES, "torch FloatStorage"]
FOREIGN = (
    "posix system", "builtins eval", "builtins getattr", "numpy.core.multiarray fromstring",
    "torch._utils _rebuild_sparse_tensor", "torch._utils _rebuild_nested_tensor", "torch Tensor",
    "torch.nn.parameter Parameter", "collections Counter", "builtins bytearray", "antigravity x",
    "omegaconf.dictconfig DictConfig", "torch.hub load", "torch UntypedStorage", "this s",
)  # fmt: skip
NOISE = b"()]}.NRbQ\x81\x85\x86\x87\x88\x89aestu0120cilopq\x80\x8a\x8b\x90\x93\x94\x95\x97"


class Grammar:
    """Draws values; each method returns the operations that leave one more value on the stack."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.kept = 0

    def size(self) -> int:
        return self.draw.choice(SIZES)

    def shape(self) -> tuple:
        return tuple(self.size() for _ in range(self.draw.choice((0, 1, 1, 2, 2, 3, 30))))

    def value(self, depth: int = 4) -> bytes:
        kinds = (
            self.constant, self.constant, self.tensor, self.array, self.type, self.bytes,
            self.kept_before, self.noise,
        )  # fmt: skip
        deep = (self.collection, self.collection, self.called, self.called, self.built, self.built)
        made = self.draw.choice(kinds + deep * 2 if depth else kinds)
        value = made(depth - 1) if made in deep else made()
        if self.draw.randrange(6) == 0:
            self.kept += 1
            value += b"q" + bytes([self.kept % 256])
        return value

    def constant(self) -> bytes:
        kind = self.draw.randrange(10)
        if kind == 0:
            return named(self.draw.choice(FOREIGN)) if self.draw.randrange(8) == 0 else NONE
        if kind == 1:
            return b"\x85" * self.draw.choice((1, 50, 5000)) if self.kept else NONE
        if kind < 5:
            return self.draw.choice((NONE, TRUE, FALSE, EMPTY_TUPLE, b"G" + self.draw.randbytes(8)))
        if kind < 7:
            return number(self.size())
        return text(self.draw.choice(TEXTS)) if kind < 9 else named(self.draw.choice(NAMED))

    def bytes(self) -> bytes:
        return encoded(self.draw.randbytes(self.draw.choice((0, 1, 4, 8, 16, 24))))

    def storage(self) -> bytes:
        if self.draw.randrange(10) == 0:
            return self.value(1)
        kind = self.draw.choice(NUMBERS)
        count = self.draw.choice((2, 3, 4, 6, 6, 12, 16, 24, self.size()))
        return numbers(self.draw.choice(("0", "0", "1", "2", "../0")), count, kind)

    def tensor(self) -> bytes:
        sound = self.draw.randrange(3) == 0
        size, stride = ((2, 3), (3, 1)) if sound else (self.shape(), self.shape())
        if not sound and self.draw.randrange(2):
            size, stride = (2,) * 2, (self.size(), self.size())
        return tensor(self.storage(), size, stride, self.draw.choice((0, 0, 1, self.size())))

    def type(self) -> bytes:
        code = self.draw.choice(("i8", "f4", "u1", "O8", "O", "V8", "S8", "M8", "i8,O", ""))
        flags = self.draw.choice((0, 0, 1, 8, 27, 63, -1, 2**31))
        return number_type(code, self.draw.choice("<<|=>O"), flags)

    def array(self) -> bytes:
        shape = self.draw.choice(((1,), (2,), (2, 1), self.shape()))
        content = self.draw.randbytes(self.draw.choice((0, 4, 8, 16)))
        module = self.draw.choice(("numpy._core", "numpy.core"))
        return array(self.type(), shape, content, module)

    def kept_before(self) -> bytes:
        return b"h" + bytes([self.draw.randrange(self.kept % 256 + 1)]) if self.kept else NONE

    def noise(self) -> bytes:
        if self.draw.randrange(6):
            return NONE
        return bytes(self.draw.choices(NOISE, k=self.draw.choice((1, 1, 2, 5))))

    def collection(self, depth: int) -> bytes:
        parts = [self.value(depth) for _ in range(self.draw.choice((0, 1, 2, 3)))]
        kind = self.draw.randrange(3)
        if kind < 2:
            return (tuple_of, list_of)[kind](*parts)
        empty = self.draw.choice((b"}", call("collections OrderedDict")))
        keys = [self.draw.choice((text("k"), self.constant())) for _ in parts]
        items = (key + part for key, part in zip(keys, parts, strict=True))
        return empty + MARK + b"".join(items) + b"u"

    def called(self, depth: int) -> bytes:
        arguments = [self.value(depth) for _ in range(self.draw.choice((0, 1, 1, 2, 3, 6, 7)))]
        name = named(self.draw.choice(NAMED))
        if self.draw.randrange(10) == 0:
            name = self.value(depth)
        packed = tuple_of(*arguments) if self.draw.randrange(4) else self.value(depth)
        return name + packed + self.draw.choice((REDUCE, NEWOBJ))

    def built(self, depth: int) -> bytes:
        begun = (
            lambda: call("collections OrderedDict"),
            lambda: call("argparse Namespace", operation=NEWOBJ),
            lambda: call("numpy dtype", text("O8"), FALSE, TRUE),
            lambda: array(number_type("i8"), (1,), bytes(8)),
            lambda: self.value(depth),
        )
        state = (
            lambda: dictionary_of(_metadata=call("collections OrderedDict")),
            lambda: dictionary_of(**{self.draw.choice(TEXTS): self.value(depth)}),
            lambda: tuple_of(b"}", dictionary_of(x=self.value(depth))),
            lambda: tuple_of(*(self.value(depth) for _ in range(self.draw.choice((2, 4, 5, 8))))),
            lambda: self.value(depth),
        )
        return self.draw.choice(begun)() + self.draw.choice(state)() + BUILD


# fairseq takes seconds for what it makes of "args"
PLACES = ("cfg", "model", "optimizer_history", "extra_state", "last_optimizer_state", "x") * 5
PLACES += ("args",)


def case(seed: int, number: int) -> bytes:
    """The content of a file, which follows from these two alone."""
    draw = random.Random(f"{seed} pickles {number}")
    grammar = Grammar(draw)
    place = draw.choice(PLACES)
    value = grammar.value()
    if place == "model" or draw.randrange(2):
        value = dictionary_of(a=value)
    pickle = checkpoint(**{place: value})
    content = dict(CONTENT)
    if draw.randrange(10) == 0:
        content["0"] = draw.randbytes(draw.choice((0, 4, 23, 100)))
    return (as_legacy if draw.randrange(5) == 0 else as_archive)(pickle, content)


# --- reading them in children ---------------------------------------------------------------------


def read(path: Path) -> str:
    """What fairseq makes of it: "read" or "refused".

    Raises:
        Exception: anything else.
    """
    try:
        state = checkpoint_utils.load_checkpoint_to_cpu(str(path))
    except UserError as mistake:
        message = str(mistake)
        assert "\n" not in message and len(message) < 1500 and str(path) in message, message
        return "refused"
    waiting = [state]
    while waiting:
        value = waiting.pop()
        if isinstance(value, torch.Tensor):
            assert value.layout == torch.strided and value.device.type == "cpu"
            assert value.numel() * value.itemsize <= value.untyped_storage().nbytes() <= 10_000
            value.clone().double().sum()
        elif isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list | tuple):
            waiting += value
    torch.save({**state, "cfg": None}, io.BytesIO())
    repr(state)
    return "read"


def run(
    cases: int, seed: int, first: int = 0, reader: Callable[[Path], str] = read
) -> tuple[Counter, list[str]]:
    """Read that many.

    Returns:
        How many cases were "read" and "refused", how many calls of a name (REDUCE and NEWOBJ) and
        how many BUILD were reached; the findings.
    """
    counts, findings = Counter(), []
    with mends.applied(), tempfile.TemporaryDirectory() as folder:
        _warm()
        path = Path(folder) / "model.pt"
        path.touch()
        at, end = first, first + cases
        while at < end:
            result = _in_child(seed, range(at, min(end, at + BATCH)), path, reader)
            counts.update(result["counts"])
            findings += result["findings"]
            at = result["next"]
    return counts, findings


@functools.cache
def _warm() -> None:
    """Let fairseq import what it imports late, once."""
    options = dictionary_of(arch=text("rnnsearch"), task=text("translation"))
    options = call("argparse Namespace", operation=NEWOBJ) + options + BUILD
    for sound in (checkpoint(), checkpoint(args=options, cfg=NONE)):
        with tempfile.NamedTemporaryFile() as file:
            file.write(as_archive(sound))
            file.flush()
            assert read(Path(file.name)) == "read"


def _in_child(seed: int, numbers: range, path: Path, reader: Callable[[Path], str]) -> dict:
    progress = path.with_name("progress")
    progress.touch()
    child = os.fork()
    if child == 0:
        status = 1
        with contextlib.suppress(BaseException):
            _read_all(seed, numbers, path, reader, progress)
            status = 0
        os._exit(status)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    result = json.loads(progress.read_text())
    if code:
        what = signal.Signals(-code).name if code < 0 else f"exit {code}"
        result["findings"].append(f"--seed {seed} --case {result['next'] - 1}: {what}")
    return result


def _read_all(
    seed: int, numbers: range, path: Path, reader: Callable[[Path], str], progress: Path
) -> None:
    """In the child. What has been found so far is written down before each case."""
    happened, counts, findings = [], Counter(), []
    sys.addaudithook(lambda event, _: event in DONE and happened.append(event))
    for name, method in (("calls", "_made"), ("builds", "_build")):
        setattr(PlainUnpickler, method, _counted(getattr(PlainUnpickler, method), counts, name))
    modules, memory = set(sys.modules), _memory()

    def found(next_case: int) -> bytes:
        return json.dumps({"counts": counts, "findings": findings, "next": next_case}).encode()

    for number in numbers:
        _rewrite(progress, found(number + 1))
        _rewrite(path, case(seed, number))
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            counts[reader(path)] += 1
            assert not happened, happened
            assert not set(sys.modules) - modules, set(sys.modules) - modules
            assert _memory() - memory < MEMORY, "memory"
        except Exception:
            trace = traceback.format_exc(limit=-5)
            findings.append(f"--seed {seed} --case {number}: {trace}")
            happened.clear()
            modules, memory = set(sys.modules), _memory()
    _rewrite(progress, found(numbers.stop))


def _rewrite(path: Path, content: bytes) -> None:
    """Without making a file anew, which takes longer than a case."""
    with path.open("r+b") as file:
        file.write(content)
        file.truncate()


def _memory() -> int:
    """The most that this process has taken, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _counted(method: Callable, counts: Counter, name: str) -> Callable:
    def counting(*arguments: object) -> object:
        counts[name] += 1
        return method(*arguments)

    return counting
