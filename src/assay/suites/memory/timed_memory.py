"""Calls the memory of a case with timing and a time limit, and counts its model calls by purpose.

    async with memories.open("bm25", ctx) as memory:       # see memory_set.py
        seconds = await memory.add(messages)
        hits, seconds = await memory.search(Query("Who likes tea?"), k=5)

A memory may be user code. A method that raises, exits, hangs or returns an invalid value fails its case only.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

from assay.core.errors import CaseFailed
from assay.core.memory import AboutMemory, Memory, MemoryItem, Message, Query, SearchHit, resolve
from assay.core.protocols import Asker
from assay.core.threads import DaemonPool
from assay.core.types import CallTime, Failure
from assay.core.usage import BUILD, RETRIEVE, PurposeUsage, add_usage
from assay.files.excerpt import cut_end
from assay.suites.memory.json_values import check_json
from assay.suites.memory.operation_time import call_correction, timed, timed_coroutine
from assay.usercode import user_function
from assay.usercode.errors import UserCodeError, place_note
from assay.usercode.loop import LoopTurn, run_there

T = TypeVar("T")


def _unchanged(result: Any) -> Any:
    """Return the result of a method as it is: `reset`, `add` and `end_session` return nothing to check."""
    return result


class TimedMemory:
    """The memory of one open case. Each call is timed and limited to `timeout` seconds."""

    def __init__(
        self,
        name: str,
        about: AboutMemory,
        pool: DaemonPool,
        turn: LoopTurn,
        timeout: float,
        k: int = 0,
    ) -> None:
        """`k` is the number of items to retrieve instead of the run's. 0 means the run's."""
        self._k = k
        self._turn = turn
        self._name = name
        self._quick = about.quick
        # A bundle is one long text in pieces, and the oracle returns all evidence: neither may be cut to k.
        self._ignores_k = about.bundle or about.needs_evidence
        self._pool = pool
        self._timeout = timeout
        self._purpose = BUILD
        self._askers: list[Asker] = []
        self._call_times: list[CallTime] = []
        self.memory: Memory

    def use(self, asker: Asker) -> Asker:
        """Return the model, after noting that this memory calls it. Its calls are then counted by purpose."""
        if not any(each is asker for each in self._askers):
            self._askers.append(asker)
            asker.purpose = self._purpose
            asker.call_times = self._call_times
        return asker

    @property
    def usage(self) -> dict[str, PurposeUsage]:
        """What the model calls of this memory cost, by purpose."""
        total: dict[str, PurposeUsage] = {}
        for asker in self._askers:
            add_usage(total, asker.usage)
        return total

    def _enter(self, purpose: str) -> None:
        self._purpose = purpose
        for asker in self._askers:
            asker.purpose = purpose

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
        k = self._k or k
        self._enter(RETRIEVE)
        try:
            # The result may be a generator, so reading it runs user code too.
            hits, seconds = await self._call("search", self.memory.search, query, k, read=_checked_hits)
        finally:
            self._enter(BUILD)
        return hits if self._ignores_k else hits[:k], seconds

    async def items(self) -> list[MemoryItem]:
        """Return every stored item."""
        items, _ = await self._call("items", self.memory.items, read=_checked_items)
        return items

    async def _call(
        self, method: str, function: Callable[..., Any], *args: Any, read: Callable[[Any], T] = _unchanged
    ) -> tuple[T, float]:
        """Call a method of the memory. Returns what `read` makes of its result, and the seconds it took.

        A reply from the log takes no time. The seconds include the time that it took when it was sent, so that a
        continued run, or one that reuses another run's building, has the same seconds.
        """
        self._call_times.clear()
        work = partial(_call_and_read, partial(function, *args), read)
        try:
            # A quick memory of ours cannot hang, so it needs no thread and no timeout. It only computes.
            if self._quick:
                await self._turn.give_way()
                value, took = user_function.call_here(timed, (work,))
                seconds = took.cpu
            elif user_function.is_async(function):
                value, seconds = await self._await(partial(function, *args), read, self._timeout)
            else:
                value, seconds = await self._call_in_thread(work, read)
        except UserCodeError as error:
            raise self._user_code_failed(method, error, function) from error
        # At least 0: some calls may have ended after the operation itself.
        return value, max(0.0, seconds + call_correction(self._call_times))

    async def _call_in_thread(self, work: Callable[[], Any], read: Callable[[Any], T]) -> tuple[T, float]:
        """Call a plain method in a thread, and read its result."""
        threads = self._pool.busy
        value, took = await user_function.call(partial(timed, work), timeout=self._timeout, pool=self._pool)
        # The others of the pool, and the thread of the run.
        threads = max(threads, self._pool.busy) + 1
        # A method without `async` may still return a coroutine, for example of another method.
        if inspect.isawaitable(value):
            seconds_left = max(0.0, self._timeout - took.wall)
            value, seconds = await self._await(partial(resolve, value), read, seconds_left)
            return value, took.seconds(threads) + seconds
        return value, took.seconds(threads)

    async def _await(
        self, function: Callable[[], Awaitable[Any]], read: Callable[[Any], T], limit: float
    ) -> tuple[T, float]:
        """Await a coroutine of the memory, in the loop for user code, and read its result."""

        async def run() -> tuple[T, float]:
            result, seconds = await user_function.call(partial(timed_coroutine, function), timeout=limit)
            return user_function.call_here(read, (result,)), seconds

        return await run_there(run)

    def _user_code_failed(self, method: str, error: UserCodeError, function: Callable[..., Any]) -> CaseFailed:
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


def _call_and_read(function: Callable[[], Any], read: Callable[[Any], Any]) -> Any:
    """Return what `read` makes of the result, or the awaitable that a plain method has returned."""
    result = function()
    return result if inspect.isawaitable(result) else read(result)


def _checked_hits(result: Any) -> list[SearchHit]:
    if not isinstance(result, Iterable) or isinstance(result, str):
        raise TypeError(f"it returned {cut_end(repr(result), 60)}; return a list of SearchHit(MemoryItem(…), score)")
    hits = [_checked_hit(hit) for hit in result]
    _refuse_repeated_id([hit.item for hit in hits])
    return hits


def _checked_items(result: Any) -> list[MemoryItem]:
    if not isinstance(result, Iterable) or isinstance(result, str):
        raise TypeError(f"it returned {cut_end(repr(result), 60)}; return a list of MemoryItem(…)")
    items = list(result)
    for item in items:
        if not isinstance(item, MemoryItem):
            raise TypeError(f"it must return a list of MemoryItem(…), not of {type(item).__name__}")
        if item.metadata:
            check_json("metadata", item.metadata)
    _refuse_repeated_id(items)
    return items


def _refuse_repeated_id(items: Sequence[MemoryItem]) -> None:
    """Raise ValueError if two items have one id: results find an item by its id, and would show one for the other."""
    # Whether an id is a text is checked elsewhere.
    ids = [item.id for item in items if type(item.id) is str]
    # All items are checked after every session, so the usual case makes one set and reads no further.
    if len(set(ids)) == len(ids):
        return
    seen: set[str] = set()
    for id_ in ids:
        if id_ in seen:
            raise ValueError(f"it returned two items with the id {cut_end(id_, 60)!r}; ids must be unique")
        seen.add(id_)


def _checked_hit(hit: Any) -> SearchHit:
    """Return a hit that the journal can store: a score such as numpy.float32 becomes a float."""
    if not isinstance(hit, SearchHit):
        raise TypeError(f"it must return a list of SearchHit(MemoryItem(…), score), not of {type(hit).__name__}")
    if type(hit.item.id) is not str or type(hit.item.text) is not str:
        raise TypeError("id and text of an item must be texts")
    if hit.trace:
        check_json("trace", hit.trace)
    score = float(hit.score)
    # A score of NaN has no rank, and JSON has neither NaN nor infinity.
    if not math.isfinite(score):
        raise ValueError(f"the score of the item {hit.item.id!r} is {score}; a score is a finite number")
    return hit if type(hit.score) is float else SearchHit(hit.item, score, hit.trace)
