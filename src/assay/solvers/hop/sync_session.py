"""The session for functions that are not async: the same names, and each call waits for its result."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import cached_property
from typing import Any, TypeVar

from assay.core import user_code
from assay.core.errors import ModelError
from assay.core.hop_result import OK
from assay.core.types import Failure
from assay.core.user_code import UserCodeError
from assay.solvers.hop.formats import Tools, named_tools
from assay.solvers.hop.messages import Messages
from assay.solvers.hop.session import DEFAULT, Session, chosen_tool, tool_failed

T = TypeVar("T")


class SyncSession:
    """May be used from any thread but the loop's. An async session does the work, in the loop."""

    def __init__(self, session: Session, loop: asyncio.AbstractEventLoop) -> None:
        self.session = session
        self.tracer = session.tracer
        self._loop = loop

    @cached_property
    def model(self) -> SyncPlainModel:
        """For plain calls."""
        return SyncPlainModel(self)

    @property
    def failure(self) -> Failure | None:
        """The first call that failed by no fault of the model."""
        return self.session.failure

    @property
    def retry_count(self) -> int:
        """Retries of all operators so far."""
        return self.session.retry_count

    def base_url(self) -> str:
        """Where a foreign SDK reaches the run side's model until the row ends."""
        return self.wait(self.session.base_url())

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
        return self.wait(self.session.hop_get(task, context, return_format, verifier, hop_retry, **params))

    def hop_judge(
        self,
        task: str,
        context: Any = "",
        verifier: Any = DEFAULT,
        hop_retry: int | None = None,
        **params: Any,
    ) -> tuple[str, Any]:
        """Decide whether something holds: the result is "True", "False" or "Uncertain", always a text."""
        return self.wait(self.session.hop_judge(task, context, verifier, hop_retry, **params))

    def hop_tool_use(
        self,
        task: str,
        tools: Tools,
        context: Any = "",
        verifier: Any = DEFAULT,
        hop_retry: int | None = None,
        **params: Any,
    ) -> tuple[str, Any]:
        """Let the model choose a tool, and run it once in the thread that called this.

        A sync tool may then use what belongs to this thread, such as a database connection.
        """
        offered = named_tools(tools)
        with self.tracer.operator("hop_tool_use", task) as step:
            choice = self.session.choose_tool(offered, task, context, verifier, hop_retry, params)
            outcome = self.wait(choice)
            if outcome.status == OK:
                tool, arguments = chosen_tool(offered, outcome)
                try:
                    if user_code.is_async(tool.function):
                        result = self.wait(user_code.call(tool.function, (), arguments))
                    else:
                        result = user_code.call_here(tool.function, (), arguments)
                    outcome = outcome._replace(result=result)
                except (UserCodeError, ModelError) as error:
                    outcome = tool_failed(outcome, error)
            return self.session.note(step, outcome)

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop and wait for it.

        Raises RuntimeError in the loop's own thread, which would wait for itself for ever.
        """
        try:
            running: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if running is self._loop:
            work.close()
            raise RuntimeError("a sync session was used in the event loop's thread; use the async one there")
        try:
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:  # the loop is closed, and this thread was abandoned
            work.close()
            raise
        return future.result()


class SyncPlainModel:
    """The run side for calls that nobody verifies."""

    def __init__(self, session: SyncSession) -> None:
        self._session = session

    def chat(self, messages: str | Messages, **params: Any) -> str:
        """The text of the reply. Raises ModelError where there is none."""
        return self._session.wait(self._session.session.model.chat(messages, **params))
