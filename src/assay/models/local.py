"""A model inside this process: `local/smollm2`, or `local/PATH.gguf` for any file llama.cpp can read.

There is one slot unless `n_parallel` asks for more. llama.cpp computes a token together with whatever the
other slots are doing, and rounds differently for every such mixture: with four slots about one greedy answer
in twenty changed from run to run, with one slot none ever did, and on two cores it is nearly as fast.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from assay.core.connect import CHAT, LIKELIHOOD, SCHEMA, TEXT, About, Connection
from assay.core.errors import ModelError, UsageError
from assay.core.hashing import file_sha256
from assay.core.threads import DaemonPool
from assay.core.types import Failure, Request, Response
from assay.models.likelihood import spans
from assay.models.llama.engine import Engine, Halt, Settings, at_work, engine, llama
from assay.models.llama.forced import Forced
from assay.models.llama.reply import Reply
from assay.models.llama.tokens import Asked, asked
from assay.models.weights.pull import KNOWN, locate

ABOUT = About(
    summary="a model inside this process (llama.cpp): smollm2, or any GGUF file",
    needs="pip install 'assay[local]'; for smollm2 once: assay models pull smollm2",
    can=frozenset({CHAT, TEXT, LIKELIHOOD, SCHEMA}),
    example="local/smollm2",
)
_CONTEXT = 8192
"""Tokens of context over all slots: as long as SmolLM2 was trained for, 190 MB of its cache."""
_FOR_ALL = frozenset({"base_url", "num_concurrent", "max_retries", "timeout"})
"""Arguments that the harness passes this way and that are options of every provider here."""
T = TypeVar("T")


class LocalModel:
    """One file of weights. It is loaded by the first request."""

    can = ABOUT.can

    def __init__(self, connection: Connection) -> None:
        llama()
        self._settings = _settings(connection.args)
        path, sha256 = _weights(connection.name)
        self.endpoint = f"local:{sha256[:16]}"
        self._timeout = connection.timeout
        self._slots = asyncio.Semaphore(self._settings.n_parallel)
        self._pool = DaemonPool(self._settings.n_parallel, "assay-local")
        self._loading = asyncio.Lock()
        self._engine = engine(path, sha256, self._settings)

    async def send(self, request: Request, seed: int) -> Response:
        """One generation, or one likelihood."""
        await self._load()
        if request.continuation is not None:
            return await self._likelihood(request.prompt, request.continuation)
        return await self._run(partial(_generate, self._engine, request, seed))

    async def _likelihood(self, prompt: str | None, continuation: str) -> Response:
        rolling = prompt is None
        prompt, continuation = spans.moved(prompt or "", continuation)
        if not continuation:
            return spans.answer([(spans.CERTAIN, None)], rolling=rolling)
        found = await self._run(partial(self._tokenise, prompt, continuation, rolling=rolling))
        parts = [await self._run(partial(self._measure, one)) for one in found]
        return spans.answer(parts, rolling=rolling)

    def _tokenise(self, prompt: str, continuation: str, halt: Halt, *, rolling: bool) -> list[Asked]:
        with at_work(halt):
            return list(asked(self._engine, prompt, continuation, self._settings.n_ctx, rolling=rolling))

    def _measure(self, one: Asked, halt: Halt) -> spans.Part:
        """One slot may reuse prompts, since every cut gives the same bits; several would mix them."""
        return Forced(self._engine, halt, reuse=self._settings.n_parallel == 1).measure(one)

    async def _run(self, work: Callable[[Halt], T]) -> T:
        """In a slot of its own. The timeout counts from the moment the slot is free."""
        halt = Halt()
        await self._slots.acquire()
        job = asyncio.ensure_future(self._pool.run(partial(work, halt)))
        job.add_done_callback(self._done)
        try:
            async with asyncio.timeout(self._timeout):
                return await asyncio.shield(job)
        except TimeoutError:
            raise ModelError(Failure("timeout", f"the model took longer than {self._timeout:g} s")) from None
        finally:
            halt.asked = True

    def _done(self, job: asyncio.Future[T]) -> None:
        """Whoever waited may be gone: then nobody misses how it ended."""
        self._slots.release()
        if not job.cancelled():
            job.exception()

    async def _load(self) -> None:
        async with self._loading:
            if self._engine.server is None:
                await self._pool.run(self._engine.load)

    async def close(self) -> None:
        """The weights stay, for whoever asks next; what still runs was told to stop."""


def connect(connection: Connection) -> LocalModel:
    """Called by the registry."""
    return LocalModel(connection)


def _settings(args: dict[str, Any]) -> Settings:
    strange = sorted(args.keys() - set(Settings._fields) - _FOR_ALL)
    if strange:
        raise UsageError(
            f"the provider 'local' takes {', '.join(Settings._fields)}; not {', '.join(strange)}"
        )
    slots = _count(args, "n_parallel", 1)
    return Settings(slots, _count(args, "n_ctx", _CONTEXT // slots), _count(args, "n_threads", 0))


def _count(args: dict[str, Any], name: str, default: int) -> int:
    if name not in args:
        return default
    value = str(args[name])
    if not value.isdecimal() or int(value) < 1:
        raise UsageError(f"{name} is a whole number above 0, not {value!r}")
    return int(value)


def _weights(name: str) -> tuple[Path, str]:
    """The file and its sha256, which is part of every request's identity."""
    if name in KNOWN:
        found = locate(name)
        if found is None:
            raise UsageError(f"no sound copy of {name} at {KNOWN[name].path}; run: assay models pull {name}")
        return found, KNOWN[name].sha256
    path = Path(name).expanduser()
    if not path.is_file():
        raise UsageError(f"there is no file {name!r}, nor a model of that name: local/NAME takes {_choice()}")
    with path.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise UsageError(f"{name} is not a GGUF file: local/NAME takes {_choice()}")
    return path, file_sha256(path)


def _choice() -> str:
    return f"{', '.join(sorted(KNOWN))} or the path of a GGUF file"


def _generate(used: Engine, request: Request, seed: int, halt: Halt) -> Response:
    """Runs in a thread and blocks."""
    reply = Reply(halt)
    with at_work(halt):
        if not halt.asked:
            reply.fill(_method(used, request), _body(request, seed))
    return reply.response()


def _method(used: Engine, request: Request) -> Any:
    server = used.server
    return server.handle_completions if request.messages is None else server.handle_chat_completions


def _body(request: Request, seed: int) -> dict[str, Any]:
    """The largest seed of 32 bits means a random one to llama.cpp, so it is never sent."""
    asked_for = {"prompt": request.prompt} if request.messages is None else {"messages": request.messages}
    chosen = int(request.params.get("seed", seed)) % 0xFFFFFFFF
    return {**request.params, **asked_for, "seed": chosen, "cache_prompt": False}
