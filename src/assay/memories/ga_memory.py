"""GAMemory, Generative Agents: finds items that are near to the question, recent and important.

    score = cosine + decay ** (messages since the item was last found) + importance / 10

The model rates the importance of each item from 1 to 10. If two replies have no rating, the importance is 4, as
in the authors' code.

At the end of a session the memory reflects if the sum of importance / 10 since the last reflection has reached
`reflect_at`. To reflect, the model writes `questions` questions about the last `recent` items. From the `recent`
items nearest to each question it writes `insights` insights, which become new items. The paper reflects at 15
and over the last 100 items; the defaults here are those of MemEngine. If two replies contain no line, the case
fails.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from assay.core.memory import AboutMemory, MemoryContext, MemoryItem, Message, Query, SearchHit, options_of
from assay.memories.helpers.messages import message_item
from assay.memories.helpers.prompts import PromptAsker, prompt_version
from assay.memories.helpers.scores import limit, recency, top_places
from assay.memories.helpers.vectors import EmbeddedItems

ABOUT = AboutMemory(
    summary="finds items that are near to the question, recent and important; adds insights after sessions",
    asks=True,
    embeds=True,
    options={"k": 0, "decay": 0.995, "reflect_at": 0.3, "recent": 2, "questions": 2, "insights": 2},
    prompts=prompt_version("importance", "questions", "insights"),
)
# Used if the model gives no rating. The value is that of the authors' code.
DEFAULT_IMPORTANCE = 4.0


class GenerativeAgentsMemory:
    """Stores messages and insights, each with its importance and the time at which a search last returned it.

    Time is counted in messages.
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
        """Store one item for each message. The model rates its importance."""
        for message in messages:
            self._now += 1
            await self._store(message_item(message))

    async def search(self, query: Query, k: int) -> list[SearchHit]:
        """Return the items with the best scores. Being found makes an item recent for later searches."""
        if not self._embedded.items:
            return []
        scores = await self._embedded.similarity(query.text)
        scores = scores + recency(self._options["decay"], self._now, self._last_found) + self._importance
        places = top_places(scores, limit(k, self._options["k"]))
        for place in places:
            self._last_found[place] = self._now
        return self._embedded.hits(places, scores)

    def items(self) -> list[MemoryItem]:
        """Return messages and insights in the order in which they were stored."""
        return list(self._embedded.items)

    async def end_session(self) -> None:
        """Reflect, if the messages since the last reflection are important enough."""
        # Any of these options can be set to 0 to switch reflection off.
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
    """Make an empty memory. It asks the model once per message, and when it reflects."""
    return GenerativeAgentsMemory(context)
