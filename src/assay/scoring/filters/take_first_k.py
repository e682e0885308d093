"""Filter `take_first_k`: returns the first k replies."""

from __future__ import annotations

from typing import Any

from assay.scoring.filters import Filter


def build(*, k: int) -> Filter:
    """Return the filter. It raises ValueError for fewer than k replies, since a score maj@k needs k of them.

    Raises ValueError for a k below 1.
    """
    if type(k) is not int or k < 1:
        raise ValueError(f"take_first_k: expected a k of at least 1, found {k!r}")

    def take(replies: list[Any]) -> list[Any]:
        if len(replies) < k:
            raise ValueError(f"take_first_k needs {k} replies, but there are {len(replies)}; raise `repeats`")
        return replies[:k]

    return take
