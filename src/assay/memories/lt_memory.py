"""LTMemory, long-term memory: returns the k messages whose embeddings are nearest to the question, by cosine.

It is `dense` without two improvements: it does not subtract the mean vector, and it does not embed dates.
"""

from __future__ import annotations

from assay.core.memory import AboutMemory, MemoryContext, options_of
from assay.memories.dense import DenseMemory

ABOUT = AboutMemory(
    summary="returns the k messages nearest to the question, by cosine of embeddings",
    embeds=True,
    options={"k": 0},
)


def make(context: MemoryContext) -> DenseMemory:
    """Make an empty memory."""
    return DenseMemory(context, **options_of(ABOUT, context.options))
