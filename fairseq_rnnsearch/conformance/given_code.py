"""The code that is checked: what it is given, and what it returns, in whatever layout.

A function gets its arguments by name. Which layout it wants is found by trying: batch first or time
first, or one sentence at a time. What it returns may have its axes in another order or of length 1,
and any floating-point type.
"""

import importlib
import inspect
import sysconfig
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fairseq_rnnsearch.conformance.authors_numbers import PARTS, Arrays, parameters
from fairseq_rnnsearch.errors import UserError, neighbours, reason

FRAMEWORKS = ("numpy", "torch")


class Layout(NamedTuple):
    """How a function is given its arrays.

    Attributes:
        time_first: positions before sentences.
        rows: "all" at once; "one length", cut to the shortest; or one sentence after the other
            without padding, as a "batch of one" or with "no batch axis".
        single: float32 instead of float64.
    """

    time_first: bool = False
    rows: str = "all"
    single: bool = False

    def __str__(self) -> str:
        order = "time first" if self.time_first else "batch first"
        how = {
            "all": order,
            "one length": f"sentences of one length, {order}",
            "batch of one": f"one sentence at a time, {order}",
            "no batch axis": "one sentence at a time, without a batch axis",
        }[self.rows]
        return how + (", float32" if self.single else "")


class Refused(UserError):
    """The code failed, or what it returned cannot be compared."""


class GivenCode:
    """A function, or a class, object or module with functions named for parts of the model.

    Args:
        target: one of these; each call makes a new instance of a class, with ``p`` if it asks.
        part: what a function computes, if its name does not say so.
        framework: "numpy" or "torch", whose arrays it is given.

    Raises:
        UserError: if it has no part of the model.
    """

    def __init__(self, target: Any, part: str | None = None, framework: str = "numpy") -> None:
        self.name = getattr(target, "__name__", type(target).__name__)
        if part is None and self.name in PARTS and not inspect.ismodule(target):
            part = self.name
        named = tuple(name for name in PARTS if callable(getattr(target, name, None)))
        self.parts = named if part is None else (part,)
        self._target = target
        self._torch = importlib.import_module("torch") if framework == "torch" else None
        if not self.parts:
            raise UserError(
                f"{self.name}: neither it nor one of its functions is named for a part of the "
                f"model: {', '.join(PARTS)}; rename it, or say by --part (part= in Python) what it "
                "computes"
            )

    def layouts(self, part: str) -> list[Layout]:
        """Return the layouts to try, in this order."""
        orders = (False, True) if "mask" in PARTS[part].inputs else (False,)
        batches = [Layout(order, rows) for rows in ("all", "batch of one") for order in orders]
        return [*batches, Layout(rows="no batch axis")]

    def knows_padding(self, part: str) -> bool:
        """Whether a part is told what is padding, or has none."""
        asked = _asked(self._function(part, None))
        return asked is None or "mask" in asked or "mask" not in PARTS[part].inputs

    def run(self, part: str, layout: Layout, given: Arrays, edited: Arrays | None = None) -> Arrays:
        """Run a part, and return its quantities batch first.

        Args:
            given: its inputs, ``mask`` and ``y_mask``, batch first, padded on the right.
            edited: parameters that replace the authors'.

        Raises:
            Refused: if the code fails, with file and line; if its output cannot be compared.
        """
        p = {
            name: self._converted(array, layout)
            for name, array in (parameters() | (edited or {})).items()
        }
        function = self._function(part, p)
        asked = _asked(function)

        def called(**inputs: np.ndarray) -> Any:
            offered = {n: self._converted(array, layout) for n, array in inputs.items()}
            offered = {"p": p} | offered
            if asked is not None:
                offered = _those(asked, p | offered)
            return self._guarded(function, offered)

        return run_in_layout(called, part, layout, given, self._as_array)

    def _function(self, part: str, p: Mapping[str, Any] | None) -> Callable:
        """Return the function of a part, of a new instance if there are parameters for one."""
        owner = self._target
        if inspect.isclass(owner) and p is not None:
            owner = self._guarded(owner, _those(_asked(owner) or [], {"p": p, **p}))
        for name in (part, "forward"):
            if callable(getattr(owner, name, None)):
                return getattr(owner, name)
        return owner.__call__ if inspect.isclass(owner) else owner

    def _guarded(self, function: Callable, arguments: Mapping[str, Any]) -> Any:
        """Call the code; an error in it is shown with its place."""
        try:
            return function(**arguments)
        except (Exception, SystemExit) as problem:
            raise refused(problem, self.name) from problem

    def _converted(self, array: np.ndarray, layout: Layout) -> Any:
        is_wide = layout.single and array.dtype == np.float64
        array = np.array(array, dtype=np.float32 if is_wide else array.dtype)
        return self._torch.from_numpy(array) if self._torch else array

    def _as_array(self, value: Any) -> np.ndarray:
        if self._torch:
            value = self._torch.as_tensor(value).detach().cpu()
            value = value.double() if value.is_floating_point() else value
        return np.asarray(value)


