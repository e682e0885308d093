"""MBMemory, MemoryBank: a summary of each day, an overview of all days, and a forgetting curve.

A search returns the overview, then the nearest items, each with the probability exp(-t / (coef * S)). t is the
number of days since the item was last found. Its strength S starts at 1 and grows by 1 each time it is found.

A day is a date of the conversation, or a session if there are no dates. t counts the days on which messages
arrived, not the days of the calendar. `original: true` uses MemEngine's formula exp(-t / coef * S); S then
stays 1. If the model writes an empty summary twice, the case fails.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

from assay.core.errors import UsageError
from assay.core.memory import AboutMemory, MemoryContext, MemoryItem, Message, Query, SearchHit, options_of
from assay.memories.helpers.messages import join_newest, message_item
from assay.memories.helpers.prompts import PromptAsker, date_attribute, prompt_version
from assay.memories.helpers.scores import limit, top_places
from assay.memories.helpers.vectors import EmbeddedItems

ABOUT = AboutMemory(
    summary="returns an overview and the nearest items, some of them forgotten; summarises each day",
    asks=True,
    embeds=True,
    options={"k": 0, "coef": 5.0, "original": False, "day_words": 4_000},
    prompts=prompt_version("summary", "overview"),
)
# The `kind` of summaries and of the overview.
KIND = "mb_summary"


class MemoryBank:
    """Stores messages and summaries of days, each with a strength and the day on which it was last found."""

    def __init__(self, context: MemoryContext) -> None:
        self._options = options_of(ABOUT, context.options)
        if not self._options["coef"]:
            raise UsageError("MBMemory: coef must be above 0 (items are forgotten by exp(-t / coef))")
        self._asker = PromptAsker(context, "MBMemory")
        self._embedded = EmbeddedItems(context)
        self._rng = context.rng
        self.reset()

    def reset(self) -> None:
        """Remove all items, and set the day to 0."""
        self._embedded.reset()
        self._strength: list[float] = []
        self._last_found: list[int] = []
        self._now = 0
        self._today: str | None = None
        self._messages_by_day: dict[str, list[MemoryItem]] = {}
        self._summary_places: dict[str, int] = {}
        self._overview: MemoryItem | None = None
        self._unsummarised = False

    async def add(self, messages: Sequence[Message]) -> None:
        """Store one item for each message. When another day begins, the previous day is summarised."""
        for day, messages_of_day in groupby(messages, _day):
            if day != self._today:
                await self.end_session()
                self._today, self._now = day, self._now + 1
            items = [message_item(message) for message in messages_of_day]
            self._messages_by_day.setdefault(day, []).extend(items)
            await self._store(items)
            self._unsummarised = True

    async def search(self, query: Query, k: int) -> list[SearchHit]:
        """Return the overview and the nearest items that are not forgotten. Found items get stronger."""
        max_hits = limit(k, self._options["k"])
        if not self._embedded.items or not max_hits:
            return []
        scores = await self._embedded.similarity(query.text)
        hits = [SearchHit(self._overview, 1.0)] if self._overview else []
        original = self._options["original"]
        for place in top_places(scores, len(scores)):
            if len(hits) >= max_hits:
                break
            days, strength = self._now - self._last_found[place], self._strength[place]
            if self._rng.random() < retention(days, strength, self._options["coef"], original=original):
                hits += self._embedded.hits([place], scores)
                if not original:
                    self._strength[place] += 1
                    self._last_found[place] = self._now
        return hits

    def items(self) -> list[MemoryItem]:
        """Return the overview, then messages and summaries in the order in which they were stored."""
        overview = [self._overview] if self._overview else []
        return [*overview, *self._embedded.items]

    async def end_session(self) -> None:
        """Summarise the day so far. A later session of the same day replaces this summary."""
        if self._unsummarised and self._today is not None:
            self._unsummarised = False
            await self._summarise(self._today, self._messages_by_day[self._today])
            await self._update_overview()

    async def _summarise(self, day: str, messages: list[MemoryItem]) -> None:
        last = messages[-1]
        text = join_newest((item.text for item in messages), self._options["day_words"])
        summary = await self._asker.text("summary", text=text, date=date_attribute(last.date))
        sources = tuple(item.id for item in messages)
        item = MemoryItem(f"summary:{day}", summary, last.session, last.date, sources, KIND)
        if day in self._summary_places:
            await self._embedded.replace(self._summary_places[day], item)
        else:
            self._summary_places[day] = len(self._embedded.items)
            await self._store([item])

    async def _update_overview(self) -> None:
        """Rewrite the overview from the summaries of all days. It has no message as its source."""
        days = [self._embedded.items[place] for place in self._summary_places.values()]
        lines = (f"{item.date or item.session}: {item.text}" for item in days)
        text = await self._asker.text("overview", text=join_newest(lines, self._options["day_words"]))
        self._overview = MemoryItem("summary:all", text, days[-1].session, days[-1].date, (), KIND)

    async def _store(self, items: list[MemoryItem]) -> None:
        await self._embedded.add(items)
        self._strength += [1.0] * len(items)
        self._last_found += [self._now] * len(items)


def retention(days: float, strength: float, coef: float, *, original: bool = False) -> float:
    """Return the probability that an item is remembered, by Ebbinghaus's forgetting curve.

    A higher strength makes forgetting slower; with `original` it makes forgetting faster.
    """
    if original:
        return math.exp(-days / coef * strength)
    return math.exp(-days / (coef * strength))


def _day(message: Message) -> str:
    return message.date or message.session or "undated"


def make(context: MemoryContext) -> MemoryBank:
    """Make an empty memory. It asks the model twice per session."""
    return MemoryBank(context)
