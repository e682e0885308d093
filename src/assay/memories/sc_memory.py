"""SCMemory, Self-Controlled Memory: the model decides whether a question needs more than the last messages.

The model summarises each message when it is stored. A search works in three steps:

1. The model sees the last `flash` messages. If it says that they suffice, they are the result.
2. Otherwise the `activate` best older messages are added, by cosine + decay ** (messages since last found).
3. The model sees summaries of these. If it says that the summaries suffice, they are returned, else the full
   messages.

If two replies in a row are neither yes nor no, or two summaries are empty, the case fails.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from assay.core.memory import AboutMemory, MemoryContext, MemoryItem, Message, Query, SearchHit, options_of
from assay.memories.helpers.messages import message_item
from assay.memories.helpers.prompts import PromptAsker, date_attribute, prompt_version
from assay.memories.helpers.scores import limit, recency, top_places
from assay.memories.helpers.vectors import EmbeddedItems

ABOUT = AboutMemory(
    summary="returns the last messages; the model decides whether to add older ones, in full or as summaries",
    asks=True,
    embeds=True,
    options={"k": 0, "flash": 3, "activate": 3, "decay": 0.995},
    prompts=prompt_version("summary", "suffices", "summaries"),
)


class SelfControlledMemory:
    """Stores every message with its summary. A summary in a search result has the id of its message."""

    def __init__(self, context: MemoryContext) -> None:
        self._options = options_of(ABOUT, context.options)
        self._asker = PromptAsker(context, "SCMemory")
        self._embedded = EmbeddedItems(context)
        self.reset()

    def reset(self) -> None:
        """Remove all messages and summaries."""
        self._embedded.reset()
        self._summaries: list[str] = []
        self._last_found: list[int] = []

    async def add(self, messages: Sequence[Message]) -> None:
        """Store one item for each message. The model writes its summary."""
        for item in map(message_item, messages):
            summary = await self._asker.text("summary", text=item.text, date=date_attribute(item.date))
            await self._embedded.add([item])
            self._summaries.append(summary)
            # Time is counted in messages. A new message counts as found at the time of its own arrival.
            self._last_found.append(len(self._last_found) + 1)

    async def search(self, query: Query, k: int) -> list[SearchHit]:
        """Return older messages if the model needs them, best first, then the last messages, newest first."""
        size, max_hits = len(self._embedded.items), limit(k, self._options["k"])
        if not size or not max_hits:
            return []
        flash = list(range(size))[::-1][: self._options["flash"]]
        latest = self._embedded.hits(flash, recency(self._options["decay"], size, self._last_found))
        # There are no older messages, so the model need not be asked.
        if len(latest) == size:
            return latest[:max_hits]
        if latest and await self._asker.choice("suffices", text=_join(latest), question=query.text):
            return latest[:max_hits]
        return [*await self._activate(query.text, latest), *latest][:max_hits]

    def items(self) -> list[MemoryItem]:
        """Return the messages, in order."""
        return list(self._embedded.items)

    def end_session(self) -> None:
        """Do nothing."""

    async def _activate(self, question: str, latest: list[SearchHit]) -> list[SearchHit]:
        """Return the best older messages, or their summaries if the model says that these suffice."""
        now = len(self._embedded.items)
        scores = await self._embedded.similarity(question)
        scores = scores + recency(self._options["decay"], now, self._last_found)
        places = top_places(scores[: now - len(latest)], self._options["activate"])
        for place in places:
            self._last_found[place] = now
        messages = self._embedded.hits(places, scores)
        summaries: list[SearchHit] = []
        for hit, place in zip(messages, places, strict=True):
            item = replace(hit.item, text=self._summaries[place], kind="sc_summary")
            summaries.append(SearchHit(item, hit.score))
        enough = await self._asker.choice(
            "summaries", summaries=_join(summaries), text=_join(latest), question=question
        )
        return summaries if enough else messages


def _join(hits: Sequence[SearchHit]) -> str:
    return "\n".join(hit.item.text for hit in hits)


def make(context: MemoryContext) -> SelfControlledMemory:
    """Make an empty memory. It asks the model once per message and up to twice per search."""
    return SelfControlledMemory(context)