def refused(problem: BaseException, name: str) -> Refused:
    """Describe an exception, with its last place outside of libraries, if any."""
    frames = traceback.extract_tb(problem.__traceback__)[1:]
    libraries = sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), "<"
    places = [
        f"{Path(one.filename).name}, line {one.lineno}: `{one.line}`"
        for one in frames
        if not one.filename.startswith(libraries)
    ]
    return Refused(f"{[name, *places][-1]}: {reason(problem)}")


def _those(asked: Sequence[str], offered: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in offered.items() if name in asked}


def _asked(function: Callable) -> list[str] | None:
    """Return the names of the arguments; None if it takes any."""
    parameters = inspect.signature(function).parameters.values()
    if any(one.kind is one.VAR_KEYWORD for one in parameters):
        return None
    return [one.name for one in parameters]


def run_in_layout(
    function: Callable,
    part: str,
    layout: Layout,
    given: Arrays,
    as_array: Callable[[Any], np.ndarray] = np.asarray,
) -> Arrays:
    """Call a function of a part in a layout, and bring what it returns into one form.

    Args:
        given: inputs, ``mask`` and ``y_mask``, batch first, padded on the right.

    Raises:
        Refused: if what it returns has neither the names nor the shapes of the part's outputs.
    """
    inputs, outputs = PARTS[part]
    rows = len(next(given[name] for name in inputs))
    is_batch = layout.rows in ("all", "one length")
    batches = [slice(None)] if is_batch else [slice(b, b + 1) for b in range(rows)]
    of_runs = []
    for batch in batches:
        cut = {} if layout.rows == "all" else {
            axis: given[mask][batch].sum(1).min()
            for axis, mask in (("x", "mask"), ("y", "y_mask"))
            if mask in given
        }  # fmt: skip
        arguments, sizes = {}, {"n": 12, "c": 24, "k": 25}
        for name, axes in inputs.items():
            array = given[name][batch][tuple(slice(cut.get(axis)) for axis in axes)]
            sizes.update(zip(axes, array.shape, strict=True))
            if layout.rows == "no batch axis":
                array = array[0]
            elif layout.time_first and axes[1:2] in ("x", "y"):
                array = array.swapaxes(0, 1)
            arguments[name] = array
        of_runs.append(_identified(function(**arguments), outputs, sizes, as_array))
    return {name: _joined([one[name] for one in of_runs]) for name in of_runs[0]}


def _joined(rows: Sequence[np.ndarray]) -> np.ndarray:
    """Join the rows of a batch, each padded with zeros to the longest."""
    if len(rows) == 1:
        return rows[0]
    joined = np.zeros((len(rows), *np.max([row.shape[1:] for row in rows], axis=0)))
    for number, own in enumerate(rows):
        joined[(number, *map(slice, own.shape[1:]))] = own[0]
    return joined


def _identified(
    returned: Any,
    outputs: Mapping[str, str],
    sizes: Mapping[str, int],
    as_array: Callable[[Any], np.ndarray],
) -> Arrays:
    """Return the quantities by name, by their names or by their shapes."""
    identified: Arrays = {}
    if isinstance(returned, Mapping):
        pairs = [((name,), value) for name, value in returned.items()]
    else:
        # energies beside weights would have their shape
        names = [n for n in outputs if n != "energies" or "weights" not in outputs]
        values = returned if isinstance(returned, tuple) else (returned,)
        pairs = [(names, value) for value in values if value is not None]
    if unknown := [name for names, _ in pairs for name in names if name not in outputs]:
        near = neighbours(str(unknown[0]), outputs)
        raise Refused(f"returns {unknown[0]!r}{near}; names are {', '.join(outputs)}")
    for names, value in pairs:
        try:
            array = as_array(value)
        except (TypeError, ValueError, RuntimeError) as problem:
            raise Refused(f"returns something that is not an array: {reason(problem)}") from problem
        if array.dtype.kind not in "fiub":
            raise Refused(
                f"returns {array.dtype}: expected an array of real numbers, a tuple of such "
                "arrays, or a dict of them"
            )
        shapes = [(name, outputs[name]) for name in names]
        if "context" in names:  # of the keys, n' = n numbers; a state has as many, and goes first
            shapes.append(("context", outputs["context"].replace("c", "n")))
        for name, axes in shapes:
            fitted = _fitted(array, axes, sizes) if name not in identified else None
            if fitted is not None:
                identified[name] = fitted
                break
        else:
            expected = [f"{n} {tuple(sizes[a] for a in outputs[n])}" for n in names]
            raise Refused(
                f"returns an array of shape {array.shape}; may be {', '.join(expected)}; name it "
                "step if it returns several of a step's quantities"
            )
    if not identified:
        raise Refused(f"returns nothing; may be {', '.join(outputs)}")
    return identified


def _fitted(array: np.ndarray, axes: str, sizes: Mapping[str, int]) -> np.ndarray | None:
    """Return an array with these axes: another order of them, or without axes of length 1."""
    wanted, given = [sizes[axis] for axis in axes], [size for size in array.shape if size != 1]
    present = [size for size in wanted if size != 1]
    if sorted(present) != sorted(given):
        return None
    order = [given.index(size) for size in present]
    return array.reshape(given).transpose(order).reshape(wanted).astype(np.float64)
