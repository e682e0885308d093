"""The session for functions that are not async. It has the methods of `Session`; each call blocks."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import cached_property
from typing import Any, TypeVar

from assay.core.errors import ModelError
from assay.core.types import Failure
from assay.suites.hop.messages import Messages
from assay.suites.hop.reply_formats import Tools, tools_by_name
from assay.suites.hop.result import OK
from assay.suites.hop.session import DEFAULT, Session, chosen_tool, tool_failure
from assay.usercode import user_function
from assay.usercode.errors import UserCodeError

T = TypeVar("T")


class SyncSession:
    """Passes each call to an async session in the event loop. Works in any thread except the loop's own."""

    def __init__(self, session: Session, loop: asyncio.AbstractEventLoop) -> None:
        self.session = session
        self.tracer = session.tracer
        self.feedback = session.feedback
        self._loop = loop

    @cached_property
    def model(self) -> SyncPlainModel:
        """The run model, for calls without verification."""
        return SyncPlainModel(self)

    @property
    def failure(self) -> Failure | None:
        """The first call that failed for a technical reason."""
        return self.session.failure

    @property
    def retry_count(self) -> int:
        """Number of retries of all operators so far."""
        return self.session.retry_count

    def base_url(self) -> str:
        """Return a base URL for an SDK such as openai. It serves the run model until the row ends."""
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
        """Extract or derive a value. `return_format` is a description, a type, or a dict of fields with either."""
        return self.wait(self.session.hop_get(task, context, return_format, verifier, hop_retry, **params))

    def hop_judge(
        self,
        task: str,
        context: Any = "",
        verifier: Any = DEFAULT,
        hop_retry: int | None = None,
        **params: Any,
    ) -> tuple[str, Any]:
        """Judge a statement or answer a yes-or-no question.

        The result is the text "True", "False" or "Uncertain", never a bool.
        """
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
        """Let the model choose a tool and its arguments, run the tool once, and return its result.

        A sync tool runs in the calling thread, so it can use a database connection of that thread.
        """
        offered = tools_by_name(tools)
        with self.tracer.operator("hop_tool_use", task) as step:
            choice = self.session.choose_tool(offered, task, context, verifier, hop_retry, params)
            outcome = self.wait(choice)
            if outcome.status == OK:
                tool, arguments = chosen_tool(offered, outcome)
                try:
                    if user_function.is_async(tool.function):
                        result = self.wait(user_function.call(tool.function, (), arguments))
                    else:
                        result = user_function.call_here(tool.function, (), arguments)
                    outcome = outcome._replace(result=result)
                except (UserCodeError, ModelError) as error:
                    outcome = tool_failure(outcome, error)
            return self.session.end_step(step, outcome)

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop and wait for it.

        Raises RuntimeError in the loop's own thread, because that thread would wait for itself forever.
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
        except RuntimeError:  # the loop is closed: the run ended while this thread was still working
            work.close()
            raise
        return future.result()


class SyncPlainModel:
    """The run model, for calls without verification."""

    def __init__(self, session: SyncSession) -> None:
        self._session = session

    def chat(self, messages: str | Messages, **params: Any) -> str:
        """Return the text of the reply. Raises ModelError if the call fails."""
        return self._session.wait(self._session.session.model.chat(messages, **params))
