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
    needs="pip install 'assay[local]'; for smollm2 once: assay models pull smollm2",
    can=frozenset({CHAT, TEXT, LIKELIHOOD, SCHEMA}),
    example="local/smollm2",
)
# Tokens of context over all slots. SmolLM2 was trained for 8192, which take 190 MB of cache.
DEFAULT_CONTEXT = 8192
# Arguments that the harness passes in --model-args and that are options of every provider here.
_GENERAL_ARGUMENTS = frozenset({"base_url", "num_concurrent", "max_retries", "timeout"})
T = TypeVar("T")


class LocalModel:
    """One file of weights. The first request loads it."""

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
        """Do nothing: the weights stay loaded for the next model, and running work was told to stop."""

    def _tokenize(self, prompt: str, continuation: str, stop: StopFlag, *, rolling: bool) -> list[SpanTokens]:
        with native_code(stop):
            max_tokens = self._settings.n_ctx
            return list(tokenize_request(self._server, prompt, continuation, max_tokens, rolling=rolling))

    def _measure(self, tokens: SpanTokens, stop: StopFlag) -> spans.MeasuredSpan:
        # With one slot a reused prompt gives the same bits. Several slots would mix prompts.
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
                # Cancellation must not cancel the job: its thread goes on and needs its slot until it ends.
                return await asyncio.shield(job)
        except TimeoutError:
            raise ModelError(Failure("timeout", f"the model took longer than {self._timeout:g} s")) from None
        finally:
            stop.is_set = True

    def _release_slot(self, job: asyncio.Future[T]) -> None:
        self._slots.release()
        # Keeps asyncio from logging the error of a job whose caller has timed out.
        if not job.cancelled():
            job.exception()


def connect(connection: Connection) -> LocalModel:
    """Called by the registry."""
    return LocalModel(connection)


def _generate(server: LlamaServer, request: Request, seed: int, stop: StopFlag) -> Response:
    """Generate one reply. Blocks; runs in a thread."""
    generation = Generation(stop)
    # llama.cpp takes the largest number of 32 bits for "a random seed", so it is never sent.
    seed = int(request.params.get("seed", seed)) % 0xFFFFFFFF
    body = {**request.params}
    if request.messages is None:
        handle = server.native.handle_completions
        body["prompt"] = request.prompt
    else:
        handle = server.native.handle_chat_completions
        body["messages"] = request.messages
    body["seed"] = seed
    body["cache_prompt"] = False
    with native_code(stop):
        if not stop.is_set:
            generation.run(handle, body)
    return generation.response()


def _read_settings(args: dict[str, Any]) -> LlamaSettings:
    unknown = sorted(args.keys() - set(LlamaSettings._fields) - _GENERAL_ARGUMENTS)
    if unknown:
        raise UsageError(
            f"the provider 'local' takes {', '.join(LlamaSettings._fields)}; not {', '.join(unknown)}"
        )
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
            raise UsageError(f"no sound copy of {name} at {KNOWN[name].path}; run: assay models pull {name}")
        return cached, KNOWN[name].sha256
    choice = f"{', '.join(sorted(KNOWN))} or the path of a GGUF file"
    path = Path(name).expanduser()
    if not path.is_file():
        raise UsageError(f"there is no file {name!r}, nor a model of that name: local/NAME takes {choice}")
    with path.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise UsageError(f"{name} is not a GGUF file: local/NAME takes {choice}")
    return path, file_sha256(path)
