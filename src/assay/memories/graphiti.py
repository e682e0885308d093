"""`graphiti`: the real `graphiti-core` package. It builds a graph of entities and dated facts from the messages.

Each message is an episode. The model extracts entities and facts, merges them with known ones, and says which known
facts a new one contradicts: these stay, with the day on which they ended. A search returns facts, by words and vectors.

The graph is a Kuzu database in the folder of the case. Kuzu is archived, so its version is pinned. It is the only
database of graphiti that runs without a server. assay changes six things: the clock is the date of the session, ids
are numbers instead of random ones, calls are made one at a time, a failed call always fails the operation, vectors come
from --embedder, and no telemetry is sent.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any

from assay.core.memory import (
    ACTIVE,
    AboutMemory,
    JsonValue,
    MemoryContext,
    MemoryItem,
    Message,
    Query,
    SearchHit,
    options_of,
)
from assay.memories.helpers.dates import read_date
from assay.memories.helpers.foreign import (
    CallMonitor,
    Embed,
    deprecations_ignored,
    embed_rows,
    open_client,
    package_version,
    require_package,
)
from assay.memories.helpers.pinned import NO_DATE, PinnedSources, pin_package
from assay.memories.helpers.scores import limit

ABOUT = AboutMemory(
    summary="the graphiti-core package: a graph of entities and dated facts, found by words and embeddings",
    asks=True,
    embeds=True,
    options={"k": 0},
    prompts=package_version("graphiti-core", "kuzu"),
)
# The `kind` of a fact in result files, and the `status` of one that is no longer true.
KIND, ENDED = "graphiti_fact", "invalidated"
# Kuzu would reserve 80 % of the memory and 8 TB of addresses for each open conversation.
_BUFFER_BYTES, _MAX_FILE_BYTES = 128 << 20, 1 << 34
# graphiti asks again after an empty reply or one that is no JSON: four times in all, as the package does.
_ATTEMPTS = 4


def make(context: MemoryContext) -> GraphitiMemory:
    """Make an empty memory. Raises MissingExtra if the packages are not installed."""
    for module in ("graphiti_core", "kuzu"):
        require_package(module, "graphiti")
    return GraphitiMemory(context)


class GraphitiMemory:
    """The facts of one conversation. The first message opens the graph."""

    def __init__(self, context: MemoryContext) -> None:
        self._context = context
        self._options = options_of(ABOUT, context.options)
        self._monitor = CallMonitor("graphiti")
        self._graph: Graph | None = None
        self._graph_count = 0
        self.reset()

    def reset(self) -> None:
        """Close the graph. The next message opens a new one."""
        if self._graph is not None:
            self._graph.close()
        self._graph = None
        self._pinned = PinnedSources()
        self._clock = EpisodeClock()
        self._messages: dict[str, Message] = {}  # by graphiti's id of the episode
        self._items: dict[str, MemoryItem] = {}  # by graphiti's id of the fact

    async def add(self, messages: Sequence[Message]) -> None:
        """Add an episode for each message. Facts of a message have it as their source."""
        if messages and self._graph is None:
            self._graph = await self._open()
        for message in messages:
            assert self._graph is not None
            moment = self._clock.moment(message.date)
            with self._operation(moment):
                result = await self._graph.add(message, moment)
            self._messages[result.episode.uuid] = message
            for fact in result.edges:
                self._items[fact.uuid] = self._item(fact)

    async def search(self, query: Query, k: int) -> list[SearchHit]:
        """Return facts by reciprocal rank fusion of words and vectors. An empty question returns none."""
        max_hits = limit(k, self._options["k"])
        if self._graph is None or not self._items or not max_hits or not query.text.strip():
            return []
        with self._operation(self._clock.now):
            scores = await self._graph.search(query.text, max_hits)
        return [SearchHit(self._items[fact], score) for fact, score in scores]

    def items(self) -> list[MemoryItem]:
        """Return all facts in the order of their creation, also those that are no longer true."""
        return list(self._items.values())

    def end_session(self) -> None:
        """Do nothing."""

    def _item(self, fact: Any) -> MemoryItem:
        """Return the item of a fact. It keeps its number when graphiti changes it."""
        known = self._items.get(fact.uuid)
        name = known.id if known else f"graphiti:{len(self._items) + 1}"
        said = [self._messages[episode] for episode in fact.episodes if episode in self._messages]
        metadata: dict[str, JsonValue] = {"relation": fact.name}
        for key in ("valid_at", "invalid_at"):
            if moment := getattr(fact, key):
                # Facts that were read from Kuzu have moments of UTC without a time zone.
                metadata[key] = moment.replace(tzinfo=moment.tzinfo or UTC).isoformat()
        return MemoryItem(
            name,
            fact.fact,
            said[0].session if said else "",
            said[0].date if said else "",
            tuple(message.id for message in said),
            KIND,
            ACTIVE if fact.expired_at is None else ENDED,
            metadata,
        )

    @contextmanager
    def _operation(self, moment: datetime) -> Iterator[None]:
        with self._monitor.operation(), self._pinned.active(moment):
            yield

    async def _open(self) -> Graph:
        self._graph_count += 1
        path = self._context.folder / f"graphiti-{self._graph_count}.kuzu"
        with self._operation(NO_DATE):
            url = await self._context.base_url()
            return await open_graph(str(path), url, self._context.embed, self._monitor)


class EpisodeClock:
    """Gives each message a moment of its own: the date of its session, and a second for each message before it.

    graphiti orders episodes by their moment. A session whose date cannot be read has that of the session before.
    """

    def __init__(self) -> None:
        self._start = NO_DATE
        self._date = ""
        self.now = NO_DATE

    def moment(self, date: str) -> datetime:
        """Return the moment of the next message of a session with this date."""
        start = read_date(date) or self._start
        if start != self._start:
            self._start = self.now = start
        else:
            self.now += timedelta(seconds=1)
        return self.now


class Graph:
    """One `graphiti_core.Graphiti` with its database."""

    def __init__(self, graphiti: Any, driver: Any) -> None:
        self._graphiti = graphiti
        self.close = weakref.finalize(self, _close, driver)

    async def add(self, message: Message, moment: datetime) -> Any:
        """Add an episode, and return graphiti's result: the episode, and all facts that it added or changed."""
        lines = [f"{turn.role}: {turn.text}" for turn in message.turns] or [message.line]
        return await self._graphiti.add_episode(
            name=message.id,
            episode_body="\n".join(lines),
            source_description="conversation",
            reference_time=moment,
        )

    async def search(self, text: str, k: int) -> list[tuple[str, float]]:
        """Return (id, score) of the best facts, best first: what `Graphiti.search` does, with the scores."""
        from graphiti_core.search.search_config_recipes import EDGE_HYBRID_SEARCH_RRF

        config = EDGE_HYBRID_SEARCH_RRF.model_copy(update={"limit": k})
        found = await self._graphiti.search_(text, config=config)
        return [(fact.uuid, float(score)) for fact, score in zip(found.edges, found.edge_reranker_scores, strict=True)]


