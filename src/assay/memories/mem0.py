"""The real `mem0ai` package: it extracts facts from each packet of messages and finds them by their vectors.

It writes below the case's own folder and reaches the run's model through the gateway, so what it was told is
served again after a kill. Today is the session's date. The first who speaks is its user, everybody else its
assistant, and each line begins with a name: its own prompt asks for facts of named speakers in both roles.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from functools import partial
from importlib import metadata

from assay.core.errors import MissingExtra, UsageError
from assay.core.memory import AboutMemory, Around, Found, Item, Message, Query, options_of
from assay.core.threads import DaemonPool
from assay.memories.foreign.mem0_calls import Embed, from_endpoint, from_run
from assay.memories.foreign.mem0_store import Place, Store, opened
from assay.memories.listing.limits import most


def _version() -> str:
    """Another version asks with other words: it makes another run."""
    try:
        return f"mem0ai {metadata.version('mem0ai')}"
    except metadata.PackageNotFoundError:
        return ""


ENDPOINT, LOCAL = "endpoint", "local"
ABOUT = AboutMemory(
    summary="mem0ai: facts that it extracts from the messages, by their vectors",
    asks=True,
    embeds=True,
    options={"k": 0, "threshold": 0.1, "embedder": ENDPOINT, "embedding_model": "text-embedding-3-small"},
    prompts=_version(),
)
_POOL = DaemonPool(64, "assay-mem0", replaces=True)


class Mem0:
    """One mem0 for one conversation, opened by the first message. Its ids are chance; ours count."""

    def __init__(self, around: Around) -> None:
        self._around = around
        self._options = options_of(ABOUT, around.options)
        self._opened = 0
        self._store: Store | None = None
        self.reset()

    def reset(self) -> None:
        """Hold nothing: the next message opens another store."""
        if self._store is not None:
            self._store.close()
        self._store = None
        self._user: str | None = None
        self._known: dict[str, Item] = {}

    async def add(self, messages: Sequence[Message]) -> None:
        """What mem0 makes of a packet has the whole packet as its source: it does not say more."""
        if not messages:
            return
        store = await self._open(messages[0])
        made = await _POOL.run(partial(store.add, self._spoken(messages), messages[0].date))
        sources = tuple(message.id for message in messages)
        for its_id, text in made:
            number = len(self._known) + 1
            self._known[its_id] = Item(f"mem0:{number}", text, messages[0].session, messages[0].date, sources)

    async def search(self, query: Query, k: int) -> list[Found]:
        """By mem0's own score, and nothing below its threshold. An empty question finds nothing."""
        limit = most(k, self._options["k"])
        if self._store is None or not self._known or not limit or not query.text.strip():
            return []
        found = await _POOL.run(partial(self._store.search, query.text, limit, self._options["threshold"]))
        return [Found(self._known[its_id], score) for its_id, score in found]

    async def items(self) -> list[Item]:
        """In the order in which they were made."""
        if self._store is None or not self._known:
            return []
        held = await _POOL.run(partial(self._store.held, len(self._known)))
        return [item for its_id, item in self._known.items() if its_id in held]

    def end_session(self) -> None:
        """Nothing is done then."""

    def _spoken(self, messages: Sequence[Message]) -> list[dict[str, str]]:
        if self._user is None:
            self._user = messages[0].speaker
        return [
            {"role": "user" if message.speaker == self._user else "assistant", "content": message.line}
            for message in messages
        ]

    async def _open(self, first: Message) -> Store:
        if self._store is None:
            self._opened += 1
            url, embed = await self._around.base_url(), self._embed()
            place = Place(self._around.folder / f"mem0-{self._opened}", url)
            self._store = await _POOL.run(partial(opened, place, embed, first.line))
        return self._store

    def _embed(self) -> Embed:
        if self._options["embedder"] == LOCAL:
            return from_run(self._around.embed)
        return from_endpoint(self._options["embedding_model"])


def make(around: Around) -> Mem0:
    """Refuses to begin where the package is not installed."""
    if importlib.util.find_spec("mem0") is None:
        raise MissingExtra("the memory 'mem0'", "mem0")
    chosen = options_of(ABOUT, around.options)["embedder"]
    if chosen not in (ENDPOINT, LOCAL):
        raise UsageError(f"the memory mem0: embedder is {ENDPOINT} or {LOCAL}, not {chosen!r}")
    return Mem0(around)
