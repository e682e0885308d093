"""Provider `local/NAME`: a model inside this process, computed by llama.cpp.

`local/smollm2` is the model that `assay models pull smollm2` fetches. `local/NAME` is a model that
`assay models pull FILE|URL --name NAME` fetched. `local/PATH.gguf` is any file that llama.cpp can read.

There is one slot unless --model-args sets `n_parallel`. llama.cpp computes the tokens of all busy slots in
one batch, and the rounding depends on the batch. With four slots about one greedy answer in twenty changed
from run to run; with one slot none did. On two cores one slot is nearly as fast.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from assay.core.errors import ModelError, UsageError, unknown
from assay.core.events import Computing, notice, notify
from assay.core.roles import CHAT, LIKELIHOOD, SCHEMA, TEXT, About, Connection
from assay.core.threads import DaemonPool
from assay.core.types import Failure, Request, Response
from assay.models.likelihood import spans
from assay.models.likelihood.llama import LlamaLikelihood, SpanTokens, tokenize_request
from assay.models.llama.server import (
    BUILT_IN_TEMPLATES,
    Generation,
    LlamaSettings,
    StopFlag,
    import_llama,
    native_code,
    shared_server,
)
from assay.models.weights.gguf import GgufHeader, read_header
from assay.models.weights.pulled import find_gguf
from assay.usercode.model_args import Count, CountOrZero, read_args

# Tokens of context over all slots, unless the model was trained for fewer. SmolLM2's 8192 take 190 MB of memory. Models
# trained for 131,072 would take gigabytes, so a larger context is the user's choice.
DEFAULT_CONTEXT = 8192
# New tokens of a reply if the request sets no limit. A small model often repeats itself until its context is full,
# which takes minutes. 1024 tokens are about two pages, and half a minute of SmolLM2 on one core.
DEFAULT_MAX_TOKENS = 1024


class LocalArgs(Struct, frozen=True, forbid_unknown_fields=True):
    """--model-args of `local/NAME`: llama.cpp's names, and the limit of a reply."""

    n_parallel: Count = 1
    n_ctx: Count | None = None
    """Tokens of context of each slot. None means DEFAULT_CONTEXT over all slots, or what the model was trained for."""
    n_threads: Count | None = None
    n_gpu_layers: CountOrZero | None = None
    chat_template: str | None = None
    """A name that llama.cpp knows, or the path of a Jinja file. None means the model's own."""
    max_tokens: Count = DEFAULT_MAX_TOKENS


ABOUT = About(
    summary="a model inside this process (llama.cpp): smollm2, or any GGUF file; at most 1024 new tokens by default",
    needs="pip install 'assay[local]'; for smollm2 also, once: assay models pull smollm2",
    can=frozenset({CHAT, TEXT, LIKELIHOOD, SCHEMA}),
    example="local/smollm2",
    args=frozenset(LocalArgs.__struct_fields__),
    calls_endpoint=False,
    computes=True,
)
# Names under which a request may limit its new tokens.
_LIMITS = ("max_tokens", "max_completion_tokens", "n_predict")
# Seconds between two reports of the tokens that were written.
REPORT_SECONDS = 0.25
# Larger files take long enough to load that the progress names them.
_LARGE_BYTES = 1e9
T = TypeVar("T")


