"""Keeps long computations away from the event loop that receives replies.

A reply that has arrived is paid for, but it is lost in a kill until it is in the log. So the loop that reads sockets
and writes calls.jsonl must never wait for a computation. Three tools:

    hits = await run_there(lambda: memory.search(query, k))   # a coroutine of user code, in the loop for user code
    verdict = await compute(lambda: offline.verdict(question))  # a long computation of assay, in a thread
    await turn.give_way()                                     # before each of many short computations

`run_blocking` in runner/loops.py starts the two loops. The run has a thread of its own, and the main thread has the
loop for user code, because only there the watchdog can interrupt a coroutine that blocks (usercode/watchdog.py).
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Coroutine
from contextvars import ContextVar, copy_context
from typing import Any, ParamSpec, TypeVar

from assay.core.threads import DaemonPool

P = ParamSpec("P")
T = TypeVar("T")

user_loop: ContextVar[asyncio.AbstractEventLoop | None] = ContextVar("user_loop", default=None)
"""The loop for coroutines of user code, in another thread. None means the loop of the run."""

# After so many seconds of short computations the loop reads the sockets once. Reading them costs about 20 µs.
_TURN_SECONDS = 0.005
# Python's threads take turns every 5 ms. A reply needs about five turns until it is in the log (a wake-up, a read, a
# write), and with several threads that compute each turn may go to another one. 0.5 ms cost no measurable CPU.
_SWITCH_SECONDS = 0.0005

# One thread: Python computes in one thread at a time.
_THREAD = DaemonPool(1, "assay-compute")


async def run_there(function: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine function in the loop for user code, and return its result.

    The coroutine gets the caller's context variables. Without a loop for user code it runs in the caller's loop.
    """
    _switch_often()
    loop = user_loop.get()
    if loop is None or loop is asyncio.get_running_loop():
        return await function()
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(function(), loop))


def run_here(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Return a function for user code. Wherever it is awaited, `function` runs in the present loop.

    It runs with the present context variables: those of user code would put its tasks under the watchdog.
    """
    if user_loop.get() is None:
        return function
    loop, context = asyncio.get_running_loop(), copy_context()

    async def call(*args: P.args, **kwargs: P.kwargs) -> T:
        future = context.copy().run(asyncio.run_coroutine_threadsafe, function(*args, **kwargs), loop)
        return await asyncio.wrap_future(future)

    return call


async def compute(function: Callable[[], T]) -> T:
    """Run a computation in a thread, one after the other, and return its result. It costs 0.1 ms more than a call."""
    _switch_often()
    return await _THREAD.run(function)


def _switch_often() -> None:
    if sys.getswitchinterval() > _SWITCH_SECONDS:
        sys.setswitchinterval(_SWITCH_SECONDS)


class LoopTurn:
    """Lets the loop read sockets between computations that are short, but many."""

    def __init__(self, seconds: float = _TURN_SECONDS) -> None:
        self._seconds = seconds
        self._began = time.monotonic()

    async def give_way(self) -> None:
        """Return at once, or after other tasks had a turn if the last one is 5 ms ago.

        Tasks that compute side by side share a LoopTurn: after 5 ms all of them wait until the sockets were read.
        """
        if time.monotonic() - self._began > self._seconds:
            await asyncio.sleep(0)
            self._began = time.monotonic()
