"""llama.cpp's server inside this process: load weights, generate, and stop all work before the process exits.

    server = shared_server(path, sha256, LlamaSettings(n_parallel=1, n_ctx=8192))
    server.load()
    generation = Generation(stop_flag)
    generation.run(server.native.handle_completions, body)
    generation.response()

All functions here block, so the provider (`local.py`) calls them in threads.
"""

from __future__ import annotations

import atexit
import os
import secrets
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from assay.core.errors import MissingExtra, ModelError, UsageError
from assay.core.types import Failure, Response, Usage
from assay.models.weights.gguf import part_files
from assay.usercode.child_process import python_code_command

# Prompt tokens between two checks of the stop flag. SmolLM2 takes a second or two for them on two cores.
PROMPT_BATCH_TOKENS = 256
# Tokens computed at once. From 64 on, llama.cpp computes attention with another algorithm that rounds differently:
# log-probabilities of SmolLM2 then differ by up to 0.2, depending on where a text is split into prompt and reply.
# Below 64 every split gives the same bits. Prompts take a fifth longer.
MICRO_BATCH_TOKENS = 63
# Longest wait at exit for threads that were asked to stop. They stop after the current batch, which takes seconds,
# or longer on a busy machine.
EXIT_SECONDS = 60.0
# Bytes of weights from which another thread pays. A 7B model of four bits, 4.4 GB, gets nine threads on as many cores.
_BYTES_PER_THREAD = 500_000_000


# Names of chat templates that are compiled into llama.cpp. Unlike a model's own template they are not Jinja.
# fmt: off
BUILT_IN_TEMPLATES = frozenset({
    "bailing", "bailing-think", "bailing2", "chatglm3", "chatglm4", "chatml", "command-r", "deepseek",
    "deepseek-ocr", "deepseek2", "deepseek3", "exaone-moe", "exaone3", "exaone4", "falcon3", "gemma",
    "gigachat", "glmedge", "gpt-oss", "granite", "granite-4.0", "grok-2", "hunyuan-dense",
    "hunyuan-moe", "kimi-k2", "llama2", "llama2-sys", "llama2-sys-bos", "llama2-sys-strip", "llama3",
    "llama4", "megrez", "minicpm", "mistral-v1", "mistral-v3", "mistral-v3-tekken", "mistral-v7",
    "mistral-v7-tekken", "monarch", "openchat", "orion", "pangu-embedded", "phi3", "phi4", "rwkv-world",
    "seed_oss", "smolvlm", "solar-open", "vicuna", "vicuna-orca", "yandex", "zephyr",
})
# fmt: on


class LlamaSettings(NamedTuple):
    """Settings of llama.cpp that need the weights to be loaded again.

    `n_ctx` is the context of each slot. `n_threads` is 0, and `n_gpu_layers` is -1, if the user did not set it.
    `chat_template` is the text of a Jinja template, one of BUILT_IN_TEMPLATES, or empty for the model's own.
    """

    n_parallel: int
    n_ctx: int
    n_threads: int = 0
    n_gpu_layers: int = -1
    chat_template: str = ""


AddChunk = Callable[[dict[str, Any]], bool]
"""Gets each part of a reply. Returns True to end the generation."""


