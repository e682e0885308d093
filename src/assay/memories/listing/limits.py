"""How many items a search gives."""

from __future__ import annotations


def most(k: int, own: int) -> int:
    """What the search asks for; a memory's own `k` only makes it less, and 0 says that it has none."""
    return max(0, min(k, own) if own else k)
