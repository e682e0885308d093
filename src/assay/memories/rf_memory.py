"""RFMemory, Reflexion: returns the whole conversation, and one insight that is rewritten after each session.

The insight is a text. After each session the model rewrites it from the previous insight and the messages of
the session. If the model replies with an empty text twice, the case fails.
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
from assay.memories.helpers.prompts import PromptAsker, date_attribute, prompt_version

ABOUT = AboutMemory(
    summary="returns the whole conversation, and an insight that the model rewrites after each session",
    asks=True,
    bundle=True,
    options={"words": 50_000, "keep": TAIL, "session_words": 4_000},
    prompts=prompt_version("insight"),
)
# Id of the insight. It stays the same when the insight is rewritten.
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
        """Store one item for each message. `end_session` writes the insight from them."""
        self._messages.add(messages)
        self._session += messages

    def search(self, query: Query, k: int) -> list[SearchHit]:
        """Return the insight, and as many messages as fit into the rest of the word budget. Ignores `k`."""
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
    """Make an empty memory. It asks the model once per session."""
    return ReflexionMemory(context)
