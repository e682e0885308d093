"""The process in which people's queries run, so that no query outlives its time or outgrows its memory.

    with SqlProcess([folder], timeout=300) as database:
        result = database.query("select metric, avg(value) from scores group by metric")
        result.columns, result.fetch()

DuckDB looks at its limits between blocks of rows. A function of one value, such as `repeat('x', 4000000000)`, does not
look at all. Here the kernel keeps the limits: a timer kills the process, and its address space is bounded.

The process reads pickled requests `(name, arguments)` from stdin and writes pickled messages to stdout.
"""

from __future__ import annotations

import os
import pickle
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NamedTuple, Self

from assay.core.errors import AssayError, UsageError
from assay.core.events import on_read
from assay.store.sql.database import (
    DEFAULT_MEMORY,
    DEFAULT_TIMEOUT,
    QueryResult,
    RunDatabase,
    needs_memory,
    was_stopped,
)
from assay.usercode.child_process import python_code_command

_MAX_ADDRESSES = 6 << 30
"""Bytes of address space of the process: DuckDB's memory, and room for Python, threads and mapped files."""
_GRACE_SECONDS = 1.0
"""DuckDB gets this time to stop a query by itself, which keeps the process for the next query."""
# How C++ and the kernel end a process that gets no memory.
_NO_MEMORY = {-signal.SIGABRT, -signal.SIGKILL, -signal.SIGSEGV, -signal.SIGBUS}
_COMMAND = python_code_command("from assay.store.sql.process import main; main()")


class _SqlWarning(NamedTuple):
    text: str


class _ReadProgress(NamedTuple):
    folder: Path
    share: float


class _SqlReply(NamedTuple):
    """The last message about a request."""

    value: Any
    error: Exception | None


class SqlProcess:
    """A `RunDatabase` in a process of its own. A query that breaks a limit ends the process; the next query starts one.

    `warn` receives a sentence about each run that is damaged or cannot be read.
    """

    def __init__(
        self,
        folders: Sequence[Path],
        warn: Callable[[str], object] = lambda _: None,
        timeout: float = DEFAULT_TIMEOUT,
        *,
        memory: str = DEFAULT_MEMORY,
        max_addresses: int = _MAX_ADDRESSES,
        cleanup: Callable[[], None] | None = None,
    ) -> None:
        """`cleanup` is called when the database is closed."""
        self._folders = list(folders)
        self._warn = warn
        self._timeout = timeout
        self._memory = memory
        self._max_addresses = max_addresses
        self._cleanup = cleanup
        # The process may be killed before it can remove its files. So they are in a folder of ours.
        self._temporary = Path(tempfile.mkdtemp(prefix="assay-sql-")).resolve()
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def query(self, text: str) -> QueryResult:
        """Check a query and start it. Raises UsageError for anything but one SELECT over the views."""
        columns, first = self._ask("query", text)
        return QueryResult(columns, first, lambda: self._ask("fetch"))

    def write_parquet(self, text: str, target: Path) -> int:
        """Write the result of a query as a Parquet file, completely or not at all. Return the number of rows."""
        file = self._temporary / "result.parquet"
        rows: int = self._ask("write_parquet", text, file)
        shutil.move(file, target)
        return rows

    def is_stale(self) -> bool:
        """Return whether a run has grown since the database was opened. It shows the runs as they were then."""
        return self._process is not None and bool(self._ask("is_stale"))

    def close(self) -> None:
        """End the process and remove temporary files."""
        self._kill()
        shutil.rmtree(self._temporary, ignore_errors=True)
        if self._cleanup is not None:
            self._cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - a fixed command
            _COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # C++ prints there that it has no memory
            env={**os.environ, "TMPDIR": str(self._temporary)},
            start_new_session=True,  # Ctrl-C is for this process only
        )
        self._ask("open", self._folders, self._timeout, self._memory, self._max_addresses)

    def _ask(self, name: str, *arguments: object) -> Any:
        """Send a request and return the value of its reply, or raise its error."""
        if self._process is None:
            self._start()
        assert self._process is not None
        requests, replies = self._process.stdin, self._process.stdout
        assert requests is not None
        assert replies is not None
        try:
            _send(requests, (name, arguments))
            while not isinstance(message := pickle.load(replies), _SqlReply):  # noqa: S301 - of our own process
                if isinstance(message, _SqlWarning):
                    self._warn(message.text)
                elif (progress := on_read.get()) is not None:
                    progress(message.folder, message.share)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError):
            raise self._end_of_process() from None
        except BaseException:
            self._kill()  # after Ctrl-C: the process still works on the request
            raise
        if message.error is not None:
            raise message.error
        return message.value

    def _end_of_process(self) -> UsageError:
        """Return the reason why the process ended within a request."""
        assert self._process is not None
        code = self._process.wait()
        self._kill()
        if code == -signal.SIGALRM:
            return UsageError(was_stopped(self._timeout))
        if code in _NO_MEMORY:
            return UsageError(needs_memory(self._memory))
        return UsageError(f"the process of the query ended with code {code}")

    def _kill(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):  # half a request
                pipe.close()
        process.wait()


