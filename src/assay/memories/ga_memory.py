"""Generative Agents: what is near, recent and important.

score = cosine + decay ** (messages since it was last found) + importance / 10. Importance is the model's
rating from 1 to 10, and 4 where two replies hold none, as the authors do. When a session ends and the
importance gathered (in tenths) has reached `reflect_at`, the last `recent` items raise `questions` questions;
the `recent` items nearest to each of them lead to `insights` new items, whose importance is rated too.
(The paper reflects at 15, over the last 100; the defaults are MemEngine's.) Replies without any line twice
are an error.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from assay.core.memory import AboutMemory, Around, Found, Item, Message, Query, options_of
from assay.memories.asking.asker import Asker
from assay.memories.asking.wording import fingerprint
from assay.memories.index.held import Held
from assay.memories.index.ranking import best
from assay.memories.index.recency import recency
from assay.memories.listing.items import item_of
from assay.memories.listing.limits import most

ABOUT = AboutMemory(
    summary="what is near to the question, recent and important; insights after a session",
    asks=True,
    embeds=True,
    options={"k": 0, "decay": 0.995, "reflect_at": 0.3, "recent": 2, "questions": 2, "insights": 2},
    prompts=fingerprint("importance", "questions", "insights"),
)
UNRATED = 4.0


class GenerativeAgents:
    """Messages and insights, each with an importance and the time at which it was last found."""

    def __init__(self, around: Around) -> None:
        self._options = options_of(ABOUT, around.options)
        self._asker = Asker(around, "GAMemory")
        self._held = Held(around)
        self.reset()

    def reset(self) -> None:
        """Hold nothing; time begins anew."""
        self._held.reset()
        self._importance: list[float] = []
        self._last: list[int] = []
        self._now = 0
        self._insights = 0
        self._gathered = 0.0

    async def add(self, messages: Sequence[Message]) -> None:
        """One item a message; each message is a step in time."""
        for message in messages:
            self._now += 1
            await self._hold(item_of(message))

    async def search(self, query: Query, k: int) -> list[Found]:
        """The best sums. What is found is recent again."""
        if not self._held.items:
            return []
        near = await self._held.nearness(query.text)
        scores = near + recency(self._options["decay"], self._now, self._last) + self._importance
        places = best(scores, most(k, self._options["k"]))
        for place in places:
            self._last[place] = self._now
        return self._held.found(places, scores)

    def items(self) -> list[Item]:
        """Messages and insights in the order in which they came."""
        return list(self._held.items)

    async def end_session(self) -> None:
        """Reflect, if enough that matters was said since the last time."""
        able = all(self._options[name] for name in ("recent", "questions", "insights"))
        if able and self._held.items and self._gathered >= self._options["reflect_at"]:
            self._gathered = 0.0
            await self._reflect(self._held.items[-self._options["recent"] :])

    async def _reflect(self, recent: list[Item]) -> None:
        text = "\n".join(item.text for item in recent)
        questions = await self._asker.lines("questions", self._options["questions"], text=text)
        evidence = [self._held.items[place] for place in await self._nearest(questions)]
        text = "\n".join(item.text for item in evidence)
        sources = tuple(dict.fromkeys(source for item in evidence for source in item.sources))
        for insight in await self._asker.lines("insights", self._options["insights"], text=text):
            self._insights += 1
            made = Item(f"insight:{self._insights}", insight, recent[-1].session, recent[-1].date)
            await self._hold(replace(made, sources=sources, kind="ga_insight"))

    async def _nearest(self, questions: list[str]) -> list[int]:
        """What the questions are answered from, each item once."""
        found = [best(await self._held.nearness(text), self._options["recent"]) for text in questions]
        return list(dict.fromkeys(place for places in found for place in places))

    async def _hold(self, item: Item) -> None:
        rating = await self._asker.rating("importance", UNRATED, text=item.text)
        await self._held.add([item])
        self._importance.append(rating / 10)
        self._last.append(self._now)
        self._gathered += rating / 10


def make(around: Around) -> GenerativeAgents:
    """It asks once a message, and to reflect."""
    return GenerativeAgents(around)
