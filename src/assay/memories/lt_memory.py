"""Long-term memory: the k messages whose vectors are nearest to the question's, by cosine."""

from __future__ import annotations

from assay.core.memory import AboutMemory, Around, options_of
from assay.memories.index.nearest import Nearest

ABOUT = AboutMemory(
    summary="the k messages nearest to the question, by cosine", embeds=True, options={"k": 0}
)


def make(around: Around) -> Nearest:
    """It needs the embedder only. Unlike `dense` it takes away no mean, and embeds no date."""
    return Nearest(around, **options_of(ABOUT, around.options))
