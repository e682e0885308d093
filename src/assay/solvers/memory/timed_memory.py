"""Finds the memories of a run by name, opens one per case, and calls them with timing and a time limit.

    memories = MemorySet(find_memories(["bm25", "FUMemory"], "--memory"), {}, "wordllama", timeout=60.0)
    async with memories.open("bm25", ctx) as memory:
        seconds = await memory.add(messages)
        hits, seconds = await memory.search(Query("Who likes tea?"), k=5)

A memory may be user code. A method that raises, exits, hangs or returns an invalid value fails its case only.
"""

from __future__ import annotations

import base64
import inspect
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from assay.core import registry, user_code
from assay.core.connect import EMBEDDINGS, Role
from assay.core.errors import CaseFailed, ModelError, UsageError
from assay.core.excerpt import cut_end
from assay.core.memory import (
    Memory,
    MemoryContext,
    MemoryItem,
    MemoryPlugin,
    Message,
    Query,
    SearchHit,
    find_memory,
    options_of,
    resolve,
)
from assay.core.protocols import Asker, Context
from assay.core.threads import DaemonPool
from assay.core.types import Failure, Request
from assay.core.user_code_errors import UserCodeError, place_note
from assay.core.user_loop import LoopTurn, run_here, run_there
from assay.solvers.memory.roles import BUILD_ROLE, EMBEDDER_ROLE

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Stages of a memory, for the token counts.
STORAGE, RETRIEVAL = "storage", "retrieval"
# Texts per embedding request. Some endpoints accept only a few hundred.
_EMBED_BATCH = 64
# The methods of `core.memory.Memory`.
_METHODS = ("reset", "add", "search", "items", "end_session")

T = TypeVar("T")


def _unchanged(result: Any) -> Any:
    """Return the result of a method as it is: `reset`, `add` and `end_session` return nothing to check."""
    return result


EmbedFunction = Callable[[Sequence[str]], Awaitable["NDArray[Any]"]]


class TimedMemory:
    """The memory of one open case. Each call is timed and limited to `timeout` seconds."""

    def __init__(self, plugin: MemoryPlugin, pool: DaemonPool, turn: LoopTurn, timeout: float) -> None:
        self._turn = turn
        self._name = plugin.name
        self._quick = plugin.about.quick
        # A bundle is one long text in pieces, and the oracle returns all evidence: neither may be cut to k.
        self._ignores_k = plugin.about.bundle or plugin.about.needs_evidence
        self._pool = pool
        self._timeout = timeout
        self._stage = STORAGE
        self.memory: Memory
        self.tokens: dict[str, list[int]] = {}
        """Input and output tokens by stage, if the endpoint reports them."""

    async def add(self, messages: Sequence[Message]) -> float:
        """Insert messages and return the seconds it took."""
        _, seconds = await self._call("add", self.memory.add, messages)
        return seconds

    async def end_session(self) -> float:
        """Tell the memory that a session has ended, and return the seconds it took."""
        _, seconds = await self._call("end_session", self.memory.end_session)
        return seconds

    async def search(self, query: Query, k: int) -> tuple[list[SearchHit], float]:
        """Return the hits and the seconds of the search. Hits beyond the first `k` are dropped."""
        self._stage = RETRIEVAL
        try:
            # The result may be a generator, so reading it runs user code too.
            hits, seconds = await self._call("search", self.memory.search, query, k, read=_checked_hits)
        finally:
            self._stage = STORAGE
        return hits if self._ignores_k else hits[:k], seconds

    async def items(self) -> list[MemoryItem]:
        """Return every stored item."""
        items, _ = await self._call("items", self.memory.items, read=_checked_items)
        return items

    async def _call(
        self, method: str, function: Callable[..., Any], *args: Any, read: Callable[[Any], T] = _unchanged
    ) -> tuple[T, float]:
        """Call a method of the memory. Returns what `read` makes of its result, and the seconds it took."""
        started = time.perf_counter()
        try:
            # A quick memory of ours cannot hang, so it needs no thread and no timeout.
            if self._quick:
                await self._turn.give_way()
                started = time.perf_counter()
                value = user_code.call_here(_call_and_read, (partial(function, *args), read))
            elif user_code.is_async(function):
                value = await run_there(partial(self._await, partial(function, *args), read, self._timeout))
            else:
                work = partial(_call_and_read, partial(function, *args), read)
                value = await user_code.call(work, timeout=self._timeout, pool=self._pool)
                # A method without `async` may still return a coroutine, for example of another method.
                if inspect.isawaitable(value):
                    seconds_left = max(0.0, self._timeout - (time.perf_counter() - started))
                    value = await run_there(partial(self._await, partial(resolve, value), read, seconds_left))
        except UserCodeError as error:
            raise self._user_code_failed(method, error, function) from error
        return value, time.perf_counter() - started

    async def _await(
        self, function: Callable[[], Awaitable[Any]], read: Callable[[Any], T], seconds: float
    ) -> T:
        """Await a coroutine of the memory, in the loop for user code, and read its result."""
        result = await user_code.call(function, timeout=seconds)
        return user_code.call_here(read, (result,))

    def _user_code_failed(
        self, method: str, error: UserCodeError, function: Callable[..., Any]
    ) -> CaseFailed:
        message = str(error)
        if error.error is not None and not error.where:
            # No line of the user raised: the method returned an invalid value.
            message += place_note(function)
        # Awaiting a coroutine has a shorter limit (see _call). The message names the limit that the user set.
        if error.kind == "timeout" and error.error is None:
            message = f"it took longer than {self._timeout:g} s"
        return CaseFailed(error.failure(f"{self._name}.{method}: {message}"))

    def failed(self, method: str, message: str) -> CaseFailed:
        """Return the error that fails the case. The message names the memory and its method."""
        return CaseFailed(Failure("user_code", f"{self._name}.{method}: {message}"))

    def count_tokens(self, input_tokens: int, output_tokens: int) -> None:
        """Add the tokens of one model call by the memory."""
        counts = self.tokens.setdefault(self._stage, [0, 0])
        counts[0] += input_tokens
        counts[1] += output_tokens


