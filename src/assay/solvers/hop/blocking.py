"""The session for functions that are not async: the same names, each call waits for its result."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import cached_property
from typing import Any, TypeVar

from assay.core import user_code
from assay.core.errors import ModelError
from assay.core.protocols import Context
from assay.core.status import OK
from assay.core.types import Failure
from assay.core.user_code import UserCodeError
from assay.solvers.hop.session import (
    DEFAULT,
    HOP_RETRY,
    Session,
    Side,
    Tools,
    chosen,
    tool_failed,
)
from assay.solvers.hop.tools import Tool, offered
from assay.solvers.hop.wording import Messages

T = TypeVar("T")


class SyncModel:
    """The run side for calls that nobody verifies."""

    def __init__(self, session: SyncSession) -> None:
        self._session = session

    def chat(self, messages: str | Messages, **params: Any) -> str:
        """The text of the reply. Raises ModelError where there is none."""
        return self._session.wait(self._session.twin.model.chat(messages, **params))


class SyncSession:
    """May be used from any thread but the loop's. The work is done in the loop, by its async twin."""

    def __init__(self, twin: Session, loop: asyncio.AbstractEventLoop) -> None:
        self.twin = twin
        self.tracer = twin.tracer
        self.model = SyncModel(self)
        self._loop = loop

    @property
    def failure(self) -> Failure | None:
        """The first call that failed by no fault of the model."""
        return self.twin.failure

    @property
    def retry_count(self) -> int:
        """Retries of all operators so far."""
        return self.twin.retry_count

    def base_url(self) -> str:
        """Where a foreign SDK reaches the run side's model until the row ends."""
        return self.wait(self.twin.base_url())

    def hop_get(
        self,
        task: str,
        context: Any = "",
        return_format: Any = None,
        verifier: Any = DEFAULT,
        hop_retry: int | None = None,
        **params: Any,
    ) -> tuple[str, Any]:
        """Extract or work out something. `return_format` is words, a type, or fields with words or types."""
        return self.wait(self.twin.hop_get(task, context, return_format, verifier, hop_retry, **params))

    def hop_judge(
        self,
        task: str,
        context: Any = "",
        verifier: Any = DEFAULT,
        hop_retry: int | None = None,
        **params: Any,
    ) -> tuple[str, Any]:
        """Decide whether something holds: the result is "True", "False" or "Uncertain", always a text."""
        return self.wait(self.twin.hop_judge(task, context, verifier, hop_retry, **params))

    def hop_tool_use(
        self,
        task: str,
        tools: Tools,
        context: Any = "",
        verifier: Any = DEFAULT,
        hop_retry: int | None = None,
        **params: Any,
    ) -> tuple[str, Any]:
        """Let the model choose a tool and run it once, in the thread that called this."""
        known = offered(tools)
        with self.tracer.operator("hop_tool_use", task) as step:
            outcome = self.wait(self.twin.choose(known, (task, context), verifier, hop_retry, params))
            if outcome.status == OK:
                try:
                    outcome = outcome._replace(result=self._run(*chosen(known, outcome)))
                except (UserCodeError, ModelError) as error:
                    outcome = tool_failed(outcome, error)
            return self.twin.noted(step, outcome)

    def _run(self, tool: Tool, arguments: dict[str, Any]) -> Any:
        """Here, so that what belongs to this thread (a database connection) may be used."""
        if user_code.is_async(tool.function):
            return self.wait(user_code.call(tool.function, (), arguments))
        return user_code.call_here(tool.function, (), arguments)

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """What the loop makes of it. In the loop's own thread it would wait for itself: RuntimeError."""
        try:
            running: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if running is self._loop:
            work.close()
            raise RuntimeError("a sync session was used in the event loop's thread; use the async one there")
        try:
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:  # the loop is closed, and this thread was left behind
            work.close()
            raise
        return future.result()


class Sessions:
    """One session in both forms; the blocking one is made for those who ask for it."""

    def __init__(self, asynchronous: Session) -> None:
        self.asynchronous = asynchronous
        self._loop = asyncio.get_running_loop()

    @cached_property
    def blocking(self) -> SyncSession:
        """For code in threads."""
        return SyncSession(self.asynchronous, self._loop)


def open_sessions(ctx: Context, run: Side, verify: Side, hop_retry: int = HOP_RETRY) -> Sessions:
    """For one call of a function, of whichever kind it is. The running loop does the work."""
    return Sessions(Session(ctx, run, verify, hop_retry))
