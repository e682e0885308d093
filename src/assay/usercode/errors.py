"""Exceptions of the user's code: which of them fail a case, and what is reported about them.

`UserCodeError` wraps an exception with its place in the user's files and a traceback without the frames of other code.
The engine, which catches exceptions around a solver, uses `is_failure` and `failure_of`.
"""

from __future__ import annotations

import asyncio
import asyncio.runners
import inspect
import linecache
import opcode
import threading
import traceback
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from assay.core.errors import CaseFailed, ModelError, ModelRefused, StopRun, UsageError
from assay.core.types import Failure
from assay.files.excerpt import cut_end, cut_start
from assay.language.patterns import SlowPattern
from assay.usercode.ownership import is_users_file
from assay.usercode.watchdog import Blocked

Kind = Literal["exception", "exit", "interrupt", "timeout", "bad_result"]

PASSED_THROUGH = (StopRun, ModelRefused, UsageError, ModelError, CaseFailed, SlowPattern)
"""Exceptions that are not the fault of the user's code, although they pass through it."""

# Failures are written to the journal, one per case. These limits keep its lines short.
_MAX_MESSAGE = 2_000
_MAX_TRACEBACK = 6_000
_MAX_FRAMES = 20
# Python's cache of source lines forgets a file for a moment when it looks whether it has changed. Another thread that
# looks then finds no line. Reentrant, because a traceback asks exceptions for their texts, which may name their line.
_SOURCES = threading.RLock()

_BLOCKED = "it blocked all other rows until its time was over; without `async` it has a thread of its own"
_KINDS: dict[type[BaseException], Kind] = {SystemExit: "exit", KeyboardInterrupt: "interrupt"}


class UserCodeError(Exception):
    """User code raised an exception, took too long or returned an invalid value.

    `text` is the reason without the type of the exception. `str()` adds the type and the innermost line of the user's
    code: `[KeyError] 'gone' (hop.py:7: raise KeyError('gone'))`. `error` is the exception; it is None for a time
    limit and for an invalid value (`bad_result`).
    """

    def __init__(
        self, text: str, kind: Kind = "exception", *, type_name: str = "", error: BaseException | None = None
    ) -> None:
        super().__init__(text)
        self.text = text
        self.kind = kind
        self.type_name = type_name or (type(error).__name__ if error else "")
        self.error = error

    @classmethod
    def of(cls, error: BaseException) -> UserCodeError:
        """Return the UserCodeError for an exception of user code."""
        if isinstance(error, cls):
            return error
        if isinstance(error, Blocked):
            return cls(_BLOCKED, "timeout", type_name="TimeoutError", error=error)
        return cls(message_of(error), _KINDS.get(type(error), "exception"), error=error)

    @classmethod
    def of_blocked(cls, where: str, traceback: str) -> UserCodeError:
        """Return the UserCodeError of a step that blocked the loop in another process."""
        error = cls(_BLOCKED, "timeout", type_name="TimeoutError")
        error.where, error.traceback = where, traceback
        return error

    @property
    def message(self) -> str:
        """`[KeyError] 'gone'`. Only the text for a time limit and for an invalid value."""
        return self.text if self.kind in ("timeout", "bad_result") else f"[{self.type_name}] {self.text}"

    @property
    def raised(self) -> str:
        """`KeyError: 'gone' (hop.py:7: raise KeyError('gone'))`, after "it raised"."""
        text = f"{self.type_name}: {self.text}"
        return f"{text} ({self.where})" if self.where else text

    @cached_property
    def where(self) -> str:
        """`file.py:12: the line` of the innermost frame in the user's own files; empty if there is none."""
        return last_line(self.error) if self.error else ""

    @cached_property
    def traceback(self) -> str:
        """The traceback with the user's own frames; empty if there is none."""
        return traceback_of(self.error) if self.error else ""

    def failure(self, message: str | None = None, where: str = "") -> Failure:
        """Return the Failure of the case, with the traceback. The default message is `str(self)`."""
        return Failure("user_code", str(self) if message is None else message, where, traceback=self.traceback)

    def __str__(self) -> str:
        return f"{self.message} ({self.where})" if self.where else self.message


