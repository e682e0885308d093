"""A model inside this process: `local/smollm2`, or `local/PATH.gguf` for any file llama.cpp can read.

There is one slot unless `n_parallel` asks for more. llama.cpp computes a token together with whatever the
other slots are doing, and rounds differently for every such mixture: with four slots about one greedy answer
in twenty changed from run to run, with one slot none ever did, and on two cores it is nearly as fast.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import secrets
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from assay.core.connect import CHAT, TEXT, About, Connection
from assay.core.errors import MissingExtra, ModelError, UsageError
from assay.core.hashing import file_sha256
from assay.core.threads import DaemonPool
from assay.core.types import Failure, Request, Response, Usage
from assay.models.weights.pull import KNOWN, locate

ABOUT = About(
    summary="a model inside this process (llama.cpp): smollm2, or any GGUF file",
    needs="pip install 'assay[local]'; for smollm2 once: assay models pull smollm2",
    can=frozenset({CHAT, TEXT}),
    example="local/smollm2",
)
_CONTEXT = 8192
"""Tokens of context over all slots: as long as SmolLM2 was trained for, 190 MB of its cache."""
_BATCH = 256
"""Prompt tokens between two chances to stop: a second or two of SmolLM2."""
_FOR_ALL = frozenset({"base_url", "num_concurrent", "max_retries", "timeout"})
"""Arguments that the harness passes this way and that are options of every provider here."""
_PATIENCE = 60.0
"""Seconds the end of the process waits at most for generations that were told to stop."""


class Settings(NamedTuple):
    """How the model runs. `n_ctx` is for each slot; `n_threads` is 0 where the user left it to us."""

    n_parallel: int
    n_ctx: int
    n_threads: int


class LocalModel:
    """One file of weights. It is loaded by the first request."""

    can = ABOUT.can

    def __init__(self, connection: Connection) -> None:
        _llama()
        self._settings = _settings(connection.args)
        self._path, sha256 = _weights(connection.name)
        self.endpoint = f"local:{sha256[:16]}"
        self._timeout = connection.timeout
        self._slots = asyncio.Semaphore(self._settings.n_parallel)
        self._pool = DaemonPool(self._settings.n_parallel, "assay-local")
        self._loading = asyncio.Lock()
        self._engine = _Engine()

    async def send(self, request: Request, seed: int) -> Response:
        """One generation. The timeout counts from the moment a slot is free."""
        await self._load()
        reply = _Reply()
        await self._slots.acquire()
        job = asyncio.ensure_future(self._pool.run(partial(_generate, self._engine, request, seed, reply)))
        job.add_done_callback(lambda _: self._slots.release())
        try:
            async with asyncio.timeout(self._timeout):
                await asyncio.shield(job)
        except TimeoutError:
            raise ModelError(Failure("timeout", f"the model took longer than {self._timeout:g} s")) from None
        finally:
            reply.stop = True
        return reply.response()

    async def _load(self) -> None:
        async with self._loading:
            if self._engine.server is None:
                await self._pool.run(partial(_load, self._engine, self._path, self._settings))

    async def close(self) -> None:
        """Let the model go; a generation that still runs keeps it until it has stopped."""
        self._engine.server = None


def connect(connection: Connection) -> LocalModel:
    """Called by the registry."""
    return LocalModel(connection)


def _llama() -> Any:
    """The runner. Its threads must not spin while they wait: on shared cores that is many times slower."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        import xllamacpp
    except ModuleNotFoundError:
        raise MissingExtra("the provider 'local'", "local") from None
    except ImportError as error:
        raise UsageError(f"the package xllamacpp is installed but cannot be loaded: {error}") from error
    return xllamacpp


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


class _Engine:
    """Holds the one lasting reference to llama.cpp's server, so that we decide when and where it ends."""

    def __init__(self) -> None:
        self.server: Any = None
        _engines.add(self)


_engines: weakref.WeakSet[_Engine] = weakref.WeakSet()


def _load(engine: _Engine, path: Path, settings: Settings) -> None:
    with _at_work():
        engine.server = _server(_params(path, settings), path)