class LlamaServer:
    """llama.cpp's server for one file of weights and one set of settings. It lives until the process ends.

    llama.cpp's server cannot be ended safely: told to end before its thread has begun, it never ends, and the
    thread that waits for it hangs. It always listens on a port of loopback, so it gets a random key that keeps
    other programs out.
    """

    def __init__(self, path: Path, settings: LlamaSettings) -> None:
        self.native: Any = None  # the xllamacpp.Server, once it is loaded
        self.key = secrets.token_hex(16)
        self._path = path
        self._settings = settings
        self._load_lock = threading.Lock()

    def load(self) -> None:
        """Load the weights, unless they are loaded. Blocks for a second or more."""
        with self._load_lock, native_code():
            if self.native is not None:
                return
            try:
                self.native = import_llama().Server(self._params())
            except RuntimeError:
                message = f"llama.cpp cannot load {self._path}: {self._find_reason()}"
                # The kind "not_found" halts the run, since every later call would fail in the same way.
                raise ModelError(Failure("not_found", message)) from None

    @property
    def address(self) -> str:
        """Host and port at which the loaded server listens."""
        return str(self.native.listening_address).removeprefix("http://")

    def complete(self, body: dict[str, Any], add_chunk: AddChunk) -> None:
        """Generate after a prompt. llama.cpp passes the parts of the reply to `add_chunk`."""
        self.native.handle_completions(body, add_chunk)

    def _find_reason(self) -> str:
        """Return why loading failed. llama.cpp only logs it, so a child process loads again, with a log."""
        code = (
            "import sys, xllamacpp\n"
            "params = xllamacpp.CommonParams()\n"
            "params.model.path, params.chat_template = sys.argv[1:3]\n"
            "params.n_ctx, params.verbosity = 256, 1\n"
            "xllamacpp.Server(params)"
        )
        template = "" if self._settings.chat_template in BUILT_IN_TEMPLATES else self._settings.chat_template
        try:
            child = subprocess.run(  # noqa: S603 - our own code
                python_code_command(code, str(self._path), template),
                capture_output=True,
                text=True,
                errors="replace",
                timeout=EXIT_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return "it is damaged, or memory is short"
        # Lines are `0.00.005.841 E llama_model_load: error loading model: unknown model architecture: 'x'`.
        errors = [line.partition(" E ")[2] for line in child.stderr.splitlines() if " E " in line]
        # A thread of llama.cpp writes the log, and lines may change places. The others only say that loading failed.
        for text in errors:
            if reason := text.partition("error loading model: ")[2]:
                return reason
        if errors:
            return errors[0].partition(": ")[2] or errors[0]
        # The child could load it with a small context.
        return f"memory is too short for a context of {self._settings.n_ctx:,} tokens. Pass a smaller n_ctx"

    def _params(self) -> Any:
        settings = self._settings
        params = import_llama().CommonParams()
        params.model.path = str(self._path)
        params.verbosity = -1  # no log on stderr
        params.n_parallel = settings.n_parallel
        params.n_ctx = settings.n_ctx * settings.n_parallel  # llama.cpp divides it among the slots
        size = sum(path.stat().st_size for path in part_files(self._path))
        threads = default_threads(size, physical_cores())
        params.cpuparams.n_threads = settings.n_threads or threads.reply
        params.cpuparams_batch.n_threads = settings.n_threads or threads.prompt
        params.n_gpu_layers = settings.n_gpu_layers
        params.chat_template = settings.chat_template
        params.use_jinja = settings.chat_template not in BUILT_IN_TEMPLATES
        params.n_batch = PROMPT_BATCH_TOKENS
        params.n_ubatch = MICRO_BATCH_TOKENS
        params.cache_ram_mib = 0  # no cache of old prompts: 8 GB by default
        params.api_keys = [self.key]
        # The port serves only the tokenizer, so one thread is enough.
        params.n_threads_http = 1
        params.ui = False
        params.offline = True
        return params


class Threads(NamedTuple):
    """How many threads compute a reply, and how many its prompt."""

    reply: int
    prompt: int


def default_threads(size: int, cores: int) -> Threads:
    """Return the threads for a model of so many bytes: one for each half gigabyte, but not more than cores.

    Every token reads all weights. Those of a small model take less time than threads need to meet: two threads wrote
    the replies of a model of 98 MB at half the speed of one, on cores that others used too. Prompts gain from a second.
    """
    reply = max(1, min(cores, round(size / _BYTES_PER_THREAD)))
    return Threads(reply, min(cores, max(2, reply)))


def physical_cores(cpus: Collection[int] | None = None, root: Path = Path("/sys")) -> int:
    """Return how many cores this process may use. CPUs that share a core count once; a container's quota counts.

    `cpus` are the numbers of the CPUs, by default those of this process. `root` is where Linux describes them.
    """
    if cpus is None:
        # macOS and Windows have no such function.
        cpus = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    cores = set()
    for cpu in cpus:
        siblings = root / f"devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
        try:
            cores.add(siblings.read_text())
        except OSError:
            cores.add(str(cpu))
    count = max(1, len(cores))
    try:
        quota, period = (root / "fs/cgroup/cpu.max").read_text().split()
        return max(1, min(count, round(int(quota) / int(period))))
    except (OSError, ValueError):  # no such file, or the quota is "max"
        return count


_servers: dict[tuple[str, LlamaSettings], LlamaServer] = {}


def shared_server(path: Path, sha256: str, settings: LlamaSettings) -> LlamaServer:
    """Return the server for these weights, one per process. Does not load them."""
    return _servers.setdefault((sha256, settings), LlamaServer(path, settings))


def import_llama() -> Any:
    """Import xllamacpp. Raises MissingExtra if it is not installed."""
    # By default, OpenMP threads spin while they wait. On shared cores that makes generation many times slower.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        import xllamacpp
    except ModuleNotFoundError:
        raise MissingExtra("the provider 'local'", "local") from None
    except ImportError as error:
        raise UsageError(f"the package xllamacpp is installed but cannot be imported: {error}") from error
    return xllamacpp


class StopFlag:
    """Tells a thread to stop, because its result is not needed any more."""

    def __init__(self) -> None:
        self.is_set = False


class Generation:
    """One request to llama.cpp, and the reply so far.

    `logprobs` has one entry for each generated token, if the request asked for log-probabilities. `read` of `prompt`
    tokens of the prompt are read. `written` counts the parts of the reply: a token each, except where several tokens
    make one character.
    """

    def __init__(self, stop: StopFlag) -> None:
        self.logprobs: list[dict[str, Any]] = []
        self.read = self.prompt = self.written = 0
        self._first_written_at = 0.0
        self._stop = stop
        self._error: dict[str, Any] | None = None
        self._texts: list[str] = []
        self._reasoning: list[str] = []
        self._finish: str | None = None
        self._usage: Usage | None = None

    def run(self, handle: Any, body: dict[str, Any]) -> None:
        """Generate. Blocks until the reply is complete or the stop flag is set."""
        # llama.cpp can be stopped only between parts of a stream. With return_progress it also sends parts while it
        # reads the prompt.
        stream = {"stream": True, "stream_options": {"include_usage": True}, "return_progress": True}
        try:
            handle({**body, **stream}, self._add_chunk)
        except Exception as error:  # noqa: BLE001 - the binding raises many types for requests that C++ rejects
            self._error = {"code": 400, "message": f"{type(error).__name__}: {error}"}

    def _add_chunk(self, chunk: dict[str, Any]) -> bool:
        """Called by llama.cpp with each part of the reply. Returning True ends the generation."""
        if "error" in chunk:
            self._error = chunk["error"]
            return True
        if progress := chunk.get("prompt_progress"):
            self.read, self.prompt = progress["processed"], progress["total"]
        for choice in chunk.get("choices") or ():
            delta = choice.get("delta", {})
            text, reasoning = choice.get("text") or delta.get("content"), delta.get("reasoning_content")
            if text or reasoning:
                self._texts.append(text or "")
                self._reasoning.append(reasoning or "")
                self._first_written_at = self._first_written_at or time.monotonic()
                self.written += 1
            self._finish = choice.get("finish_reason") or self._finish
            self.logprobs += (choice.get("logprobs") or {}).get("content") or ()
        if usage := chunk.get("usage"):
            self._usage = Usage(usage.get("prompt_tokens") or 0, usage.get("completion_tokens") or 0)
        return self._stop.is_set

    def per_second(self) -> float:
        """Return how many tokens a second were written since the first one."""
        seconds = time.monotonic() - self._first_written_at
        return (self.written - 1) / seconds if self.written > 1 and seconds else 0.0

    def response(self) -> Response:
        """Return the whole reply. Raises ModelError if there is none."""
        if self._error is not None:
            message = f"llama.cpp says: {self._error.get('message')}"
            if self._error.get("type") == "exceed_context_size_error":
                raise ModelError(Failure("context_overflow", message))
            if int(self._error.get("code") or 0) >= 500:
                raise ModelError(Failure("server_error", message), retry=True)
            raise ModelError(Failure("rejected", message))
        if self._finish is None:
            raise ModelError(Failure("server_error", "llama.cpp stopped without a reason"), retry=True)
        return Response("".join(self._texts), self._finish, self._usage, reasoning="".join(self._reasoning))


# Threads that are inside C++ code. The key is an event that is set when the thread leaves it.
_native_threads: dict[threading.Event, StopFlag | None] = {}


@contextmanager
def native_code(stop: StopFlag | None = None) -> Iterator[None]:
    """Mark the current thread as being inside C++ code, so that the exit of the process waits for it."""
    finished = threading.Event()
    _native_threads[finished] = stop
    try:
        yield
    finally:
        finished.set()
        _native_threads.pop(finished)


@atexit.register
def _rest_before_exit() -> None:
    """Stop all work and wait for it. A thread that still computes in C++ crashes the exiting process."""
    threads = dict(_native_threads)
    for stop in threads.values():
        if stop is not None:
            stop.is_set = True
    deadline = time.monotonic() + EXIT_SECONDS
    for finished in threads:
        finished.wait(max(0.0, deadline - time.monotonic()))
    for server in _servers.values():
        if server.native is None or time.monotonic() > deadline:
            continue
        # llama.cpp answers this request only after all earlier work has ended. The answer itself does not matter.
        with suppress(Exception):
            server.native.handle_completions({"prompt": "a", "max_tokens": 1, "cache_prompt": False})
