"""Keeps the first k replies."""

from __future__ import annotations

from typing import Any

from assay.scoring.filters import Filter


def build(*, k: int) -> Filter:
    """Fewer than k replies are an error: a vote over fewer would be called maj@k and be none."""

    def take(replies: list[Any]) -> list[Any]:
        if len(replies) < k:
            raise ValueError(f"take_first_k wants {k} replies, there are {len(replies)}; raise `repeats`")
        return replies[:k]

    return take
