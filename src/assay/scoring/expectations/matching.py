"""How closely an output has to meet its expectation: `strict_mode`, `tolerance` and `ignore_fields`."""

from __future__ import annotations

import math
import sys
from typing import Any

from msgspec import Struct

from assay.core.errors import UsageError

# Half a unit in the last place of two numbers and of the tolerance, with room to spare.
_NOISE = 1e-15
_TOLERANCE_NOISE = 1e-9


class Matching(Struct, frozen=True):
    """Lenient: the expectation is part of the output. Strict: the same keys, and nothing is read out of text.

    A bare name in `ignore` holds at any depth, a dotted one is a path from the root without list indexes.
    """

    strict: bool = False
    tolerance: float = 0.0
    ignore: frozenset[str] = frozenset()


def matching_of(evaluation_config: dict[str, Any]) -> Matching:
    """The three fields that say how to compare; the others belong to whoever runs the comparison."""
    for path, message in matching_problems(evaluation_config):
        raise UsageError(f"{path}: {message}")
    return Matching(
        strict=bool(evaluation_config.get("strict_mode")),
        tolerance=float(evaluation_config.get("tolerance") or 0.0),
        ignore=frozenset(evaluation_config.get("ignore_fields") or ()),
    )


def matching_problems(evaluation_config: dict[str, Any]) -> list[tuple[str, str]]:
    """What is wrong with these fields; null is the same as leaving one out."""
    problems = []
    strict, tolerance = evaluation_config.get("strict_mode"), evaluation_config.get("tolerance")
    if strict is not None and not isinstance(strict, bool):
        problems.append(("strict_mode", f"true or false, not {strict!r}"))
    if tolerance is not None and not (is_number(tolerance) and 0 <= tolerance <= sys.float_info.max):
        problems.append(("tolerance", f"a number that is not negative, not {tolerance!r}"))
    return problems + _ignore_problems(evaluation_config.get("ignore_fields"))


def _ignore_problems(names: Any) -> list[tuple[str, str]]:
    if names is None:
        return []
    if not isinstance(names, (list, tuple)):
        return [("ignore_fields", f"a list of names, not {names!r}")]
    return [
        (f"ignore_fields[{at}]", "a name such as `timestamp`, or a path without indexes: `items.timestamp`")
        for at, name in enumerate(names)
        if not isinstance(name, str) or not name.strip() or "[" in name
    ]


def is_number(value: Any) -> bool:
    """True and false are no numbers."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def same_number(expected: float, actual: float, tolerance: float) -> bool:
    """Inclusive: 0.90 is within 0.05 of 0.85, although the difference of the floats is a little more.

    Without a tolerance only equal numbers are the same; NaN never is. The slack grows with the size of the
    numbers as their rounding does and no faster, so that milliseconds since 1970 are told apart.
    """
    if expected == actual:
        return True
    if not tolerance:
        return False
    try:
        difference = abs(expected - actual)
        rounded = isinstance(difference, float)
        slack = _NOISE * max(abs(expected), abs(actual)) if rounded else 0.0
    except OverflowError:  # an integer beyond every float
        return False
    return difference < math.inf and difference <= tolerance * (1 + _TOLERANCE_NOISE) + slack


def number_why(expected: float, actual: float, tolerance: float) -> str:
    """The sentence for two numbers that are not the same."""
    if tolerance:
        return f"{actual} differs from {expected} by more than {tolerance}"
    if isinstance(actual, float) and same_number(expected, actual, 1e-9 * abs(actual)):
        return f"expected {expected}, found {actual}; for numbers that are rounded set a tolerance"
    return f"expected {expected}, found {actual}"
