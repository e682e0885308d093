"""`mem0`: the real `mem0ai` package. It extracts facts from the messages and finds them by their vectors.

mem0 writes its files below the folder of the case. It reaches the run's model through the gateway, so its calls
are logged and replayed when a run continues. assay changes three things: today is the date of the session, a
failed call always fails the operation, and mem0 sends no telemetry and downloads nothing.

mem0 gets chat messages with roles (`helpers/chat.py`). Its prompt asks for facts about named speakers in both roles.

The layers, from top to bottom: Mem0Memory (the interface of a memory), Mem0Store (one `mem0.Memory`, which
blocks), Mem0Llm and Mem0Embedder (through which mem0 calls models).
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from assay.core.errors import UsageError
from assay.core.memory import (
    AboutMemory,
    JsonValue,
    MemoryContext,
    MemoryItem,
    Message,
    Query,
    SearchHit,
    options_of,
)
from assay.core.threads import DaemonPool
from assay.memories.helpers.chat import ChatRoles
from assay.memories.helpers.foreign import (
    KEY,
    UNKNOWN_DATE,
    CallMonitor,
    embed_from_thread,
    package_version,
    require_package,
)
from assay.memories.helpers.scores import limit

# Returns the vectors of texts. mem0 calls it in a thread.
EmbedTexts = Callable[[list[str]], list[list[float]]]

ABOUT = AboutMemory(
    summary="the mem0ai package: extracts facts from messages and finds them by embeddings",
    asks=True,
    embeds=True,
    options={"k": 0, "threshold": 0.1},
    prompts=package_version("mem0ai"),
)
# mem0 requires an owner for each fact. A store has one conversation, so one owner is enough.
_OWNER = {"user_id": "conversation"}
# The part of mem0's prompt that contains dates.
_DATES = re.compile(r"\n\n## Observation Date\n[^\n]*\n\n## Current Date\n[^\n]*\n\n")
# mem0 blocks while it waits for the model, so every open case needs a thread of its own. `replaces` starts a new
# thread for one that hangs.
_POOL = DaemonPool(64, "assay-mem0", replaces=True)
_import_lock = threading.Lock()


def make(context: MemoryContext) -> Mem0Memory:
    """Make an empty memory. Raises MissingExtra if the package is not installed."""
    require_package("mem0", "mem0")
    return Mem0Memory(context)


class Mem0Memory:
    """The facts of one conversation. The first message opens the store.

    mem0's ids are random. Items get numbers in the order of their creation instead, so that a continued run
    has the same ids.
    """

    def __init__(self, context: MemoryContext) -> None:
        self._context = context
        self._options = options_of(ABOUT, context.options)
        self._store_count = 0
        self._store: Mem0Store | None = None
        self.reset()

    def reset(self) -> None:
        """Close the store. The next message opens a new one."""
        if self._store is not None:
            self._store.close()
        self._store = None
        self._roles = ChatRoles()
        self._items: dict[str, MemoryItem] = {}  # by mem0's id

    async def add(self, messages: Sequence[Message]) -> None:
        """Let mem0 extract facts. mem0 does not tell which message a fact is from, so all are its sources."""
        if not messages:
            return
        first = messages[0]
        if self._store is None:
            await self._open(first)
        assert self._store is not None
        chat = self._roles.messages(messages)
        facts = await _POOL.run(partial(self._store.add, chat, first.date))
        sources = tuple(message.id for message in messages)
        for fact in facts:
            name = f"mem0:{len(self._items) + 1}"
            metadata: dict[str, JsonValue] = {}
            if fact.attributed_to:
                metadata["attributed_to"] = fact.attributed_to
            item = MemoryItem(name, fact.text, first.session, first.date, sources, metadata=metadata)
            self._items[fact.id] = item

    async def search(self, query: Query, k: int) -> list[SearchHit]:
        """Return facts by mem0's score, if it reaches the threshold. An empty question returns none."""
        max_hits = limit(k, self._options["k"])
        if self._store is None or not self._items or not max_hits or not query.text.strip():
            return []
        search = partial(self._store.search, query.text, max_hits, self._options["threshold"])
        scores = await _POOL.run(search)
        return [SearchHit(self._items[mem0_id], score) for mem0_id, score in scores]

    async def items(self) -> list[MemoryItem]:
        """Return the facts that mem0 still has, in the order in which they were created."""
        if self._store is None or not self._items:
            return []
        ids = await _POOL.run(partial(self._store.ids, len(self._items)))
        return [item for mem0_id, item in self._items.items() if mem0_id in ids]

    def end_session(self) -> None:
        """Do nothing."""

    async def _open(self, first: Message) -> None:
        self._store_count += 1
        url = await self._context.base_url()
        embed = embed_from_thread(self._context.embed)
        folder = self._context.folder / f"mem0-{self._store_count}"
        self._store = await _POOL.run(partial(open_store, folder, url, embed, first.line))


