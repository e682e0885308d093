"""A memory of one case: made for it, called with a limit of time, plain or async, and what it used."""

from __future__ import annotations

import asyncio
import inspect
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from assay.core.errors import AssayError, CaseFailed
from assay.core.memory import Around, Found, Item, Kind, Memory, Message, Query
from assay.core.protocols import Context
from assay.core.threads import DaemonPool
from assay.core.types import Failure, Request
from assay.solvers.memory.embedding import Embedding

STORAGE, RETRIEVAL = "storage", "retrieval"


class Held:
    """A memory with its clock. A method that raises or hangs ends the case, and says which it was."""

    def __init__(self, kind: Kind, pool: DaemonPool, timeout: float) -> None:
        self._name = kind.name
        self._quick = kind.about.quick
        self._gives_all = kind.about.bundle or kind.about.needs_evidence
        self._pool = pool
        self._timeout = timeout
        self._stage = STORAGE
        self.memory: Memory
        self.tokens: dict[str, list[int]] = {}
        """Input and output by stage, as far as endpoints count them."""

    async def add(self, messages: Sequence[Message]) -> float:
        """Seconds it took."""
        return (await self._timed("add", messages))[1]

    async def end_session(self) -> float:
        """Seconds it took."""
        return (await self._timed("end_session"))[1]

    async def search(self, query: Query, k: int) -> tuple[list[Found], float]:
        """What it found, and the seconds. Of a memory that gives more than it may, the first ones count."""
        self._stage = RETRIEVAL
        try:
            found, seconds = await self._timed("search", query, k)
        finally:
            self._stage = STORAGE
        try:
            plain = [_plain(one) for one in found]
        except Exception as error:
            raise self.failed("search", f"[{type(error).__name__}] {error}") from error
        return plain if self._gives_all else plain[:k], seconds

    async def items(self) -> list[Item]:
        """Everything it holds."""
        return list((await self._timed("items"))[0])

    async def _timed(self, method: str, *values: Any) -> tuple[Any, float]:
        began = time.perf_counter()
        function = getattr(self.memory, method)
        try:
            if self._quick:
                result = function(*values)
            else:
                async with asyncio.timeout(self._timeout):
                    result = await self._called(function, values)
        except AssayError:
            raise
        except TimeoutError:
            raise self.failed(method, f"it took longer than {self._timeout:g} s") from None
        except Exception as error:
            raise self.failed(method, f"[{type(error).__name__}] {error}") from error
        return result, time.perf_counter() - began

    async def _called(self, function: Callable[..., Any], values: tuple[Any, ...]) -> Any:
        """Plain code has a thread: while it works, answers of other tests come in."""
        if inspect.iscoroutinefunction(function):
            return await function(*values)
        result = await self._pool.run(partial(function, *values))
        return await result if inspect.isawaitable(result) else result

    def failed(self, method: str, said: str) -> CaseFailed:
        """What ends the case: the memory's method, and what is wrong with it."""
        return CaseFailed(Failure("user_code", f"{self._name}.{method}: {said}"))

    def count(self, asked: int, said: int) -> None:
        """Tokens of one call that the memory made."""
        spent = self.tokens.setdefault(self._stage, [0, 0])
        spent[0] += asked
        spent[1] += said


def _plain(found: Found) -> Found:
    """As a journal can hold it: scores of libraries are numbers of kinds of their own."""
    if type(found.item.id) is not str or type(found.item.text) is not str:
        raise TypeError("id and text of an item must be texts")
    return found if type(found.score) is float else Found(found.item, float(found.score))


class Maker:
    """Makes one memory for each case, with a folder of its own."""

    def __init__(self, kind: Kind, options: dict[str, Any], embedding: Embedding, timeout: float) -> None:
        self._kind = kind
        self._name = kind.name
        self._options = options
        self._embedding = embedding
        self._timeout = timeout
        self._pool = DaemonPool(64, "assay-memory", replaces=True)

    @asynccontextmanager
    async def opened(self, ctx: Context) -> AsyncIterator[Held]:
        """An empty memory. What it wrote is gone afterwards: it can be made again of logged replies."""
        held = Held(self._kind, self._pool, self._timeout)
        with tempfile.TemporaryDirectory(prefix="assay-memory-", ignore_cleanup_errors=True) as folder:
            around = Around(
                ask=_asking(ctx, held),
                embed=self._embedding(ctx),
                base_url=partial(ctx.base_url, "main"),
                folder=Path(folder),
                rng=ctx.rng(f"memory {self._name}"),
                options=self._options,
            )
            try:
                held.memory = self._kind.make(around)
            except AssayError:
                raise
            except Exception as error:
                raise CaseFailed(
                    Failure("user_code", f"{self._name}: [{type(error).__name__}] {error}")
                ) from error
            yield held


def _asking(ctx: Context, held: Held) -> Callable[[list[dict[str, Any]], dict[str, Any]], Awaitable[str]]:
    async def ask(messages: list[dict[str, Any]], params: dict[str, Any]) -> str:
        asker = ctx.model()
        request = Request(model=asker.name, endpoint=asker.endpoint, messages=messages, params=params)
        response = await asker.ask(request)
        if response.usage:
            held.count(response.usage.input, response.usage.output)
        return response.text

    return ask
