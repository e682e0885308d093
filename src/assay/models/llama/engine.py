"""llama.cpp's server inside this process: how it is started, and how it is ended before the interpreter."""

from __future__ import annotations

import atexit
import os
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from assay.core.errors import MissingExtra, ModelError, UsageError
from assay.core.types import Failure

_BATCH = 256
"""Prompt tokens between two chances to stop: a second or two of SmolLM2."""
_ROWS = 63
"""Tokens computed at once. From 64 on llama.cpp computes attention in another way, which rounds otherwise:
log-probabilities of SmolLM2 then differ by up to 0.2, depending on how a text is cut into prompt and reply.
Below, every cut gives the same bits, for a fifth more work on prompts."""
_PATIENCE = 60.0
"""Seconds the end of the process waits at most for work that was told to stop."""


class Settings(NamedTuple):
    """How the model runs. `n_ctx` is for each slot; `n_threads` is 0 where the user left it to us."""

    n_parallel: int
    n_ctx: int
    n_threads: int


class Engine:
    """One server for all that use the same weights in the same way, kept until the process ends.

    llama.cpp has no safe way to end it: told to too early it never ends, and whoever waits for it neither.
    It listens on loopback, wanted or not, so it gets a key nobody else knows.
    """

    def __init__(self, path: Path, settings: Settings) -> None:
        self.server: Any = None
        self.key = secrets.token_hex(16)
        self._path = path
        self._settings = settings
        self._loading = threading.Lock()

    def load(self) -> None:
        """Blocks for a second or more, the first time."""
        with self._loading, at_work():
            if self.server is None:
                self.server = _server(_params(self._path, self._settings, self.key), self._path)


_engines: dict[tuple[str, Settings], Engine] = {}


def engine(path: Path, sha256: str, settings: Settings) -> Engine:
    """The engine of these weights, known by content. It is loaded by the first who needs it."""
    return _engines.setdefault((sha256, settings), Engine(path, settings))


def llama() -> Any:
    """The runner. Its threads must not spin while they wait: on shared cores that is many times slower."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        import xllamacpp
    except ModuleNotFoundError:
        raise MissingExtra("the provider 'local'", "local") from None
    except ImportError as error:
        raise UsageError(f"the package xllamacpp is installed but cannot be loaded: {error}") from error
    return xllamacpp


def _params(path: Path, settings: Settings, key: str) -> Any:
    params = llama().CommonParams()
    params.model.path = str(path)
    params.verbosity = -1
    params.n_parallel = settings.n_parallel
    params.n_ctx = settings.n_ctx * settings.n_parallel
    params.cpuparams.n_threads = settings.n_threads or 1
    params.cpuparams_batch.n_threads = settings.n_threads or min(2, os.cpu_count() or 1)
    params.n_batch = _BATCH
    params.n_ubatch = _ROWS
    params.cache_ram_mib = 0
    params.api_keys = [key]
    params.n_threads_http = 1
    params.ui = False
    params.offline = True
    return params


def _server(params: Any, path: Path) -> Any:
    try:
        return llama().Server(params)
    except RuntimeError as error:
        # "not_found" halts the run, as every later call would fail alike
        raise ModelError(
            Failure("not_found", f"llama.cpp cannot load {path}: it is damaged, or memory is short ({error})")
        ) from None


class Halt:
    """The word to stop, for work that nobody waits for any more."""

    def __init__(self) -> None:
        self.asked = False


_working: dict[threading.Event, Halt | None] = {}


@contextmanager
def at_work(halt: Halt | None = None) -> Iterator[None]:
    """This thread is in C++ code, and has let go of all that belongs to it when the event is set."""
    done = threading.Event()
    _working[done] = halt
    try:
        yield
    finally:
        done.set()
        _working.pop(done)


@atexit.register
def _drain() -> None:
    """Let llama.cpp come to rest before the process ends: what it still computes would take it down."""
    working = dict(_working)
    for halt in filter(None, working.values()):
        halt.asked = True
    deadline = time.monotonic() + _PATIENCE
    for done in working:
        done.wait(max(0.0, deadline - time.monotonic()))
    for one in _engines.values():
        _rest(one.server, deadline)


def _rest(server: Any, deadline: float) -> None:
    """A word asked now is answered when everything before it is over, and the slot is free again."""
    if server is None or time.monotonic() > deadline:
        return
    with suppress(Exception):  # whatever it says, it has said it
        server.handle_completions({"prompt": "a", "max_tokens": 1, "cache_prompt": False})
