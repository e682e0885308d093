"""An embedder that anyone can check by hand: how often each letter stands in a text, at length 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from assay.core.memory import MemoryContext

from support import memories


def letters(text: str) -> np.ndarray[Any, Any]:
    row = np.zeros(26, np.float32)
    for letter in text.lower():
        if "a" <= letter <= "z":
            row[ord(letter) - ord("a")] += 1
    return row / max(float(np.linalg.norm(row)), 1e-9)


async def embed(texts: Sequence[str]) -> np.ndarray[Any, Any]:
    return np.stack([letters(text) for text in texts])


def around(embedder: Any = embed, **options: Any) -> MemoryContext:
    """The world of one memory, with this embedder or another."""
    return replace(memories.around(**options), embed=embedder)
