"""The child process of a Hugging Face model, as assay sees it.

    child = ModelProcess(COMMAND, LoadModel(folder="…", tokenizer="…"))
    await child.start()                       # returns when the model is loaded
    reply = await child.ask(GenerateText(id=child.next_id(), …), timeout=300)
    await child.stop()

The messages are lines of JSON over pipes, so that no port is open. The child ends when its stdin is closed, which also
happens when assay is killed.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections import deque
from contextlib import suppress
from pathlib import Path

import msgspec

from assay.core.errors import ModelError
from assay.core.events import notice
from assay.core.types import Failure
from assay.models.transformers.protocol import (
    CancelWork,
    ChildNote,
    FromChild,
    GenerateText,
    LoadModel,
    MeasureText,
    ModelLoaded,
    TextGenerated,
    TextMeasured,
    ToChild,
    WorkFailed,
    WorkStarted,
    decode_from_child,
    decode_numbers,
    encode,
)
from assay.usercode.child_process import python_command

# -P keeps the current folder out of the search path: a file torch.py there would hide the package.
COMMAND = tuple(python_command("assay.models.transformers.worker"))
# Lines of the child's stderr that are kept for the message of a failure, and how many of them it shows.
_KEPT_LINES, _SHOWN_LINES = 200, 8
# asyncio refuses lines that are longer than this. A reply has at most a few hundred kilobytes.
_LONGEST_LINE = 1 << 28
# Time for the last lines of the pipes after the child has ended. A program that the child started may keep them open.
_LAST_LINES_SECONDS = 2.0
# After a timeout the child drops the request at its next token, and tells. If it says nothing for so long, it hangs.
PATIENCE_SECONDS = 10.0


class ModelProcess:
    """One child process with one model. After its end every call raises, and a new object must be made."""

    def __init__(self, command: tuple[str, ...], settings: LoadModel, patience: float = PATIENCE_SECONDS) -> None:
        """A child that computes what nobody waits for, and says nothing for `patience` seconds, is killed."""
        self._command = command
        self._settings = settings
        self._patience = patience
        self._messages_read = 0
        self._process: asyncio.subprocess.Process | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._loaded: asyncio.Future[ModelLoaded] | None = None
        self._replies: dict[int, _Expected] = {}
        self._unsent: list[ToChild] = []
        self._stderr: deque[str] = deque(maxlen=_KEPT_LINES)
        self._last_id = 0
        self._ended: ModelError | None = None

    @property
    def ended(self) -> bool:
        """Whether the process has ended or was stopped."""
        return self._ended is not None

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._process is not None
        return self._process.pid

    def next_id(self) -> int:
        """Return a new number for a request."""
        self._last_id += 1
        return self._last_id

    async def start(self) -> ModelLoaded:
        """Start the process and load the model. Raises ModelError if that fails."""
        self._loaded = asyncio.get_running_loop().create_future()
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=_LONGEST_LINE,
            env=_environment(),
            # A session of its own: Ctrl-C reaches only assay, which then stops the child.
            start_new_session=True,
        )
        self._tasks = [asyncio.create_task(self._read_replies()), asyncio.create_task(self._read_stderr())]
        self._tasks.append(asyncio.create_task(self._wait_for_end()))
        self._send(self._settings)
        try:
            return await self._loaded
        except BaseException:
            await self.stop()
            raise

    async def ask(
        self,
        request: GenerateText | MeasureText,
        timeout: float,  # noqa: ASYNC109 - it starts with the work
    ) -> TextGenerated | TextMeasured:
        """Send a request and return its reply. The timeout starts when the model begins to compute it.

        Raises ModelError: if the child says that the request failed, after the timeout, and if the child ends.
        """
        if self._ended is not None:
            raise ModelError(self._ended.failure, retry=self._ended.retry)
        expected = self._replies[request.id] = _Expected()
        self._send(request)
        try:
            await expected.started
            async with asyncio.timeout(timeout):
                return await expected.reply
        except TimeoutError:
            raise ModelError(Failure("timeout", f"the model took longer than {timeout:g} s")) from None
        finally:
            del self._replies[request.id]
            if not expected.reply.done() or expected.reply.cancelled():
                self._send(CancelWork(request.id))
                if expected.started.done():
                    self._expect_message()
            else:
                # A failure that comes together with a cancellation is read here, or asyncio would print it.
                expected.reply.exception()

    async def stop(self) -> None:
        """Kill the process and wait until it has ended. Open requests raise ModelError."""
        self._end(ModelError(Failure("unreachable", "the model's process was stopped"), retry=True))
        process = self._process
        if process is None:
            return
        self._kill()
        await process.wait()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _kill(self) -> None:
        assert self._process is not None
        with suppress(ProcessLookupError, PermissionError):
            # The whole group: a model's own code may have started processes.
            os.killpg(self._process.pid, signal.SIGKILL)

    def _expect_message(self) -> None:
        """Kill the child if it says nothing for a while. Call this when it computes what nobody waits for any more."""
        loop = asyncio.get_running_loop()
        loop.call_later(self._patience, self._end_if_silent, self._messages_read)

    def _end_if_silent(self, messages_read: int) -> None:
        # Requests that were begun and are still open have a timeout of their own, and the child has that long.
        has_time = any(each.started.done() for each in self._replies.values())
        if self._ended is not None or self._messages_read != messages_read or has_time:
            return
        message = f"the model's process hangs: it said nothing for {self._patience:g} s after a timeout"
        self._end(ModelError(Failure("unreachable", message), retry=True))
        self._kill()

    def _send(self, message: ToChild) -> None:
        """Write a message together with all others of this turn of the event loop.

        So requests that are made together arrive together, and the child computes them in one batch.
        """
        if self._ended is not None:
            return
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._flush)
        self._unsent.append(message)

    def _flush(self) -> None:
        messages, self._unsent = self._unsent, []
        if self._process is not None and self._process.stdin is not None and self._ended is None:
            # asyncio buffers what does not fit into the pipe. At most --concurrency requests are open.
            self._process.stdin.write(encode(messages) + b"\n")

    async def _read_replies(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            try:
                messages = decode_from_child(line)
            except msgspec.DecodeError as error:
                self._handle_unreadable(line, error)
                continue
            for message in messages:
                self._handle(message)

    def _handle_unreadable(self, line: bytes, error: msgspec.DecodeError) -> None:
        """Fail the requests that a line belongs to. If it does not tell them, the child cannot be used any more."""
        self._messages_read += 1
        failure = Failure("bad_reply", f"the model's process wrote an unreadable line: {error}")
        problem = ModelError(failure, retry=True)
        try:
            numbers = [message.id for message in decode_numbers(line)]
        except msgspec.DecodeError:
            self._end(problem)
            return
        for number in numbers:
            if expected := self._replies.get(number):
                expected.fail(problem)

    def _handle(self, message: FromChild) -> None:
        self._messages_read += 1
        match message:
            case ModelLoaded():
                if self._loaded is not None and not self._loaded.done():
                    self._loaded.set_result(message)
            case ChildNote(text):
                notice(text)
            case WorkStarted(ids):
                for request_id in ids:
                    if expected := self._replies.get(request_id):
                        expected.start()
                if not any(request_id in self._replies for request_id in ids):
                    self._expect_message()
            case WorkFailed(kind, text, None):
                self._end(ModelError(Failure(kind, text)))
            case WorkFailed(kind, text, request_id):
                if expected := self._replies.get(request_id):
                    expected.fail(ModelError(Failure(kind, text)))
            case TextGenerated() | TextMeasured():
                if expected := self._replies.get(message.id):
                    expected.succeed(message)

    async def _read_stderr(self) -> None:
        assert self._process is not None
        assert self._process.stderr is not None
        while line := await self._process.stderr.readline():
            text = line.decode("utf-8", "replace").rstrip()
            # A progress bar rewrites its line with carriage returns; the last text counts.
            if text := text.rpartition("\r")[2]:
                self._stderr.append(text)

    async def _wait_for_end(self) -> None:
        assert self._process is not None
        code = await self._process.wait()
        # The last reply and the last words on stderr may still be in the pipes.
        await asyncio.wait(self._tasks[:2], timeout=_LAST_LINES_SECONDS)
        message = f"the process of the model ended ({_reason(code)})"
        if self._stderr:
            message += ". Its last lines:\n" + "\n".join(list(self._stderr)[-_SHOWN_LINES:])
        self._end(ModelError(Failure("unreachable", message), retry=True))

    def _end(self, error: ModelError) -> None:
        """Fail everything that is open, and every later call. The first reason counts."""
        if self._ended is not None:
            return
        self._ended = error
        for expected in self._replies.values():
            expected.fail(error)
        if self._loaded is not None and not self._loaded.done():
            self._loaded.set_exception(error)


class _Expected:
    """A request that has no reply yet."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.started: asyncio.Future[None] = loop.create_future()
        self.reply: asyncio.Future[TextGenerated | TextMeasured] = loop.create_future()

    def start(self) -> None:
        if not self.started.done():
            self.started.set_result(None)

    def succeed(self, reply: TextGenerated | TextMeasured) -> None:
        self.start()
        if not self.reply.done():
            self.reply.set_result(reply)

    def fail(self, error: ModelError) -> None:
        self.start()
        if not self.reply.done():
            # Each call gets an exception of its own: the caller writes attempts and seconds into it.
            self.reply.set_exception(ModelError(error.failure, retry=error.retry))


def _environment() -> dict[str, str]:
    """Return the environment of the child: assay's, without downloads, telemetry and progress bars."""
    # The folder that contains the package assay.
    source = str(Path(__file__).parents[3])
    search_path = [source, os.environ.get("PYTHONPATH", "")]
    return {
        # OpenMP threads spin while they wait, unless told otherwise. On shared cores that makes everything slower.
        "OMP_WAIT_POLICY": "PASSIVE",
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, search_path)),
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "TQDM_DISABLE": "1",
    }


def _reason(code: int) -> str:
    if code == -signal.SIGKILL:
        return "signal 9: someone killed it, or the system was out of memory"
    return f"exit code {code}" if code >= 0 else f"signal {-code}"
