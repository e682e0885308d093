"""Self-Controlled Memory: the model decides whether the last messages suffice, or older ones are needed.

Each message is summarised. A search shows the model the `flash` last messages. Where they do not suffice, the
`activate` best of the older ones by cosine + decay ** (messages since last found) come before them: as
summaries where the model says that these suffice, else in full. A reply that is neither yes nor no twice, or
a summary that is empty twice, is an error.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from assay.core.memory import AboutMemory, Around, Found, Item, Message, Query, options_of
from assay.memories.asking.asker import Asker
from assay.memories.asking.wording import dated, fingerprint
from assay.memories.index.held import Held
from assay.memories.index.ranking import best
from assay.memories.index.recency import recency
from assay.memories.listing.items import item_of
from assay.memories.listing.limits import most

ABOUT = AboutMemory(
    summary="the last messages, and older ones, in full or as summaries, where the model asks for them",
    asks=True,
    embeds=True,
    options={"k": 0, "flash": 3, "activate": 3, "decay": 0.995},
    prompts=fingerprint("summary", "suffices", "summaries"),
)


class SelfControlled:
    """Every message with its summary. A found summary has the message's id."""

    def __init__(self, around: Around) -> None:
        self._options = options_of(ABOUT, around.options)
        self._asker = Asker(around, "SCMemory")
        self._held = Held(around)
        self.reset()

    def reset(self) -> None:
        """Hold nothing; time begins anew."""
        self._held.reset()
        self._summaries: list[str] = []
        self._last: list[int] = []

    async def add(self, messages: Sequence[Message]) -> None:
        """One item a message, and its summary."""
        for item in map(item_of, messages):
            summary = await self._asker.text("summary", text=item.text, date=dated(item.date))
            await self._held.add([item])
            self._summaries.append(summary)
            self._last.append(len(self._last) + 1)

    async def search(self, query: Query, k: int) -> list[Found]:
        """What was activated, best first, then the last messages, newest first."""
        size, limit = len(self._held.items), most(k, self._options["k"])
        if not size or not limit:
            return []
        flash = list(range(size))[::-1][: self._options["flash"]]
        scores = recency(self._options["decay"], size, self._last)
        latest = self._held.found(flash, scores)
        if len(flash) == size or await self._suffices(query.text, latest):
            return latest[:limit]
        return [*await self._activated(query.text, latest), *latest][:limit]

    def items(self) -> list[Item]:
        """The messages, in order."""
        return list(self._held.items)

    def end_session(self) -> None:
        """Nothing is done then."""

    async def _suffices(self, question: str, latest: list[Found]) -> bool:
        if not latest:
            return False
        return await self._asker.choice("suffices", text=_text(latest), question=question)

    async def _activated(self, question: str, latest: list[Found]) -> list[Found]:
        now = len(self._held.items)
        scores = await self._held.nearness(question) + recency(self._options["decay"], now, self._last)
        older = now - len(latest)
        places = best(scores[:older], self._options["activate"])
        for place in places:
            self._last[place] = now
        found = self._held.found(places, scores)
        brief = [
            Found(replace(each.item, text=self._summaries[place], kind="sc_summary"), each.score)
            for each, place in zip(found, places, strict=True)
        ]
        enough = await self._asker.choice(
            "summaries", summaries=_text(brief), text=_text(latest), question=question
        )
        return brief if enough else found


def _text(found: Sequence[Found]) -> str:
    return "\n".join(each.item.text for each in found)


def make(around: Around) -> SelfControlled:
    """It asks once a message and up to twice a search."""
    return SelfControlled(around)
