"""Reflexion: everything that was said, and one insight that is rewritten after each session.

The model rewrites it from the last insight and the session. A reply that is empty twice is an error.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from assay.core.memory import AboutMemory, Around, Found, Item, Message, Query, options_of
from assay.memories.asking.asker import Asker
from assay.memories.asking.wording import dated, fingerprint
from assay.memories.listing.full import TAIL, Full
from assay.memories.listing.words import first_words, newest, words_in

ABOUT = AboutMemory(
    summary="everything that was said, and an insight that is rewritten after each session",
    asks=True,
    bundle=True,
    options={"words": 50_000, "keep": TAIL, "session_words": 4_000},
    prompts=fingerprint("insight"),
)
INSIGHT = "insight"


class Reflexion:
    """Every message, in order, after the insight."""

    def __init__(self, around: Around) -> None:
        self._options = options_of(ABOUT, around.options)
        self._asker = Asker(around, "RFMemory")
        self._said = Full(self._options["keep"])
        self.reset()

    def reset(self) -> None:
        """Hold nothing, and know nothing."""
        self._said.reset()
        self._insight: Item | None = None
        self._session: list[Message] = []

    def add(self, messages: Sequence[Message]) -> None:
        """One item a message; the session is thought about when it ends."""
        self._said.add(messages)
        self._session += messages

    def search(self, query: Query, k: int) -> list[Found]:
        """The insight, and everything within what it leaves of the budget, whatever `k` is."""
        budget: int = self._options["words"]
        if self._insight is None:
            return [Found(item, 1.0) for item in self._said.within(budget)]
        text = first_words(self._insight.text, budget)
        found = [
            msgspec.structs.replace(self._insight, text=text),
            *self._said.within(budget - words_in(text)),
        ]
        return [Found(item, 1.0) for item in found if item.text]

    def items(self) -> list[Item]:
        """The insight, then the messages in order."""
        return [*([self._insight] if self._insight else []), *self._said.items()]

    async def end_session(self) -> None:
        """The insight is rewritten in its place. `sources` are the messages of the session it is new from."""
        if not self._session:
            return
        last = self._session[-1]
        text = await self._asker.text(
            "insight",
            insight=self._insight.text if self._insight else "(nothing yet)",
            date=dated(last.date),
            text=newest((message.line for message in self._session), self._options["session_words"]),
        )
        sources = tuple(message.id for message in self._session)
        self._insight = Item(INSIGHT, text, last.session, last.date, sources, "rf_insight")
        self._session = []


def make(around: Around) -> Reflexion:
    """It asks once a session."""
    return Reflexion(around)