class Mem0Fact(NamedTuple):
    """A fact that mem0 stored. `attributed_to` is a role or a name, if mem0's model gave one."""

    id: str
    text: str
    attributed_to: str


class Mem0Store:
    """One `mem0.Memory`. Its methods block, so they run in threads, one at a time."""

    def __init__(self, memory: Any, llm: Mem0Llm, monitor: CallMonitor, close: Callable[[], None]) -> None:
        self._memory = memory
        self._llm = llm
        self._monitor = monitor
        self.close = weakref.finalize(self, close)

    def add(self, messages: list[dict[str, str]], date: str) -> list[Mem0Fact]:
        """Return the facts that mem0 extracts from messages of this date."""
        self._llm.date = date
        with self._monitor.operation():
            reply = self._memory.add(messages, **_OWNER)
        return [
            Mem0Fact(fact["id"], fact["memory"], self._memory.get(fact["id"]).get("attributed_to") or "")
            for fact in reply["results"]
        ]

    def search(self, text: str, k: int, threshold: float) -> list[tuple[str, float]]:
        """Return (id, score) of the best facts, best first."""
        with self._monitor.operation():
            reply = self._memory.search(text, top_k=k, filters=dict(_OWNER), threshold=threshold)
        return [(fact["id"], float(fact["score"])) for fact in reply["results"]]

    def ids(self, count: int) -> set[str]:
        """Return the ids of all stored facts. `count` is an upper bound of their number."""
        reply = self._memory.get_all(filters=dict(_OWNER), top_k=count, show_expired=True)
        return {fact["id"] for fact in reply["results"]}


def open_store(folder: Path, url: str, embed: EmbedTexts, sample_text: str) -> Mem0Store:
    """Open an empty store. `url` is the gateway's. `sample_text` is embedded to learn the vector dimension."""
    mem0 = _load_package()
    import openai

    # No timeout and no retries, because the gateway has both. No proxy, because the gateway is on loopback.
    http = openai.DefaultHttpxClient(trust_env=False)
    client = openai.OpenAI(base_url=url, api_key=KEY, max_retries=0, timeout=None, http_client=http)
    monitor = CallMonitor("mem0")
    try:
        with monitor.operation():
            size = len(embed([sample_text])[0])
            # The name that the endpoint uses for the model. mem0 chooses request parameters by this name.
            model = client.models.list().data[0].id
        memory = mem0.Memory.from_config(_config(folder, model, size))
    except BaseException:
        client.close()
        raise
    for part in (memory.llm, memory.embedding_model):
        part.client.close()
    memory.llm.client = client
    llm = memory.llm = Mem0Llm(memory.llm, monitor)
    memory.embedding_model = Mem0Embedder(embed, monitor)
    memory.vector_store._bm25_encoder = False  # noqa: SLF001 - if fastembed is installed, it would download a model

    def close() -> None:
        for part in (memory.vector_store.client, memory.db, client):
            with suppress(Exception):  # the folder may have been deleted already
                part.close()

    return Mem0Store(memory, llm, monitor, close)