class LocalModel:
    """A model from one GGUF file. The first request loads the file."""

    can = ABOUT.can

    def __init__(self, connection: Connection) -> None:
        import_llama()
        path, sha256 = find_gguf("local", connection.name)
        header = read_header(path)
        args = read_args(connection.args, LocalArgs)
        self._settings = _settings(args, header)
        self._max_tokens = args.max_tokens
        # Without a template llama.cpp uses that of ChatML, which a base model was not trained for. Its replies would be
        # scored as if the model were bad.
        self._can_chat = bool(header.chat_template or self._settings.chat_template)
        self._path = path
        # Everything that changes replies and is not an option of the run belongs to the identity.
        self.endpoint = f"local:{sha256[:16]}:max_tokens={self._max_tokens}"
        if self._settings.chat_template:
            digest = hashlib.sha256(self._settings.chat_template.encode()).hexdigest()
            self.endpoint += f":chat_template={digest[:16]}"
        self._timeout = connection.timeout
        self._slots = asyncio.Semaphore(self._settings.n_parallel)
        self._pool = DaemonPool(self._settings.n_parallel, "assay-local")
        self._load_lock = asyncio.Lock()
        self._server = shared_server(path, sha256, self._settings)

    async def send(self, request: Request, seed: int) -> Response:
        """Generate one reply, or measure one likelihood."""
        if request.messages is not None and not self._can_chat:
            # The kind "unsupported" halts the run, since every later call would fail in the same way.
            raise ModelError(Failure("unsupported", _NO_TEMPLATE.format(path=self._path)))
        began = time.perf_counter()
        await self.load()
        busy = BusyTime()
        response = await self._answer(request, seed, busy)
        return replace(response, waited=max(0.0, time.perf_counter() - began - busy.seconds))

    async def _answer(self, request: Request, seed: int, busy: BusyTime) -> Response:
        if request.continuation is None:
            return await self._run(partial(self._generate, request, seed), busy)

        rolling = request.prompt is None
        prompt, continuation = spans.move_trailing_space(request.prompt or "", request.continuation)
        if not continuation:
            return spans.build_response([spans.EMPTY_TEXT], rolling=rolling)
        windows = await self._run(partial(self._tokenize, prompt, continuation, rolling=rolling), busy)
        parts = [await self._run(partial(self._measure, window), busy) for window in windows]
        return spans.build_response(parts, rolling=rolling)

    async def load(self) -> None:
        """Load the weights, unless they are loaded."""
        async with self._load_lock:
            if self._server.native is None:
                size = self._path.stat().st_size
                if size > _LARGE_BYTES:
                    notice(f"loading {self._path} ({size / 1e9:.1f} GB)")
                await self._pool.run(self._server.load)

    async def close(self) -> None:
        """Do nothing. The weights stay loaded for the next run, and `_run` has stopped all work."""

    def _generate(self, request: Request, seed: int, stop: StopFlag) -> Response:
        """Generate one reply. Blocks; runs in a thread."""
        generation = Generation(stop)
        # llama.cpp chooses a random seed if the seed is 0xFFFFFFFF, so that number is never sent.
        seed = int(request.params.get("seed", seed)) % 0xFFFFFFFF
        body = {**request.params}
        if all(body.get(limit) is None for limit in _LIMITS):
            body["max_tokens"] = self._max_tokens
        if request.messages is None:
            handle: Any = self._server.complete
            body["prompt"] = request.prompt
        else:
            handle = self._server.native.handle_chat_completions
            body["messages"] = request.messages
        body["seed"] = seed
        # llama.cpp documents that a reused prompt may change the rounding, and with it the reply.
        body["cache_prompt"] = False
        with _open_generations.contain(generation), native_code(stop):
            if not stop.is_set:
                generation.run(handle, body)
        return generation.response()

    def _tokenize(self, prompt: str, continuation: str, stop: StopFlag, *, rolling: bool) -> list[SpanTokens]:
        with native_code(stop):
            max_tokens = self._settings.n_ctx
            return list(tokenize_request(self._server, prompt, continuation, max_tokens, rolling=rolling))

    def _measure(self, tokens: SpanTokens, stop: StopFlag) -> spans.MeasuredSpan:
        # With one slot, a reused prompt gives the same bits as one that is computed again (MICRO_BATCH_TOKENS
        # has the reason). With several slots, prompts are computed in one batch and round differently.
        reuse_prompt = self._settings.n_parallel == 1
        return LlamaLikelihood(self._server, stop, reuse_prompt=reuse_prompt).measure(tokens)

    async def _run(self, work: Callable[[StopFlag], T], busy: BusyTime) -> T:
        """Run blocking work in a thread when a slot is free. The timeout starts with the work."""
        stop = StopFlag()
        await self._slots.acquire()
        job = asyncio.ensure_future(self._pool.run(partial(busy.measure, partial(work, stop))))
        job.add_done_callback(self._release_slot)
        try:
            async with asyncio.timeout(self._timeout):
                # `wait` keeps the job alive when the caller is cancelled: its thread cannot be interrupted and needs
                # its slot until it ends.
                while not (await asyncio.wait([job], timeout=REPORT_SECONDS))[0]:
                    _open_generations.report()
                return job.result()
        except TimeoutError:
            raise ModelError(Failure("timeout", f"the model took longer than {self._timeout:g} s")) from None
        finally:
            stop.is_set = True
            _open_generations.report_end()

    def _release_slot(self, job: asyncio.Future[T]) -> None:
        self._slots.release()
        # Reads the error of a job whose caller has timed out. asyncio would log it otherwise.
        if not job.cancelled():
            job.exception()


