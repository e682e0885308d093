"""Replaces replies by a table."""

from __future__ import annotations

from typing import Any

from assay.core.errors import UsageError
from assay.scoring.filters import Filter


def build(*, mapping_dict: dict[Any, Any] | None = None, default_value: Any = None) -> Filter:
    """What the table does not have becomes `default_value`, which may be null."""
    table = {} if mapping_dict is None else mapping_dict
    if not isinstance(table, dict):
        raise UsageError(f"`mapping_dict` is {table!r}; expected a mapping from replies to values")
    return lambda replies: [table.get(reply, default_value) for reply in replies]