def _params(path: Path, settings: Settings) -> Any:
    """It listens on loopback, wanted or not, so it gets a key nobody knows."""
    params = _llama().CommonParams()
    params.model.path = str(path)
    params.verbosity = -1
    params.n_parallel = settings.n_parallel
    params.n_ctx = settings.n_ctx * settings.n_parallel
    params.cpuparams.n_threads = settings.n_threads or 1
    params.cpuparams_batch.n_threads = settings.n_threads or min(2, os.cpu_count() or 1)
    params.n_batch = _BATCH
    params.cache_ram_mib = 0
    params.api_keys = [secrets.token_hex(16)]
    params.n_threads_http = 1
    params.ui = False
    params.offline = True
    return params


def _server(params: Any, path: Path) -> Any:
    try:
        return _llama().Server(params)
    except RuntimeError as error:
        # "not_found" halts the run, as every later call would fail alike
        raise ModelError(
            Failure("not_found", f"llama.cpp cannot load {path}: it is damaged, or memory is short ({error})")
        ) from None


class _Reply:
    """What one generation has said so far. llama.cpp calls `take` as it goes; True ends the generation."""

    def __init__(self) -> None:
        self.stop = False
        self.error: dict[str, Any] | None = None
        self._parts: list[str] = []
        self._finish: str | None = None
        self._usage: Usage | None = None

    def take(self, chunk: dict[str, Any]) -> bool:
        if "error" in chunk:
            self.error = chunk["error"]
            return True
        for choice in chunk.get("choices") or ():
            self._parts.append(choice.get("text") or choice.get("delta", {}).get("content") or "")
            self._finish = choice.get("finish_reason") or self._finish
        if usage := chunk.get("usage"):
            self._usage = Usage(usage.get("prompt_tokens") or 0, usage.get("completion_tokens") or 0)
        return self.stop

    def response(self) -> Response:
        if self.error is not None:
            raise _failed(self.error)
        if self._finish is None:
            raise ModelError(Failure("server_error", "llama.cpp broke off without a reason"), retry=True)
        return Response("".join(self._parts), self._finish, self._usage)


def _failed(error: dict[str, Any]) -> ModelError:
    message = f"llama.cpp says: {error.get('message')}"
    if error.get("type") == "exceed_context_size_error":
        return ModelError(Failure("context_overflow", message))
    if int(error.get("code") or 0) >= 500:
        return ModelError(Failure("server_error", message), retry=True)
    return ModelError(Failure("rejected", message))


def _generate(engine: _Engine, request: Request, seed: int, reply: _Reply) -> None:
    """Runs in a thread and blocks. It streams only so that a reply nobody waits for can be ended."""
    with _at_work(reply):
        if not reply.stop:
            _ask(engine.server, request, seed, reply)


def _ask(server: Any, request: Request, seed: int, reply: _Reply) -> None:
    ask = server.handle_completions if request.messages is None else server.handle_chat_completions
    try:
        ask(_body(request, seed), reply.take)
    except Exception as error:  # noqa: BLE001 - requests it cannot read are raised as whatever C++ threw
        reply.error = {"code": 400, "message": f"{type(error).__name__}: {error}"}


def _body(request: Request, seed: int) -> dict[str, Any]:
    """The largest seed of 32 bits means a random one to llama.cpp, so it is never sent."""
    asked = {"prompt": request.prompt} if request.messages is None else {"messages": request.messages}
    stream = {"stream": True, "stream_options": {"include_usage": True}, "return_progress": True}
    return {**request.params, **asked, "seed": seed % 0xFFFFFFFF, "cache_prompt": False, **stream}


_working: dict[threading.Event, _Reply | None] = {}


@contextmanager
def _at_work(reply: _Reply | None = None) -> Iterator[None]:
    """This thread is in C++ code, and has let go of all that belongs to it when the event is set."""
    done = threading.Event()
    _working[done] = reply
    try:
        yield
    finally:
        done.set()
        _working.pop(done)


@atexit.register
def _drain() -> None:
    """End llama.cpp before the interpreter: a thread of its that comes back later takes the process down."""
    working = dict(_working)
    for reply in filter(None, working.values()):
        reply.stop = True
    deadline = time.monotonic() + _PATIENCE
    for done in working:
        done.wait(max(0.0, deadline - time.monotonic()))
    for engine in _engines:
        engine.server = None