def _send(pipe: IO[bytes], message: object) -> None:
    pipe.write(pickle.dumps(message))
    pipe.flush()


# The other process.


def main() -> None:
    """Handle requests until stdin is closed, which it is when the parent ends."""
    # The parent may ignore this signal. Then no timer would end us.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    requests, replies = sys.stdin.buffer, sys.stdout.buffer
    on_read.set(lambda folder, share: _send(replies, _ReadProgress(folder, share)))
    server = _SqlServer(lambda text: _send(replies, _SqlWarning(text)))
    while True:
        try:
            name, arguments = pickle.load(requests)  # noqa: S301 - of our parent
        except EOFError:
            return
        _send(replies, server.answer(name, arguments))


class _SqlServer:
    """The database of the process. A timer that kills the process runs while it works on a query."""

    def __init__(self, warn: Callable[[str], object]) -> None:
        self._warn = warn
        self._memory = ""
        self._timeout = 0.0
        self._database: RunDatabase | None = None
        self._result: QueryResult | None = None
        self._deadline = 0.0

    def answer(self, name: str, arguments: tuple[Any, ...]) -> _SqlReply:
        """Call the method of a request."""
        methods: dict[str, Callable[..., Any]] = {
            "open": self._open,
            "query": self._query,
            "fetch": self._fetch,
            "write_parquet": self._write_parquet,
            "is_stale": self._is_stale,
        }
        try:
            return _SqlReply(methods[name](*arguments), None)
        except MemoryError:
            return _SqlReply(None, UsageError(needs_memory(self._memory)))
        except AssayError as error:
            # Not every error of assay can be pickled. All that are raised here have the same exit code.
            return _SqlReply(None, UsageError(str(error)))
        except Exception as error:  # noqa: BLE001 - told by the parent, whatever it is
            return _SqlReply(None, UsageError(f"the query failed: {type(error).__name__}: {error}"))
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _open(self, folders: list[Path], timeout: float, memory: str, max_addresses: int) -> None:
        allowed = resource.getrlimit(resource.RLIMIT_AS)[1]  # the user's own limit may be lower
        limit = max_addresses if allowed == resource.RLIM_INFINITY else min(max_addresses, allowed)
        with suppress(ValueError, OSError):  # macOS has no such limit; DuckDB's own limit and the timer stay
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        self._timeout, self._memory = timeout, memory
        self._database = RunDatabase(folders, self._warn, timeout, memory=memory)

    def _query(self, text: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        assert self._database is not None
        self._deadline = time.monotonic() + self._timeout + _GRACE_SECONDS
        self._set_timer()
        self._result = self._database.query(text)
        return self._result.columns, self._result.first

    def _fetch(self) -> list[tuple[Any, ...]]:
        if self._result is None:
            raise UsageError(was_stopped(self._timeout))  # the process of the query was killed
        self._set_timer()
        return self._result.fetch_more()

    def _write_parquet(self, text: str, target: Path) -> int:
        assert self._database is not None
        self._deadline = time.monotonic() + self._timeout + _GRACE_SECONDS
        self._set_timer()
        return self._database.write_parquet(text, target)

    def _is_stale(self) -> bool:
        assert self._database is not None
        return self._database.is_stale()

    def _set_timer(self) -> None:
        # A timer of 0 s would never run out.
        seconds = max(_GRACE_SECONDS, self._deadline - time.monotonic())
        signal.setitimer(signal.ITIMER_REAL, seconds)
