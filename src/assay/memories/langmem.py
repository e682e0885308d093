"""`langmem`: the real `langmem` package. Its memory manager writes, corrects and merges short texts by tool calls.

langmem keeps its memories in LangGraph's store in this process. It reaches the run's model through the gateway. Before
each extraction it searches the store for memories that are near to the last message, and the model may correct those.

assay changes four things: a system message tells the date of the session, ids are numbers instead of random ones, a
failed call always fails the operation, and no trace is sent to LangSmith.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from msgspec.structs import replace

from assay.core.errors import UsageError
from assay.core.memory import AboutMemory, MemoryContext, MemoryItem, Message, Query, SearchHit, options_of
from assay.memories.helpers.chat import ChatRoles
from assay.memories.helpers.foreign import (
    KEY,
    UNKNOWN_DATE,
    CallMonitor,
    Embed,
    deprecations_ignored,
    embed_rows,
    open_client,
    package_version,
    require_package,
)
from assay.memories.helpers.pinned import PinnedSources, pin_package
from assay.memories.helpers.scores import limit

ABOUT = AboutMemory(
    summary="the langmem package: the model writes, corrects and merges short texts, found by embeddings",
    asks=True,
    embeds=True,
    options={"k": 0, "steps": 1, "deletes": False, "related": 5},
    prompts=package_version("langmem", "trustcall"),
)
# A store has one conversation, so one namespace is enough.
_NAMESPACE = ("conversation",)
# Number of items that one listing of the store may return.
_ALL = 1_000_000


def make(context: MemoryContext) -> LangmemMemory:
    """Make an empty memory. Raises MissingExtra if the package is not installed."""
    require_package("langmem", "langmem")
    return LangmemMemory(context)


class LangmemMemory:
    """The memories of one conversation. The first message opens the store."""

    def __init__(self, context: MemoryContext) -> None:
        self._context = context
        self._options = options_of(ABOUT, context.options)
        if not self._options["steps"]:
            raise UsageError("langmem: steps must be above 0 (it is the number of calls per insertion)")
        self._monitor = CallMonitor("langmem")
        self.reset()

    def reset(self) -> None:
        """Drop the store. The next message opens a new one."""
        self._manager: Any = None
        self._store: Any = None
        self._roles = ChatRoles()
        self._pinned = PinnedSources()
        self._items: dict[str, MemoryItem] = {}  # by langmem's key

    async def add(self, messages: Sequence[Message]) -> None:
        """Let langmem write memories. It does not tell which message one is from, so all are its sources."""
        if not messages:
            return
        if self._manager is None:
            await self._open()
        first = messages[0]
        chat = [date_message(first.date), *self._roles.messages(messages)]
        with self._operation():
            request = {"messages": chat, "max_steps": self._options["steps"]}
            changes = await self._manager.ainvoke(request)
        sources = tuple(message.id for message in messages)
        for change in changes:
            self._store_item(change["key"], memory_text(change["value"]["content"]), first, sources)

    async def search(self, query: Query, k: int) -> list[SearchHit]:
        """Return memories by the cosine of their vectors. An empty question returns none."""
        max_hits = limit(k, self._options["k"])
        if not self._items or not max_hits or not query.text.strip():
            return []
        with self._operation():
            results = await self._store.asearch(_NAMESPACE, query=query.text, limit=max_hits)
        return [SearchHit(self._items[result.key], float(result.score or 0.0)) for result in results]

    async def items(self) -> list[MemoryItem]:
        """Return the memories that langmem still has, in the order in which they were created."""
        if not self._items:
            return []
        with self._operation():
            keys = {item.key for item in await self._store.asearch(_NAMESPACE, limit=_ALL)}
        return [item for key, item in self._items.items() if key in keys]

    def end_session(self) -> None:
        """Do nothing."""

    def _store_item(self, key: str, text: str, first: Message, sources: tuple[str, ...]) -> None:
        known = self._items.get(key)
        if known is None:
            number = len(self._items) + 1
            self._items[key] = MemoryItem(f"langmem:{number}", text, first.session, first.date, sources)
        else:
            merged = tuple(dict.fromkeys((*known.sources, *sources)))
            self._items[key] = replace(known, text=text, session=first.session, date=first.date, sources=merged)

    @contextmanager
    def _operation(self) -> Iterator[None]:
        from langsmith import tracing_context

        with self._monitor.operation(), self._pinned.active(), tracing_context(enabled=False):
            yield

    async def _open(self) -> None:
        langmem = load_package()
        from langgraph.store.memory import InMemoryStore

        with self._operation():
            model = await open_model(await self._context.base_url(), self._monitor)
            embed = embed_in_turn(self._context.embed, self._monitor)
            # The store does not use `dims`. Fields: the text alone, not the JSON around it.
            self._store = InMemoryStore(index={"dims": 1, "embed": embed, "fields": ["content.content"]})
            self._manager = langmem.create_memory_store_manager(
                model,
                namespace=_NAMESPACE,
                store=self._store,
                enable_deletes=self._options["deletes"],
                query_limit=self._options["related"],
            )


def load_package() -> Any:
    """Import langmem with ids that can be pinned."""
    with deprecations_ignored():
        import langmem
    for package in ("langmem", "trustcall"):
        pin_package(package)
    return langmem


async def open_model(url: str, monitor: CallMonitor) -> Any:
    """Return a chat model of LangChain that sends its requests to the gateway and reports failures to the monitor."""
    from langchain_openai import ChatOpenAI

    class MonitoredModel(ChatOpenAI):  # type: ignore[misc]
        async def _agenerate(self, *args: Any, **kwargs: Any) -> Any:
            with monitor.call():
                return await super()._agenerate(*args, **kwargs)

    client = open_client(url)
    with monitor.call():
        name = (await client.models.list()).data[0].id
    return MonitoredModel(
        model=name,
        api_key=KEY,
        base_url=url,
        temperature=0,
        max_retries=0,
        use_responses_api=False,
        openai_proxy="",
        root_async_client=client,
        async_client=client.chat.completions,
    )


def embed_in_turn(embed: Embed, monitor: CallMonitor) -> Callable[[Sequence[str]], Awaitable[list[list[float]]]]:
    """Return the function with which the store embeds texts, by --embedder.

    langmem stores several texts at once. They would be stored in the order in which their vectors arrive, and of texts
    with equal scores a search returns the first. So one request waits for the one before.
    """
    turn = asyncio.Lock()

    async def embed_texts(texts: Sequence[str]) -> list[list[float]]:
        async with turn:
            with monitor.call():
                return await embed_rows(embed, texts)

    return embed_texts


def date_message(date: str) -> dict[str, str]:
    """Return a system message with the date of a session. langmem has no dates, and its model cannot know them."""
    line = " ".join(date.split()) or UNKNOWN_DATE
    return {"role": "system", "content": f"Date of these messages: {line}"}


def memory_text(content: Any) -> str:
    """Return the text of a memory. A model may have changed its form by a patch."""
    text = content.get("content") if isinstance(content, dict) else content
    return text if isinstance(text, str) else json.dumps(content, ensure_ascii=False, sort_keys=True)
