"""SCMemory, Self-Controlled Memory: the model decides whether the last messages suffice.

Each message is summarised. A search shows the model the last `flash` messages. If they do not suffice, the
`activate` best of the older messages come before them, by cosine + decay ** (messages since last found).
They are given as summaries if the model says that these suffice, else in full. Two replies that are neither
yes nor no, or two empty summaries, fail the case.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from assay.core.memory import AboutMemory, MemoryContext, MemoryItem, Message, Query, SearchHit, options_of
from assay.memories.helpers.messages import message_item
from assay.memories.helpers.prompts import PromptAsker, date_attribute, fingerprint
from assay.memories.helpers.scores import limit, recency, top_places
from assay.memories.helpers.vectors import EmbeddedItems

ABOUT = AboutMemory(
    summary="the last messages, and older ones, in full or as summaries, where the model asks for them",
    asks=True,
    embeds=True,
    options={"k": 0, "flash": 3, "activate": 3, "decay": 0.995},
    prompts=fingerprint("summary", "suffices", "summaries"),
)


class SelfControlledMemory:
    """Every message with its summary. A summary in a search result has the id of its message."""

    def __init__(self, context: MemoryContext) -> None:
        self._options = options_of(ABOUT, context.options)
        self._asker = PromptAsker(context, "SCMemory")
        self._embedded = EmbeddedItems(context)
        self.reset()

    def reset(self) -> None:
        """Remove all messages, and set the time to 0."""
        self._embedded.reset()
        self._summaries: list[str] = []
        self._last_found: list[int] = []

    async def add(self, messages: Sequence[Message]) -> None:
        """Store one item for each message, and ask for its summary."""
        for item in map(message_item, messages):
            summary = await self._asker.text("summary", text=item.text, date=date_attribute(item.date))
            await self._embedded.add([item])
            self._summaries.append(summary)
            self._last_found.append(len(self._last_found) + 1)

    async def search(self, query: Query, k: int) -> list[SearchHit]:
        """Return older messages that the model wants, best first, then the last messages, newest first."""
        size, wanted = len(self._embedded.items), limit(k, self._options["k"])
        if not size or not wanted:
            return []
        flash = list(range(size))[::-1][: self._options["flash"]]
        latest = self._embedded.hits(flash, recency(self._options["decay"], size, self._last_found))
        if len(latest) == size:
            return latest[:wanted]
        if latest and await self._asker.choice("suffices", text=_join(latest), question=query.text):
            return latest[:wanted]
        return [*await self._activate(query.text, latest), *latest][:wanted]

    def items(self) -> list[MemoryItem]:
        """Return the messages, in order."""
        return list(self._embedded.items)

    def end_session(self) -> None:
        """Do nothing."""

    async def _activate(self, question: str, latest: list[SearchHit]) -> list[SearchHit]:
        """Return the best older messages, as summaries if the model says that these suffice."""
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
    """Make an empty memory. It asks once for each message and up to twice for each search."""
    return SelfControlledMemory(context)
