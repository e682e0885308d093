"""Provider `local/NAME`: a model inside this process, computed by llama.cpp.

`local/smollm2` is the model that `assay models pull smollm2` fetches. `local/PATH.gguf` is any file that
llama.cpp can read.

There is one slot unless --model-args sets `n_parallel`. llama.cpp computes the tokens of all busy slots in
one batch, and the rounding depends on the batch. With four slots about one greedy answer in twenty changed
from run to run; with one slot none did. On two cores one slot is nearly as fast.
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
from assay.models.llama.likelihood import LlamaLikelihood, SpanTokens, tokenize_request
from assay.models.llama.server import (
    Generation,
    LlamaServer,
    LlamaSettings,
    StopFlag,
    import_llama,
    native_code,
    shared_server,
)
from assay.models.llama.weights import KNOWN, find_weights

ABOUT = About(
    summary="a model inside this process (llama.cpp): smollm2, or any GGUF file",
    needs="pip install 'assay[local]'; for smollm2 also, once: assay models pull smollm2",
    can=frozenset({CHAT, TEXT, LIKELIHOOD, SCHEMA}),
    example="local/smollm2",
    args=frozenset(LlamaSettings._fields),
)
# Tokens of context over all slots. SmolLM2 was trained for 8192, which take 190 MB of cache.
DEFAULT_CONTEXT = 8192
T = TypeVar("T")


class LocalModel:
    """A model from one GGUF file. The first request loads the file."""

    can = ABOUT.can

    def __init__(self, connection: Connection) -> None:
        import_llama()
        self._settings = _read_settings(connection.args)
        path, sha256 = _find_file(connection.name)
        self.endpoint = f"local:{sha256[:16]}"
        self._timeout = connection.timeout
        self._slots = asyncio.Semaphore(self._settings.n_parallel)
        self._pool = DaemonPool(self._settings.n_parallel, "assay-local")
        self._load_lock = asyncio.Lock()
        self._server = shared_server(path, sha256, self._settings)

    async def send(self, request: Request, seed: int) -> Response:
        """Generate one reply, or measure one likelihood."""
        await self.load()
        if request.continuation is None:
            return await self._run(partial(_generate, self._server, request, seed))

        rolling = request.prompt is None
        prompt, continuation = spans.move_trailing_space(request.prompt or "", request.continuation)
        if not continuation:
            return spans.build_response([spans.EMPTY_TEXT], rolling=rolling)
        windows = await self._run(partial(self._tokenize, prompt, continuation, rolling=rolling))
        parts = [await self._run(partial(self._measure, window)) for window in windows]
        return spans.build_response(parts, rolling=rolling)

    async def load(self) -> None:
        """Load the weights, unless they are loaded."""
        async with self._load_lock:
            if self._server.native is None:
                await self._pool.run(self._server.load)

    async def close(self) -> None:
        """Do nothing. The weights stay loaded for the next run, and `_run` has stopped all work."""

    def _tokenize(self, prompt: str, continuation: str, stop: StopFlag, *, rolling: bool) -> list[SpanTokens]:
        with native_code(stop):
            max_tokens = self._settings.n_ctx
            return list(tokenize_request(self._server, prompt, continuation, max_tokens, rolling=rolling))

    def _measure(self, tokens: SpanTokens, stop: StopFlag) -> spans.MeasuredSpan:
        # With one slot, a reused prompt gives the same bits as one that is computed again (MICRO_BATCH_TOKENS
        # has the reason). With several slots, prompts are computed in one batch and round differently.
        reuse_prompt = self._settings.n_parallel == 1
        return LlamaLikelihood(self._server, stop, reuse_prompt=reuse_prompt).measure(tokens)

    async def _run(self, work: Callable[[StopFlag], T]) -> T:
        """Run blocking work in a thread when a slot is free. The timeout starts with the work."""
        stop = StopFlag()
        await self._slots.acquire()
        job = asyncio.ensure_future(self._pool.run(partial(work, stop)))
        job.add_done_callback(self._release_slot)
        try:
            async with asyncio.timeout(self._timeout):
                # The shield keeps the job alive when the caller is cancelled: its thread cannot be interrupted and
                # needs its slot until it ends.
                return await asyncio.shield(job)
        except TimeoutError:
            raise ModelError(Failure("timeout", f"the model took longer than {self._timeout:g} s")) from None
        finally:
            stop.is_set = True

    def _release_slot(self, job: asyncio.Future[T]) -> None:
        self._slots.release()
        # Reads the error of a job whose caller has timed out. asyncio would log it otherwise.
        if not job.cancelled():
            job.exception()


def connect(connection: Connection) -> LocalModel:
    """Return the model `local/NAME`. Hashes the weights but does not load them."""
    return LocalModel(connection)


def _generate(server: LlamaServer, request: Request, seed: int, stop: StopFlag) -> Response:
    """Generate one reply. Blocks; runs in a thread."""
    generation = Generation(stop)
    # llama.cpp chooses a random seed if the seed is 0xFFFFFFFF, so that number is never sent.
    seed = int(request.params.get("seed", seed)) % 0xFFFFFFFF
    body = {**request.params}
    if request.messages is None:
        handle = server.native.handle_completions
        body["prompt"] = request.prompt
    else:
        handle = server.native.handle_chat_completions
        body["messages"] = request.messages
    body["seed"] = seed
    # llama.cpp documents that a reused prompt may change the rounding, and with it the reply.
    body["cache_prompt"] = False
    with native_code(stop):
        if not stop.is_set:
            generation.run(handle, body)
    return generation.response()


def _read_settings(args: dict[str, Any]) -> LlamaSettings:
    slots = _read_count(args, "n_parallel", 1)
    return LlamaSettings(
        slots, _read_count(args, "n_ctx", DEFAULT_CONTEXT // slots), _read_count(args, "n_threads", 0)
    )


def _read_count(args: dict[str, Any], name: str, default: int) -> int:
    if name not in args:
        return default
    text = str(args[name])
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(f"{name} is a whole number above 0, not {text!r}")
    return int(text)


def _find_file(name: str) -> tuple[Path, str]:
    """Return the weights' file and its sha256, which is part of every request's identity."""
    if name in KNOWN:
        cached = find_weights(name)
        if cached is None:
            raise UsageError(
                f"the weights of {name} are missing or damaged ({KNOWN[name].path}). Run: assay models pull {name}"
            )
        return cached, KNOWN[name].sha256
    choice = f"{', '.join(sorted(KNOWN))} or the path of a GGUF file"
    path = Path(name).expanduser()
    if not path.is_file():
        raise UsageError(f"local/{name}: there is no such file or model. local/NAME takes {choice}")
    with path.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise UsageError(f"{name} is not a GGUF file. local/NAME takes {choice}")
    return path, file_sha256(path)