def _close(driver: Any) -> None:
    with suppress(Exception):  # the folder may have been deleted already
        driver.client.close()
        driver.db.close()


async def open_graph(path: str, url: str, embed: Embed, monitor: CallMonitor) -> Graph:
    """Open an empty graph in a file. `url` is the gateway's."""
    load_package()
    from graphiti_core import Graphiti
    from graphiti_core.cross_encoder.client import CrossEncoderClient
    from graphiti_core.driver.kuzu_driver import KuzuDriver
    from graphiti_core.embedder.client import EmbedderClient
    from graphiti_core.llm_client.config import LLMConfig
    from graphiti_core.llm_client.errors import EmptyResponseError
    from graphiti_core.llm_client.openai_generic_client import OpenAIGenericClient

    class RunModel(OpenAIGenericClient):  # type: ignore[misc]
        """The run's model. The gateway retries failed calls; graphiti would wait a random time for each."""

        async def _generate_response_with_retry(self, *args: Any, **kwargs: Any) -> Any:
            for _ in range(_ATTEMPTS - 1):
                with suppress(EmptyResponseError, ValueError):  # JSONDecodeError is a ValueError
                    return await self._generate_response(*args, **kwargs)
            return await self._generate_response(*args, **kwargs)

    class RunEmbedder(EmbedderClient):  # type: ignore[misc]
        """The embedder of the run."""

        async def create(self, input_data: Any) -> list[float]:
            return (await self.create_batch([input_data] if isinstance(input_data, str) else input_data))[0]

        async def create_batch(self, input_data_list: list[str]) -> list[list[float]]:
            with monitor.call():
                return await embed_rows(embed, input_data_list)

    class NoReranker(CrossEncoderClient):  # type: ignore[misc]
        """Keeps the order. Searches here use reciprocal rank fusion; graphiti's own reranker would call OpenAI."""

        async def rank(self, query: str, passages: list[str]) -> list[tuple[str, float]]:
            return [(passage, 1 / rank) for rank, passage in enumerate(passages, 1)]

    client = open_client(url)
    with monitor.call():
        name = (await client.models.list()).data[0].id
    client.chat.completions.create = monitored(client.chat.completions.create, monitor)
    with deprecations_ignored():  # Kuzu is archived: docs/memories.md says so
        driver = KuzuDriver(path)
    # The driver's own method creates no index, and a search by words would fail.
    await driver.graph_ops.build_indices_and_constraints(driver)
    graphiti = Graphiti(
        graph_driver=driver,
        llm_client=RunModel(LLMConfig(model=name, small_model=name, temperature=0), client=client),
        embedder=RunEmbedder(),
        cross_encoder=NoReranker(),
        max_coroutines=1,
    )
    return Graph(graphiti, driver)


def monitored(create: Any, monitor: CallMonitor) -> Any:
    """Return the function that sends a request. Failures are reported to the monitor."""

    async def send(**params: Any) -> Any:
        with monitor.call():
            return await create(**params)

    return send


def load_package() -> None:
    """Import graphiti without telemetry and `.env` files, with small databases, and with ids that can be pinned."""
    import dotenv

    load_dotenv = dotenv.load_dotenv
    # graphiti reads a file `.env` of the working folder, or of one above it, into the environment.
    dotenv.load_dotenv = lambda *_, **__: False
    try:
        with deprecations_ignored():
            import kuzu
            from graphiti_core.driver import kuzu_driver
            from graphiti_core.llm_client import openai_generic_client  # noqa: F401
            from graphiti_core.telemetry import telemetry
    finally:
        dotenv.load_dotenv = load_dotenv
    telemetry.is_telemetry_enabled = lambda: False
    # One thread: with several, facts with equal scores come in an order of chance.
    kuzu_driver.kuzu = SimpleNamespace(
        Database=partial(kuzu.Database, buffer_pool_size=_BUFFER_BYTES, max_db_size=_MAX_FILE_BYTES, max_num_threads=1),
        Connection=kuzu.Connection,
        AsyncConnection=partial(kuzu.AsyncConnection, max_threads_per_query=1),
    )
    pin_package("graphiti_core")