def _config(folder: Path, model: str, size: int) -> dict[str, Any]:
    folder.mkdir(parents=True)
    return {
        "llm": {"provider": "openai", "config": {"model": model, "api_key": KEY, "temperature": 0.0}},
        "embedder": {"provider": "openai", "config": {"api_key": KEY}},
        "vector_store": {
            "provider": "qdrant",
            "config": {
                "collection_name": "memories",
                "embedding_model_dims": size,
                "path": str(folder / "vectors"),
                "on_disk": True,
            },
        },
        "history_db_path": str(folder / "history.db"),
    }


def _load_package() -> Any:
    """Import mem0 without telemetry, and without the downloads and files that it makes by default."""
    with _import_lock:
        if "mem0" not in sys.modules:
            _import_mem0()
        import mem0
        from mem0.memory import telemetry
        from mem0.utils import spacy_models
        from qdrant_client.local.persistence import CollectionPersistence

    if telemetry.MEM0_TELEMETRY:
        raise UsageError("mem0 was imported with telemetry switched on. Set MEM0_TELEMETRY=False in the environment")
    # If spaCy is installed, mem0 would download a model for it, and search results would depend on spaCy.
    spacy_models._load_failed_full = spacy_models._load_failed_lemma = True  # noqa: SLF001
    CollectionPersistence.CHECK_SAME_THREAD = False  # calls come one at a time, but from several threads
    return mem0


def _import_mem0() -> None:
    # mem0 reads these variables once, during the import. Without MEM0_DIR it writes its settings to the home
    # folder.
    previous = os.environ.get("MEM0_DIR")
    os.environ["MEM0_TELEMETRY"] = "False"
    with tempfile.TemporaryDirectory(prefix="assay-mem0-") as folder:
        os.environ["MEM0_DIR"] = folder
        try:
            import mem0  # noqa: F401
        except ImportError as error:
            raise UsageError(
                f"the package mem0ai is installed but cannot be imported: {error}. Try: pip install 'assay[mem0]'"
            ) from error
        finally:
            del os.environ["MEM0_DIR"]
            if previous is not None:
                os.environ["MEM0_DIR"] = previous


class Mem0Llm:
    """Wraps mem0's model object, and replaces the two dates that mem0 puts into its prompt."""

    def __init__(self, llm: Any, monitor: CallMonitor) -> None:
        self._llm = llm
        self._monitor = monitor
        self.date = ""

    def generate_response(self, messages: list[dict[str, Any]], **params: Any) -> Any:
        """Send mem0's request with the date of the session."""
        with self._monitor.call():
            *earlier, last = messages
            last = {**last, "content": replace_dates(last["content"], self.date)}
            return self._llm.generate_response(messages=[*earlier, last], **params)


class Mem0Embedder:
    """Replaces mem0's embedder. Reports failures to the monitor."""

    def __init__(self, embed_texts: EmbedTexts, monitor: CallMonitor) -> None:
        self._embed_texts = embed_texts
        self._monitor = monitor

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        """Return the vector of one text."""
        return self.embed_batch([text])[0]

    def embed_batch(self, texts: Sequence[str], memory_action: str | None = None) -> list[list[float]]:
        """Return vectors in the order of the texts."""
        if not texts:
            return []
        with self._monitor.call():
            return self._embed_texts(list(texts))


def replace_dates(prompt: str, date: str) -> str:
    """Return mem0's prompt with the session's date instead of today's.

    The messages come before the dates and may contain text that looks like them. So the last match counts.
    """
    matches = list(_DATES.finditer(prompt))
    if not matches:
        raise UsageError(
            "this version of mem0ai writes dates in a form that assay does not know. "
            "Install one that it knows: pip install 'mem0ai==2.2.*'"
        )
    line = " ".join(date.split()) or UNKNOWN_DATE
    dates = f"\n\n## Observation Date\n{line}\n\n## Current Date\n{line}\n\n"
    return prompt[: matches[-1].start()] + dates + prompt[matches[-1].end() :]
