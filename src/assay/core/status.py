"""How an operator, or a whole function, ended."""

from __future__ import annotations

from enum import StrEnum
from typing import Any


class HopStatus(StrEnum):
    """A member is its text: `HopStatus.OK == "OK"`, in JSON too.

    LACK_OF_INFO is the model's word that the context does not hold what the task needs; UNCERTAIN means that
    there is a result and nobody confirmed it.
    """

    OK = "OK"
    FAIL = "FAIL"
    UNCERTAIN = "UNCERTAIN"
    LACK_OF_INFO = "LACK_OF_INFO"


OK, FAIL = HopStatus.OK.value, HopStatus.FAIL.value
UNCERTAIN, LACK_OF_INFO = HopStatus.UNCERTAIN.value, HopStatus.LACK_OF_INFO.value
STATUSES = frozenset(each.value for each in HopStatus)


def known_status(value: Any) -> str | None:
    """The status that a value means: its text, or a member of any enum whose value or name is one."""
    candidates = (getattr(value, "value", value), getattr(value, "name", value))
    return next((str(each) for each in candidates if isinstance(each, str) and each in STATUSES), None)
