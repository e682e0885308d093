"""Ends the copy of the process that user code makes with `os.fork` and then lets return.

    before = forks.count()
    value = function()
    forks.leave_if_forked(before)   # in the copy, this does not return

A copy that goes on would write the journal twice, read the replies of the run's connections, and hold the run's lock. A
copy that ends by itself, as those of `multiprocessing` do, never comes here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar

T = TypeVar("T")

# Counted in the copy only, so a process that was forked before it began a run is no copy.
_count = 0


def count() -> int:
    """Return how often this process was copied from another one since the module was imported."""
    return _count


def leave_if_forked(before: int) -> None:
    """End this process at once if it is a copy that was made after `before` was counted."""
    if _count != before:
        os._exit(0)


class WatchedSteps(Coroutine[Any, Any, T]):
    """A coroutine that is watched for forks after each of its steps."""

    def __init__(self, inner: Coroutine[Any, Any, T]) -> None:
        self._inner = inner
        self._before = _count

    def send(self, value: Any) -> Any:
        """Run the next step."""
        try:
            return self._inner.send(value)
        finally:
            leave_if_forked(self._before)

    def throw(self, *error: Any) -> Any:
        """Raise an exception in the coroutine."""
        try:
            return self._inner.throw(*error)
        finally:
            leave_if_forked(self._before)

    def close(self) -> None:
        """Close the coroutine."""
        self._inner.close()

    def __await__(self) -> Generator[Any, Any, T]:
        step: Callable[[Any], Any] = self.send
        value: Any = None
        while True:
            try:
                awaited = step(value)
            except StopIteration as end:
                result: T = end.value
                return result
            try:
                value = yield awaited
                step = self.send
            except BaseException as error:  # noqa: BLE001 - whatever the task raises belongs to the coroutine
                step, value = self.throw, error


def _mark() -> None:
    global _count  # noqa: PLW0603 - the copy has no other place to learn it from
    _count += 1


os.register_at_fork(after_in_child=_mark)
