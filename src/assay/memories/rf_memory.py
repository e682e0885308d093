"""RFMemory, Reflexion: gives everything that was said, and one insight that is rewritten after each session.

The model rewrites the insight from the last insight and the session. Two empty replies fail the case.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from assay.core.memory import AboutMemory, MemoryContext, MemoryItem, Message, Query, SearchHit, options_of
from assay.memories.helpers.messages import (
    TAIL,
    BoundedMessageList,
    count_words,
    first_words,
    join_newest,
)
from assay.memories.helpers.prompts import PromptAsker, date_attribute, fingerprint

ABOUT = AboutMemory(
    summary="everything that was said, and an insight that is rewritten after each session",
    asks=True,
    bundle=True,
    options={"words": 50_000, "keep": TAIL, "session_words": 4_000},
    prompts=fingerprint("insight"),
)
INSIGHT = "insight"


class ReflexionMemory:
    """Stores the insight and every message."""

    def __init__(self, context: MemoryContext) -> None:
        self._options = options_of(ABOUT, context.options)
        self._asker = PromptAsker(context, "RFMemory")
        self._messages = BoundedMessageList(self._options["keep"])
        self.reset()

    def reset(self) -> None:
        """Remove the insight and all messages."""
        self._messages.reset()
        self._insight: MemoryItem | None = None
        self._session: list[Message] = []

    def add(self, messages: Sequence[Message]) -> None:
        """Store one item for each message. The session's end uses them for the insight."""
        self._messages.add(messages)
        self._session += messages

    def search(self, query: Query, k: int) -> list[SearchHit]:
        """Return the insight, and the messages that fit into the rest of the budget, whatever `k` is."""
        budget: int = self._options["words"]
        if self._insight is None:
            return [SearchHit(item, 1.0) for item in self._messages.within(budget)]
        text = first_words(self._insight.text, budget)
        items = [
            msgspec.structs.replace(self._insight, text=text),
            *self._messages.within(budget - count_words(text)),
        ]
        return [SearchHit(item, 1.0) for item in items if item.text]

    def items(self) -> list[MemoryItem]:
        """Return the insight, then the messages in order."""
        insight = [self._insight] if self._insight else []
        return [*insight, *self._messages.items()]

    async def end_session(self) -> None:
        """Rewrite the insight. Its `sources` are the messages of this session only."""
        if not self._session:
            return
        last = self._session[-1]
        text = await self._asker.text(
            "insight",
            insight=self._insight.text if self._insight else "(nothing yet)",
            date=date_attribute(last.date),
            text=join_newest((message.line for message in self._session), self._options["session_words"]),
        )
        sources = tuple(message.id for message in self._session)
        self._insight = MemoryItem(INSIGHT, text, last.session, last.date, sources, "rf_insight")
        self._session = []


def make(context: MemoryContext) -> ReflexionMemory:
    """Make an empty memory. It asks once for each session."""
    return ReflexionMemory(context)