def connect(connection: Connection) -> LocalModel:
    """Return the model `local/NAME`. Hashes the weights but does not load them."""
    return LocalModel(connection)


class BusyTime:
    """The seconds in which a slot of the model worked for one request."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def measure(self, work: Callable[[], T]) -> T:
        """Call a function, and count its time. Called in a thread, for one function at a time."""
        began = time.perf_counter()
        try:
            return work()
        finally:
            self.seconds += time.perf_counter() - began


class _OpenGenerations:
    """The generations that run in this process now, for the progress of the run. Several models may compute at once."""

    def __init__(self) -> None:
        self._open: set[Generation] = set()
        self._reported_at: float | None = None  # None if the last report said that nothing is computed

    @contextmanager
    def contain(self, generation: Generation) -> Iterator[None]:
        """Count a generation while the block runs. Called in the thread that computes it."""
        self._open.add(generation)
        try:
            yield
        finally:
            self._open.discard(generation)

    def report(self) -> None:
        """Tell the run's observers how far the generations are. Called in the event loop by everyone who waits."""
        observer = notify.get()
        now = time.monotonic()
        # Half the interval, because each of several waiting calls wakes up a little earlier or later than the others.
        is_early = self._reported_at is not None and now - self._reported_at < REPORT_SECONDS / 2
        generations = list(self._open)
        if observer is None or is_early or not generations:
            return
        self._reported_at = now
        read, prompt, written = (
            sum(values)
            for values in zip(*((each.read, each.prompt, each.written) for each in generations), strict=True)
        )
        observer(Computing(read, prompt, written, sum(each.per_second() for each in generations)))

    def report_end(self) -> None:
        """Tell the observers that nothing is computed any more, if so."""
        observer = notify.get()
        if observer is not None and self._reported_at is not None and not self._open:
            self._reported_at = None
            observer(Computing(0, 0, 0, 0.0))


_open_generations = _OpenGenerations()


_NO_TEMPLATE = (
    "{path} has no chat template: it is a base model, which continues texts and does not answer messages. Use a model "
    "that was trained for chat, or name a template: --model-args chat_template=chatml, or chat_template=FILE.jinja"
)


def _settings(args: LocalArgs, header: GgufHeader) -> LlamaSettings:
    trained = header.context_length
    context = args.n_ctx or min(DEFAULT_CONTEXT // args.n_parallel, trained or DEFAULT_CONTEXT)
    if trained and context > trained:
        raise UsageError(f"n_ctx={context}: the model was trained for a context of {trained} tokens, and has no more")
    return LlamaSettings(
        args.n_parallel,
        context,
        args.n_threads or 0,
        # 0 layers on the GPU is a choice, too.
        -1 if args.n_gpu_layers is None else args.n_gpu_layers,
        _read_template(args.chat_template or ""),
    )


def _read_template(value: str) -> str:
    """Return a built-in template's name, or the text of a file."""
    if not value or value in BUILT_IN_TEMPLATES:
        return value
    try:
        return Path(value).expanduser().read_text(encoding="utf-8")
    except FileNotFoundError:
        choice = unknown("chat template", value, sorted(BUILT_IN_TEMPLATES))
        raise UsageError(f"{choice}. chat_template is one of llama.cpp's names or the path of a Jinja file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the chat template {value} cannot be read: {error}") from None
