"""Read options that fairseq evaluates as Python; here they are never executed.

``--adam-betas``, ``--model-overrides`` and the layers of some models are strings that fairseq
passes to ``eval``, those in the configuration of a checkpoint too: without this, a checkpoint of
plain values could still run code.
"""

import ast
from typing import Any

from fairseq_rnnsearch.errors import UserError

# "[(512, 3)] * 20" is such an option; no model has more layers
_MOST_ITEMS = 10_000


def read_value(text: str) -> Any:
    """Return the value of a Python literal, or of a sum of lists, which may be repeated.

    Raises:
        TypeError: for anything but a string, as ``eval``; fairseq relies on it.
        UserError: for a string that is anything else.
    """
    if not isinstance(text, str):
        raise TypeError(f"a string is evaluated, not {text!r}")
    try:
        return _value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError) as problem:
        raise UserError(
            f"the option value {text!r:.100} is not a value: fairseq would run it as Python; "
            "valid: numbers, strings, True, False, None, lists, tuples and dictionaries of them"
        ) from problem


def read_overrides(text: str) -> dict[str, Any]:
    """Return the value of ``--model-overrides`` or ``--optimizer-overrides``.

    Raises:
        UserError: when it is no dictionary of plain values.
    """
    try:
        value = read_value(text)
    except UserError:
        value = None
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise UserError(
            f"--model-overrides or --optimizer-overrides {text!r:.100}: must be a dictionary of "
            "names and plain values, such as \"{'dropout': 0.1}\""
        )
    return value


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mult):
        left, right, is_sum = _value(node.left), _value(node.right), isinstance(node.op, ast.Add)
        kinds = list | tuple, list | tuple if is_sum else int
        if not (isinstance(left, kinds[0]) and isinstance(right, kinds[1])):
            raise ValueError("only lists are added, and repeated")
        if (len(left) + len(right) if is_sum else len(left) * right) > _MOST_ITEMS:
            raise ValueError("too long")
        return left + right if is_sum else left * right
    return ast.literal_eval(node)
