"""Answers that are in flight while a memory takes in more."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from assay.core.errors import ModelError
from assay.core.types import Failure


class Flying:
    """All answers of one try of one case."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []
        self._failure: Failure | None = None

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Let it run; `landed` waits for it."""
        self._tasks.append(asyncio.get_running_loop().create_task(work))

    def note(self, failure: Failure) -> None:
        """An answer that failed. By no fault of the model, the case is asked again."""
        if failure.status == "infra_error":
            self._failure = self._failure or failure

    async def landed(self) -> None:
        """Wait for all, since they are paid; what stops the run stops here."""
        for result in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result

    def check(self) -> None:
        """Raises the first failure that makes the case one to ask again."""
        if self._failure is not None:
            raise ModelError(self._failure)
