"""How JSON values compare and compute, without ever raising: what makes no sense is false or null."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from typing import Any

MAX_NUMBER = 2**64
NUMBERS = (int, float)

Test = Callable[[Any, Any], bool]


def is_number(value: Any) -> bool:
    """A number that can be reckoned with: no bool, and no integer that grows without end."""
    kind = type(value)
    return kind is float or (kind is int and -MAX_NUMBER < value < MAX_NUMBER)


def bounded(value: float) -> float | None:
    """Null for what JSON cannot hold: infinity, NaN, and integers of more than 64 bits."""
    if type(value) is int:
        return value if -MAX_NUMBER < value < MAX_NUMBER else None
    return value if math.isfinite(value) else None


def negative(value: Any) -> Any:
    """Null for what is no number."""
    return -value if is_number(value) else None


def same(one: Any, two: Any) -> bool:
    """Equal as JSON: a boolean is no number, at any depth."""
    if isinstance(one, bool) or isinstance(two, bool):
        return one is two
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(map(same, one, two))
    if isinstance(one, dict) and isinstance(two, dict):
        return one.keys() == two.keys() and all(same(one[key], two[key]) for key in one)
    return bool(one == two)


def _ordered(compare: Callable[[Any, Any], bool]) -> Test:
    def test(one: Any, two: Any) -> bool:
        numbers = type(one) in NUMBERS and type(two) in NUMBERS
        return compare(one, two) if numbers or (type(one) is str and type(two) is str) else False

    return test


def holds(one: Any, two: Any) -> bool | None:
    """Whether `two` holds `one`; None where the question makes no sense."""
    if isinstance(two, list):
        return any(same(one, each) for each in two)
    if isinstance(two, (str, dict)) and isinstance(one, str):
        return one in two
    return None


TESTS: dict[type[ast.cmpop], Test] = {
    ast.Eq: same,
    ast.NotEq: lambda one, two: not same(one, two),
    ast.Lt: _ordered(operator.lt),
    ast.LtE: _ordered(operator.le),
    ast.Gt: _ordered(operator.gt),
    ast.GtE: _ordered(operator.ge),
    ast.In: lambda one, two: holds(one, two) is True,
    ast.NotIn: lambda one, two: holds(one, two) is False,
}
