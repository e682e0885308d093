"""An embedder that anyone can check by hand: how often each letter stands in a text, at length 1."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from assay.core.memory import Around, Message


def letters(text: str) -> np.ndarray[Any, Any]:
    row = np.zeros(26, np.float32)
    for letter in text.lower():
        if "a" <= letter <= "z":
            row[ord(letter) - ord("a")] += 1
    return row / max(float(np.linalg.norm(row)), 1e-9)


async def embed(texts: Sequence[str]) -> np.ndarray[Any, Any]:
    return np.stack([letters(text) for text in texts])


def around(embedder: Any = embed, **options: Any) -> Around:
    nothing: Any = None
    return Around(
        ask=nothing, embed=embedder, base_url=nothing, folder=Path(), rng=random.Random(0), options=options
    )


def messages(*said: str, session: str = "1", date: str = "") -> list[Message]:
    return [Message(f"D{session}:{n}", text, "", session, date) for n, text in enumerate(said, 1)]
