"""One search of a memory. A failed search costs its question, and the conversation goes on."""

from __future__ import annotations

from msgspec import Struct

from assay.core.errors import CaseFailed, ModelError
from assay.core.memory import Query, SearchHit
from assay.core.types import Failure
from assay.suites.memory.timed_memory import TimedMemory


class Search(Struct, frozen=True):
    """A question with what the memory returned for it. A search that failed has a `failure` and no hits."""

    query: Query
    hits: list[SearchHit]
    seconds: float = 0.0
    failure: Failure | None = None


async def search_once(memory: TimedMemory, query: Query, k: int) -> Search:
    """Search the memory. An exception of its code, a time-out or a refusal of its model is the failure of the search.

    Raises ModelError if the endpoint failed: the case is then tried again.
    """
    try:
        hits, seconds = await memory.search(query, k)
    except (CaseFailed, ModelError) as error:
        if error.failure.status == "infra_error":
            raise
        return Search(query, [], failure=error.failure)
    return Search(query, hits, seconds)
