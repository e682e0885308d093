"""MemoryBank: a summary of each day, one of all days, and a curve of forgetting.

A search gives the summary of all, then what is nearest, each kept with the chance R = exp(-t / (coef * S)),
where t is the number of days since it was last found and its strength S begins at 1 and grows by 1 with each
time it is found. A day is a date of the conversation (a session, where it has no date); days are counted,
not measured. `original: true` is MemEngine's formula, exp(-t / coef * S), in which nothing is strengthened.
A summary that is empty twice is an error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

from assay.core.errors import UsageError
from assay.core.memory import AboutMemory, Around, Found, Item, Message, Query, options_of
from assay.memories.asking.asker import Asker
from assay.memories.asking.wording import dated, fingerprint
from assay.memories.index.held import Held
from assay.memories.index.ranking import best
from assay.memories.listing.items import item_of
from assay.memories.listing.limits import most
from assay.memories.listing.words import newest

ABOUT = AboutMemory(
    summary="summaries of each day and of all, and what is nearest unless it is forgotten",
    asks=True,
    embeds=True,
    options={"k": 0, "coef": 5.0, "original": False, "day_words": 4_000},
    prompts=fingerprint("summary", "overview"),
)
KIND = "mb_summary"


class MemoryBank:
    """Messages and summaries of days, each with a strength and the day on which it was last found."""

    def __init__(self, around: Around) -> None:
        self._options = options_of(ABOUT, around.options)
        if not self._options["coef"]:
            raise UsageError("MBMemory forgets by exp(-t / coef): coef is a number above 0")
        self._asker = Asker(around, "MBMemory")
        self._held = Held(around)
        self._rng = around.rng
        self.reset()

    def reset(self) -> None:
        """Hold nothing; days are counted anew."""
        self._held.reset()
        self._strength: list[float] = []
        self._last: list[int] = []
        self._now = 0
        self._today: str | None = None
        self._said: dict[str, list[Item]] = {}
        self._summaries: dict[str, int] = {}
        self._overview: Item | None = None
        self._open = False

    async def add(self, messages: Sequence[Message]) -> None:
        """One item a message. Where another day begins, the last one is summarised."""
        for day, said in groupby(messages, _day):
            if day != self._today:
                await self.end_session()
                self._today, self._now = day, self._now + 1
            items = [item_of(message) for message in said]
            self._said.setdefault(day, []).extend(items)
            await self._hold(items)
            self._open = True

    async def search(self, query: Query, k: int) -> list[Found]:
        """The overview, and the nearest that are not forgotten. Chance comes from the case's own source."""
        limit = most(k, self._options["k"])
        if not self._held.items or not limit:
            return []
        scores = await self._held.nearness(query.text)
        found = [Found(self._overview, 1.0)] if self._overview else []
        for place in best(scores, len(scores)):
            if len(found) >= limit:
                break
            if self._rng.random() < self._retention(place):
                found += self._held.found([place], scores)
                self._strengthen(place)
        return found

    def items(self) -> list[Item]:
        """The overview, then messages and summaries in the order in which they came."""
        return [*([self._overview] if self._overview else []), *self._held.items]

    async def end_session(self) -> None:
        """Summarise the day, or the day so far: a later session of the same day rewrites its summary."""
        if self._open and self._today is not None:
            self._open = False
            await self._summarise(self._today, self._said[self._today])
            await self._look_over()

    async def _summarise(self, day: str, said: list[Item]) -> None:
        text = newest((item.text for item in said), self._options["day_words"])
        summary = await self._asker.text("summary", text=text, date=dated(said[-1].date))
        sources = tuple(item.id for item in said)
        made = Item(f"summary:{day}", summary, said[-1].session, said[-1].date, sources, KIND)
        if day in self._summaries:
            await self._held.replace(self._summaries[day], made)
        else:
            self._summaries[day] = len(self._held.items)
            await self._hold([made])

    async def _look_over(self) -> None:
        """The one summary of all: made of summaries, so that it names no message as its source."""
        days = [self._held.items[place] for place in self._summaries.values()]
        lines = (f"{item.date or item.session}: {item.text}" for item in days)
        text = await self._asker.text("overview", text=newest(lines, self._options["day_words"]))
        self._overview = Item("summary:all", text, days[-1].session, days[-1].date, (), KIND)

    async def _hold(self, items: list[Item]) -> None:
        await self._held.add(items)
        self._strength += [1.0] * len(items)
        self._last += [self._now] * len(items)

    def _retention(self, place: int) -> float:
        elapsed, strength = self._now - self._last[place], self._strength[place]
        return retention(elapsed, strength, self._options["coef"], original=self._options["original"])

    def _strengthen(self, place: int) -> None:
        if not self._options["original"]:
            self._strength[place] += 1
            self._last[place] = self._now


def retention(elapsed: float, strength: float, coef: float, *, original: bool = False) -> float:
    """The chance that something is still known: Ebbinghaus's curve, slower for what is strong."""
    return math.exp(-elapsed / coef * strength if original else -elapsed / (coef * strength))


def _day(message: Message) -> str:
    return message.date or message.session or "undated"


def make(around: Around) -> MemoryBank:
    """It asks twice a day."""
    return MemoryBank(around)
