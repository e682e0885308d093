"""Embeddings: the messages whose vectors are nearest to that of the question."""

from __future__ import annotations

from assay.core.memory import AboutMemory, Around, options_of
from assay.memories.index.nearest import Nearest

ABOUT = AboutMemory(
    summary="finds messages by the cosine of embeddings, dates and speakers included",
    embeds=True,
    options={"centre": True, "date": True},
)


def make(around: Around) -> Nearest:
    """It needs the embedder only."""
    return Nearest(around, **options_of(ABOUT, around.options))
