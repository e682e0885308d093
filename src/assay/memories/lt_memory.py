"""LTMemory, long-term memory: finds the k messages nearest to the question, by cosine.

Unlike `dense`, it subtracts no mean from the vectors and embeds no dates.
"""

from __future__ import annotations

from assay.core.memory import AboutMemory, MemoryContext, options_of
from assay.memories.dense import DenseMemory

ABOUT = AboutMemory(
    summary="the k messages nearest to the question, by cosine", embeds=True, options={"k": 0}
)


def make(context: MemoryContext) -> DenseMemory:
    """Make an empty memory."""
    return DenseMemory(context, **options_of(ABOUT, context.options))