def _call_and_read(function: Callable[[], Any], read: Callable[[Any], Any]) -> Any:
    """Return what `read` makes of the result, or the awaitable that a plain method has returned."""
    result = function()
    return result if inspect.isawaitable(result) else read(result)


def _checked_hits(result: Any) -> list[SearchHit]:
    if not isinstance(result, Iterable) or isinstance(result, str):
        raise TypeError(
            f"it returned {cut_end(repr(result), 60)}; return a list of SearchHit(MemoryItem(…), score)"
        )
    return [_checked_hit(hit) for hit in result]


def _checked_items(result: Any) -> list[MemoryItem]:
    if not isinstance(result, Iterable) or isinstance(result, str):
        raise TypeError(f"it returned {cut_end(repr(result), 60)}; return a list of MemoryItem(…)")
    return list(result)


def _checked_hit(hit: Any) -> SearchHit:
    """Return a hit that the journal can store: a score such as numpy.float32 becomes a float."""
    if not isinstance(hit, SearchHit):
        raise TypeError(
            f"it must return a list of SearchHit(MemoryItem(…), score), not of {type(hit).__name__}"
        )
    if type(hit.item.id) is not str or type(hit.item.text) is not str:
        raise TypeError("id and text of an item must be texts")
    return hit if type(hit.score) is float else SearchHit(hit.item, float(hit.score))


def find_memories(names: Sequence[str], flag: str) -> dict[str, MemoryPlugin]:
    """Return the memories, by the names that reports and files use. `flag` is the option to name in errors."""
    if not names:
        choices = ", ".join(registry.names("memory"))
        raise UsageError(f"no memory is named; {flag} takes {choices}, or FILE.py:Name")
    plugins: dict[str, MemoryPlugin] = {}
    for name in names:
        plugin = find_memory(name)
        if plugin.name in plugins:
            raise UsageError(f"two memories would be called {plugin.name!r}; rename a file")
        plugins[plugin.name] = plugin
    return plugins