def is_failure(error: BaseException) -> bool:
    """Return whether an exception fails only its case.

    A cancellation, a real Ctrl-C and the exceptions in PASSED_THROUGH do not: they concern more than the case.
    """
    if isinstance(error, (*PASSED_THROUGH, asyncio.CancelledError)):
        return False
    return isinstance(error, Exception) or not is_ctrl_c(error)


def failure_of(error: BaseException) -> Failure:
    """Return the Failure for an exception of user code: `KeyError: 'gone'`, with the traceback."""
    return Failure("user_code", raised_as(error), traceback=traceback_of(error))


def raised_as(error: BaseException) -> str:
    """Return type and text of an exception, such as `KeyError: 'gone'`. Without a text it is the type alone."""
    return ": ".join(filter(None, (type(error).__name__, message_of(error))))


def is_ctrl_c(error: BaseException) -> bool:
    """Return whether a KeyboardInterrupt comes from a signal, and not from a `raise` statement in user code.

    After a signal, Python raises it between two arbitrary instructions. So the innermost frame is not at a RAISE
    instruction, unless it is in asyncio's signal handler.
    """
    trace = error.__traceback__
    if not isinstance(error, KeyboardInterrupt) or trace is None:
        return False
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    if code.co_filename == asyncio.runners.__file__:
        return True
    return code.co_code[trace.tb_lasti] != opcode.opmap["RAISE_VARARGS"]


def message_of(error: BaseException) -> str:
    """Return an exception's text; empty if its `__str__` raises. Lone surrogates are written as escapes."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - a user's own __str__ may raise anything
        return ""
    return _writable(cut_end(text, _MAX_MESSAGE))


def _writable(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()


def last_line(error: BaseException) -> str:
    """Return `file.py:12: the line` of the innermost frame in the user's own files; empty if there is none."""
    innermost: TracebackType | None = None
    trace = error.__traceback__
    while trace is not None:
        if is_users_file(trace.tb_frame.f_code.co_filename):
            innermost = trace
        trace = trace.tb_next
    if innermost is None:
        return ""
    file, number = innermost.tb_frame.f_code.co_filename, innermost.tb_lineno
    with _SOURCES:
        linecache.checkcache(file)  # the file may have been edited, or be another one of this name
        line = linecache.getline(file, number).strip()
    return f"{Path(file).name}:{number}: {line}" if line else f"{file}:{number}"


def place_note(function: Callable[..., Any]) -> str:
    """Return ` (file.py:12)`, the end of a message about the result of a user's function; empty for other functions."""
    plain = inspect.unwrap(function.__func__ if inspect.ismethod(function) else function)
    if not inspect.isfunction(plain) or not is_users_file(plain.__code__.co_filename):
        return ""
    return f" ({Path(plain.__code__.co_filename).name}:{plain.__code__.co_firstlineno})"


def traceback_of(error: BaseException) -> str:
    """Return the traceback as Python prints it, with the frames of the user's own files only.

    Causes and exception groups are included. It is empty if no frame is in the user's files, for example if the call
    had wrong arguments.
    """
    with _SOURCES:
        whole = traceback.TracebackException.from_exception(error, compact=True)
    if not _keep_user_frames(whole):
        return ""
    return cut_start(_writable("".join(whole.format()).rstrip()), _MAX_TRACEBACK)


def _keep_user_frames(whole: traceback.TracebackException) -> bool:
    """Remove all other frames, also from causes. Returns whether a user's frame remains."""
    frames = [frame for frame in whole.stack if is_users_file(frame.filename)]
    whole.stack = traceback.StackSummary.from_list(frames[-_MAX_FRAMES:])
    has_frames = bool(frames)
    for inner in (whole.__cause__, whole.__context__, *(whole.exceptions or ())):
        if inner is not None and _keep_user_frames(inner):
            has_frames = True
    return has_frames
