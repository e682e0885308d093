"""MGMemory, MemGPT: a small view of the conversation that the model manages, and two stores that it searches.

In view are facts that the model saved (the working context), a summary of messages that left the view, and the last
messages (the queue). Outside of it are all messages (the recall store) and facts that the model archived.

- The view has room for `words` words. When it is full to `warn_at`, the model may save or archive facts.
- When it is over-full, the oldest messages leave it until the queue has at most half of the room, and the model
  rewrites the summary with them.
- Facts in view have room for `fact_words` words. The oldest are archived.
- A search shows the view and the question to the model. It calls `recall` or `archive` with words of its own, up to
  `calls` times. Each call finds `page` items by the cosine of their vectors. Archived facts that are found come back
  into view.

MemEngine's version has two bugs that are not repeated here: its search of the archive uses an attribute that does not
exist, and it compares only the length of the new message with the room, so that the queue never empties. If two
replies hold no call, or two summaries are empty, the case fails.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from assay.core.errors import UsageError
from assay.core.memory import AboutMemory, MemoryContext, MemoryItem, Message, Query, SearchHit, options_of
from assay.memories.helpers.messages import count_words, join_newest, message_item
from assay.memories.helpers.prompts import PromptAsker, date_attribute, prompt_version
from assay.memories.helpers.scores import limit, top_places
from assay.memories.helpers.vectors import EmbeddedItems

ABOUT = AboutMemory(
    summary="a small view that the model manages; it searches all messages and archived facts itself",
    asks=True,
    embeds=True,
    options={"k": 0, "words": 1_000, "warn_at": 0.7, "fact_words": 200, "calls": 3, "page": 5},
    prompts=prompt_version("recursive", "pressure", "functions"),
)
# Id of the summary. It stays the same when the summary is rewritten.
SUMMARY = "summary:recursive"
# The `kind` of facts in view, archived facts, and the summary.
WORKING, ARCHIVED, SUMMARISED = "mg_working", "mg_archival", "mg_summary"
# Names of the calls in the prompts.
SAVE, ARCHIVE, RECALL = "save", "archive", "recall"


class MemGptMemory:
    """Stores every message, the facts that the model chose, and a summary."""

    def __init__(self, context: MemoryContext) -> None:
        self._options = options_of(ABOUT, context.options)
        if not self._options["words"] or not self._options["calls"]:
            raise UsageError("MGMemory: words and calls must be above 0")
        self._asker = PromptAsker(context, "MGMemory")
        self._recall = EmbeddedItems(context)
        self._facts = EmbeddedItems(context)
        self.reset()

    def reset(self) -> None:
        """Remove all messages, facts and the summary."""
        self._recall.reset()
        self._facts.reset()
        self._in_view: list[int] = []  # places of facts, the oldest first
        self._queue: list[MemoryItem] = []
        self._queue_words = 0
        self._summary: MemoryItem | None = None
        self._warned = False

    async def add(self, messages: Sequence[Message]) -> None:
        """Store one item for each message. The model is asked when the view is nearly full or over-full."""
        for item in map(message_item, messages):
            await self._recall.add([item])
            self._queue.append(item)
            self._queue_words += count_words(item.text)
            used, room = self._used_words(), self._options["words"]
            if not self._warned and used >= self._options["warn_at"] * room:
                self._warned = True
                await self._choose_facts()
            if used > room:
                await self._flush(room // 2)

    async def search(self, query: Query, k: int) -> list[SearchHit]:
        """Return what the model's calls find, then what is in view: facts, the summary, and messages, newest first."""
        max_hits = limit(k, self._options["k"])
        if not self._recall.items or not max_hits:
            return []
        number = self._options["calls"]
        calls = await self._asker.calls("functions", (RECALL, ARCHIVE), number, **self._view(), question=query.text)
        hits: dict[str, SearchHit] = {}
        for name, words in calls:
            for hit in await self._find(name, words):
                hits.setdefault(hit.item.id, hit)
        summary = [self._summary] if self._summary else []
        view = [*(self._facts.items[place] for place in self._in_view), *summary, *self._queue[::-1]]
        for item in view:
            hits.setdefault(item.id, SearchHit(item))
        return list(hits.values())[:max_hits]

    def items(self) -> list[MemoryItem]:
        """Return the summary, then facts and messages, each in the order in which they were stored."""
        summary = [self._summary] if self._summary else []
        return [*summary, *self._facts.items, *self._recall.items]

    def end_session(self) -> None:
        """Do nothing: the view does not end with a session."""

    async def _choose_facts(self) -> None:
        """Let the model save or archive facts of the messages in view."""
        date = date_attribute(self._queue[-1].date)
        number = self._options["calls"]
        calls = await self._asker.calls("pressure", (SAVE, ARCHIVE), number, **self._view(), date=date)
        last = self._queue[-1]
        sources = tuple(item.id for item in self._queue)
        for name, text in calls:
            place = len(self._facts.items)
            item = MemoryItem(f"fact:{place + 1}", text, last.session, last.date, sources, ARCHIVED)
            await self._facts.add([item])
            if name == SAVE:
                self._bring_into_view(place)

    async def _flush(self, room: int) -> None:
        """Take the oldest messages out of the queue until it has at most `room` words, and into the summary."""
        evicted: list[MemoryItem] = []
        while self._queue_words > room and len(self._queue) > 1:
            evicted.append(self._queue.pop(0))
            self._queue_words -= count_words(evicted[-1].text)
        if not evicted:
            return
        self._warned = False
        text = join_newest((item.text for item in evicted), self._options["words"])
        previous = self._summary.text if self._summary else ""
        last = evicted[-1]
        reply = await self._asker.text("recursive", summary=previous, text=text, date=date_attribute(last.date))
        sources = (*(self._summary.sources if self._summary else ()), *(item.id for item in evicted))
        self._summary = MemoryItem(SUMMARY, reply, last.session, last.date, sources, SUMMARISED)

    async def _find(self, name: str, words: str) -> list[SearchHit]:
        """Return the items of one store that are nearest to the model's words."""
        page = self._options["page"]
        if name == RECALL:
            return await self._recall.nearest(words, page)
        if not self._facts.items:
            return []
        scores = await self._facts.similarity(words)
        places = top_places(scores, page)
        for place in places:
            self._bring_into_view(place)
        return self._facts.hits(places, scores)

    def _bring_into_view(self, place: int) -> None:
        """Put a fact into view as the newest. The oldest facts leave the view if there is no room."""
        if place in self._in_view:
            self._in_view.remove(place)
        self._in_view.append(place)
        self._set_kind(place, WORKING)
        while self._fact_words() > self._options["fact_words"] and len(self._in_view) > 1:
            self._set_kind(self._in_view.pop(0), ARCHIVED)

    def _set_kind(self, place: int, kind: str) -> None:
        self._facts.items[place] = replace(self._facts.items[place], kind=kind)

    def _fact_words(self) -> int:
        return sum(count_words(self._facts.items[place].text) for place in self._in_view)

    def _used_words(self) -> int:
        summary = count_words(self._summary.text) if self._summary else 0
        return self._fact_words() + summary + self._queue_words

    def _view(self) -> dict[str, str]:
        """Return the view for a prompt. A single message that is larger than the view is cut."""
        return {
            "facts": "\n".join(self._facts.items[place].text for place in self._in_view),
            "summary": self._summary.text if self._summary else "",
            "text": join_newest((item.text for item in self._queue), self._options["words"]),
        }


def make(context: MemoryContext) -> MemGptMemory:
    """Make an empty memory. It asks the model once per search, and once or twice each time the view is full."""
    return MemGptMemory(context)
