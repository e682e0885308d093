"""One comparison of an output with what was expected of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import UNSET, Struct

MISSING = UNSET
"""There is no actual value. In JSON the field is left out, so that it differs from null."""


class Check(Struct, frozen=True, omit_defaults=True):
    """Where, what kind, and whether it holds. `passed` is None where a judge has not said or was invalid.

    `expected` and `actual` are kept whole; `why` is one short sentence for what failed. `rule` is the id of
    the rule that asked for it.
    """

    path: str
    kind: str
    passed: bool | None
    expected: Any = MISSING
    actual: Any = MISSING
    why: str = ""
    rule: str = ""


def verdict(checks: Iterable[Check]) -> bool | None:
    """One failure decides. None where nothing was checked, or where only a judge's word is missing."""
    said: bool | None = None
    open_ = False
    for check in checks:
        if check.passed is False:
            return False
        open_ |= check.passed is None
        said = True
    return None if open_ else said