class MemorySet:
    """The memories of a run with their options. `open` makes a memory for one case.

    Each of `options` goes to every memory that has this option. `embedder` is PROVIDER/NAME for an endpoint,
    or the name of an embedder that runs in this process. `roles` has the model for embedding, if any.
    """

    def __init__(
        self, plugins: Mapping[str, MemoryPlugin], options: Mapping[str, Any], embedder: str, timeout: float
    ) -> None:
        self._plugins = plugins
        self._options = {name: _plugin_options(plugin, options, plugins) for name, plugin in plugins.items()}
        self._embedder = embedder
        self._timeout = timeout
        # `replaces`: a thread whose memory timed out cannot be stopped, so a new thread takes its place.
        self._pool = DaemonPool(64, "assay-memory", replaces=True)
        self._turn = LoopTurn()
        self.roles: dict[str, Role] = {}
        if "/" in embedder and ".py:" not in embedder:
            self.roles[EMBEDDER_ROLE] = Role(embedder, needs=frozenset({EMBEDDINGS}))
        self.asks = any(plugin.about.asks for plugin in plugins.values())
        self.needing_evidence = frozenset(
            name for name, plugin in plugins.items() if plugin.about.needs_evidence
        )
        self.bundles = frozenset(name for name, plugin in plugins.items() if plugin.about.bundle)

    @asynccontextmanager
    async def open(self, name: str, ctx: Context) -> AsyncIterator[TimedMemory]:
        """Make an empty memory for a case. Its folder is deleted afterwards.

        A later attempt at the case builds the memory again. Its model calls are replayed from the journal.
        """
        plugin = self._plugins[name]
        memory = TimedMemory(plugin, self._pool, self._turn, self._timeout)

        async def ask(messages: list[dict[str, Any]], params: dict[str, Any]) -> str:
            asker = ctx.model(BUILD_ROLE)
            request = Request(model=asker.name, endpoint=asker.endpoint, messages=messages, params=params)
            response = await asker.ask(request)
            if response.usage:
                memory.count_tokens(response.usage.input, response.usage.output)
            return response.text

        with tempfile.TemporaryDirectory(prefix="assay-memory-", ignore_cleanup_errors=True) as folder:
            context = MemoryContext(
                ask=run_here(ask),
                embed=self._embed_function(ctx),
                base_url=run_here(partial(ctx.base_url, BUILD_ROLE)),
                folder=Path(folder),
                rng=ctx.rng(f"memory {name}"),
                options=self._options[name],
            )
            try:
                if plugin.about.quick:
                    memory.memory = user_code.call_here(plugin.make, (context,))
                else:
                    # The memory may need the running loop, or load files for long.
                    memory.memory = await run_there(partial(_make, plugin, context))
            except UserCodeError as error:
                raise CaseFailed(error.failure(f"{name}: {error}")) from error
            if missing := [method for method in _METHODS if not hasattr(memory.memory, method)]:
                kind = type(memory.memory).__name__
                message = f"{name}: {kind} lacks {', '.join(missing)}; a memory has {', '.join(_METHODS)}"
                raise CaseFailed(Failure("user_code", message))
            yield memory

    def _embed_function(self, ctx: Context) -> EmbedFunction:
        if self.roles:
            return run_here(partial(_embed_at_endpoint, ctx))
        return partial(_embed_here, self._embedder)


async def _make(plugin: MemoryPlugin, context: MemoryContext) -> Memory:
    return user_code.call_here(plugin.make, (context,))


def _plugin_options(
    plugin: MemoryPlugin, options: Mapping[str, Any], plugins: Mapping[str, MemoryPlugin]
) -> dict[str, Any]:
    """Return the options that this memory has. Raises UsageError for an option that no memory of the run has."""
    names = {name for each in plugins.values() for name in each.about.options}
    for name in options:
        if name not in names:
            raise UsageError(registry.unknown("option of these memories", name, sorted(names)))
    return options_of(plugin.about, {name: options[name] for name in options if name in plugin.about.options})


async def _embed_here(name: str, texts: Sequence[str]) -> NDArray[Any]:
    """Embed texts in this process. The embedder is loaded at the first call."""
    vectors: NDArray[Any] = registry.find("embedder", name).load().embed(texts)
    return vectors


async def _embed_at_endpoint(ctx: Context, texts: Sequence[str]) -> NDArray[Any]:
    """Embed texts with the endpoint of the embedder role. Calls are logged, retried, and replayed on resume.

    Returns unit vectors.
    """
    import numpy as np

    asker = ctx.model(EMBEDDER_ROLE)
    rows: list[list[float]] = []
    for start in range(0, len(texts), _EMBED_BATCH):
        rows += await _request_vectors(asker, list(texts[start : start + _EMBED_BATCH]))
    vectors = np.array(rows, dtype=np.float32).reshape(len(texts), -1)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: NDArray[Any] = vectors / np.maximum(lengths, 1e-9)
    return unit


async def _request_vectors(asker: Asker, texts: list[str]) -> list[list[float]]:
    """Return one vector per text, in the order of the texts. An endpoint may reply in another order."""
    params = {"path": "/embeddings", "body": {"input": texts}}
    response = await asker.ask(Request(model=asker.name, endpoint=asker.endpoint, params=params))
    data = (response.data or {}).get("vectors", {}).get("data", [])
    if len(data) != len(texts):
        message = f"{asker.name} returned {len(data):,} vectors for {len(texts):,} texts"
        raise ModelError(Failure("bad_reply", message))
    items = sorted(data, key=lambda item: item.get("index", 0))
    return [_decode_vector(item["embedding"]) for item in items]


def _decode_vector(vector: Any) -> list[float]:
    """Return the numbers of a vector. The journal stores a vector as base64 if float32 loses no precision."""
    if isinstance(vector, dict):
        import numpy as np

        numbers: list[float] = np.frombuffer(base64.b64decode(vector["float32"]), dtype="<f4").tolist()
        return numbers
    return [float(value) for value in vector]
