"""Filter `map`: replaces replies by values of a table."""

from __future__ import annotations

from typing import Any

from assay.core.errors import UsageError
from assay.scoring.filters import Filter


def build(*, mapping_dict: dict[Any, Any] | None = None, default_value: Any = None) -> Filter:
    """Return the filter. A reply that is not in `mapping_dict` becomes `default_value`."""
    table = {} if mapping_dict is None else mapping_dict
    if not isinstance(table, dict):
        raise UsageError(f"`mapping_dict` is {table!r}; expected a mapping from replies to values")
    return lambda replies: [table.get(reply, default_value) for reply in replies]
