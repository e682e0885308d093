"""Comparisons and arithmetic of JSON values, for conditions. Nothing raises: a senseless operation is False or None."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from typing import Any

# Integers are limited to 64 bits, because products of very large ones take long to compute.
MAX_NUMBER = 2**64
NUMBERS = (int, float)

Test = Callable[[Any, Any], bool]


def is_number(value: Any) -> bool:
    """Return whether a value is a number to compute with: not a boolean, not an integer of more than 64 bits."""
    kind = type(value)
    return kind is float or (kind is int and -MAX_NUMBER < value < MAX_NUMBER)


def bounded(value: float) -> float | None:
    """Return the number, or None for infinity, NaN and integers of more than 64 bits."""
    if type(value) is int:
        return value if -MAX_NUMBER < value < MAX_NUMBER else None
    return value if math.isfinite(value) else None


def negative(value: Any) -> Any:
    """Return the negative of a number, None for anything else."""
    return -value if is_number(value) else None


def same(left: Any, right: Any) -> bool:
    """Return whether two values are equal as JSON. Unlike in Python, `True` and `1` differ, at any depth."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    return bool(left == right)


def _ordered(compare: Callable[[Any, Any], bool]) -> Test:
    def test(left: Any, right: Any) -> bool:
        numbers = type(left) in NUMBERS and type(right) in NUMBERS
        texts = type(left) is str and type(right) is str
        return (numbers or texts) and compare(left, right)

    return test


def contains(item: Any, container: Any) -> bool | None:
    """Return whether the item is in the container; None if the container cannot contain it.

    `in` and `not in` are both false for None.
    """
    if isinstance(container, list):
        return any(same(item, other) for other in container)
    if isinstance(container, (str, dict)) and isinstance(item, str):
        return item in container
    return None


TESTS: dict[type[ast.cmpop], Test] = {
    ast.Eq: same,
    ast.NotEq: lambda left, right: not same(left, right),
    ast.Lt: _ordered(operator.lt),
    ast.LtE: _ordered(operator.le),
    ast.Gt: _ordered(operator.gt),
    ast.GtE: _ordered(operator.ge),
    ast.In: lambda item, container: contains(item, container) is True,
    ast.NotIn: lambda item, container: contains(item, container) is False,
}
