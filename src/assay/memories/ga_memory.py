"""GAMemory, Generative Agents: finds what is near, recent and important.

score = cosine + decay ** (messages since it was last found) + importance / 10. The model rates the
importance from 1 to 10; it is 4 where two replies have no rating, as the authors do.

When a session ends and the importance gathered since the last reflection (in tenths) has reached
`reflect_at`, the memory reflects: the last `recent` items raise `questions` questions, the `recent` items
nearest to each question lead to `insights` new items, and their importance is rated too. The paper reflects
at 15, over the last 100 items; the defaults are MemEngine's. Two replies without any line fail the case.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from assay.core.memory import AboutMemory, MemoryContext, MemoryItem, Message, Query, SearchHit, options_of
from assay.memories.helpers.messages import message_item
from assay.memories.helpers.prompts import PromptAsker, fingerprint
from assay.memories.helpers.scores import limit, recency, top_places
from assay.memories.helpers.vectors import EmbeddedItems

ABOUT = AboutMemory(
    summary="what is near to the question, recent and important; insights after a session",
    asks=True,
    embeds=True,
    options={"k": 0, "decay": 0.995, "reflect_at": 0.3, "recent": 2, "questions": 2, "insights": 2},
    prompts=fingerprint("importance", "questions", "insights"),
)
DEFAULT_IMPORTANCE = 4.0


class GenerativeAgentsMemory:
    """Messages and insights, each with its importance and the time at which it was last found.

    Time is the number of messages so far.
    """

    def __init__(self, context: MemoryContext) -> None:
        self._options = options_of(ABOUT, context.options)
        self._asker = PromptAsker(context, "GAMemory")
        self._embedded = EmbeddedItems(context)
        self.reset()

    def reset(self) -> None:
        """Remove all items, and set the time to 0."""
        self._embedded.reset()
        self._importance: list[float] = []
        self._last_found: list[int] = []
        self._now = 0
        self._insight_count = 0
        self._importance_since_reflection = 0.0

    async def add(self, messages: Sequence[Message]) -> None:
        """Store one item for each message, and ask for its importance."""
        for message in messages:
            self._now += 1
            await self._store(message_item(message))

    async def search(self, query: Query, k: int) -> list[SearchHit]:
        """Return the items with the best scores. They count as found now, which makes them recent."""
        if not self._embedded.items:
            return []
        scores = await self._embedded.similarity(query.text)
        scores = scores + recency(self._options["decay"], self._now, self._last_found) + self._importance
        places = top_places(scores, limit(k, self._options["k"]))
        for place in places:
            self._last_found[place] = self._now
        return self._embedded.hits(places, scores)

    def items(self) -> list[MemoryItem]:
        """Return messages and insights in the order in which they came."""
        return list(self._embedded.items)

    async def end_session(self) -> None:
        """Reflect, if enough of importance was said since the last reflection."""
        # An option of 0 switches reflection off.
        enabled = all(self._options[name] for name in ("recent", "questions", "insights"))
        enough = self._importance_since_reflection >= self._options["reflect_at"]
        if enabled and enough and self._embedded.items:
            self._importance_since_reflection = 0.0
            await self._reflect(self._embedded.items[-self._options["recent"] :])

    async def _reflect(self, recent: list[MemoryItem]) -> None:
        text = "\n".join(item.text for item in recent)
        questions = await self._asker.lines("questions", self._options["questions"], text=text)
        places: dict[int, None] = {}  # an ordered set: each item is evidence once
        for question in questions:
            similarity = await self._embedded.similarity(question)
            places |= dict.fromkeys(top_places(similarity, self._options["recent"]))
        evidence = [self._embedded.items[place] for place in places]
        text = "\n".join(item.text for item in evidence)
        sources = tuple(dict.fromkeys(source for item in evidence for source in item.sources))
        for insight in await self._asker.lines("insights", self._options["insights"], text=text):
            self._insight_count += 1
            item = MemoryItem(f"insight:{self._insight_count}", insight, recent[-1].session, recent[-1].date)
            await self._store(replace(item, sources=sources, kind="ga_insight"))

    async def _store(self, item: MemoryItem) -> None:
        rating = await self._asker.rating("importance", DEFAULT_IMPORTANCE, text=item.text)
        await self._embedded.add([item])
        self._importance.append(rating / 10)
        self._last_found.append(self._now)
        self._importance_since_reflection += rating / 10


def make(context: MemoryContext) -> GenerativeAgentsMemory:
    """Make an empty memory. It asks once for each message, and when it reflects."""
    return GenerativeAgentsMemory(context)
