"""Runs a run to its end for a caller that waits: in an event loop of its own, and where needed in a thread of its own.

    run = run_blocking(lambda: open_run(spec, observers))

A suite that computes (`Suite.computes`) has two loops: the run's own in a thread, and one for coroutines of user code
in the main thread. usercode/loop.py says why.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Any, cast

from assay.runner.results import Run
from assay.runner.runner import Runner
from assay.runner.signal_wakeup import SignalWakeup
from assay.usercode.loop import user_loop
from assay.usercode.user_function import hide_task
from assay.usercode.watchdog import end_step

# How often a thread that waits for a run looks whether its own task was cancelled.
_POLL_SECONDS = 0.1
# A run that does not end so many seconds after the second Ctrl-C is left alone.
_LAST_SECONDS = 1.0


def run_blocking(open_runner: Callable[[], Runner], *, computes: bool = False) -> Run:
    """Open a run, run it in an event loop of its own, and wait for it. Ctrl-C and SIGTERM stop it kindly.

    Where this thread has a running loop already, as in a notebook, the run gets a thread with a loop of its own. So it
    does with `computes` (`Suite.computes`): this thread then runs the coroutines of user code.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass  # the run starts below: started here, every traceback of the run would begin with this error
    else:
        return _RunThread(open_runner).wait()
    with asyncio.Runner(loop_factory=_new_event_loop) as loop:
        if computes:
            return loop.run(_RunThread(open_runner).wait_beside_user_code())
        return loop.run(_open_and_run(open_runner, signals=True))


async def _open_and_run(open_runner: Callable[[], Runner], *, signals: bool) -> Run:
    """Open a run and run it. Models may need the running loop, so the run is opened inside it."""
    hide_task(asyncio.current_task())
    return await open_runner().start_or_show(signals=signals)


class _RunThread:
    """A run in a thread of its own, for callers whose event loop waits for them or runs user code."""

    def __init__(self, open_runner: Callable[[], Runner]) -> None:
        self._open_runner = open_runner
        self._runner: Runner | None = None
        self._loop = _new_event_loop()
        self._run: Run | None = None
        self._error: BaseException | None = None
        self._user_loop: asyncio.AbstractEventLoop | None = None
        # Thread.join and is_alive cannot be used to wait: a KeyboardInterrupt in join makes Python 3.11 and 3.12
        # take a running thread for ended.
        self._ended = threading.Event()
        self._on_end: Callable[[], object] = lambda: None
        self._left = threading.Event()
        self._requests = 0
        work = partial(copy_context().run, self._work)  # a thread has no context variables of its own
        self._thread = threading.Thread(target=work, name="assay-run", daemon=True)

    async def wait_beside_user_code(self) -> Run:
        """Wait in the main thread's loop, which runs the coroutines of user code meanwhile.

        Ctrl-C and SIGTERM stop the run kindly, a second one stops it at once.
        """
        loop = asyncio.get_running_loop()
        ended = loop.create_future()

        def end(error: BaseException | None) -> None:
            if not ended.done():
                ended.set_exception(error) if error else ended.set_result(None)

        def stop(*_: object) -> None:
            self._requests += 1
            if self._ended.is_set():
                end_step()
                return
            with suppress(RuntimeError):  # the loop is closed: the run ended in this moment
                self._loop.call_soon_threadsafe(self._interrupt)
            if self._requests > 1:
                # The run does not listen while it reads or writes large files. Its thread ends with the process.
                loop.call_soon_threadsafe(loop.call_later, _LAST_SECONDS, end, KeyboardInterrupt("interrupted"))

        self._on_end = lambda: loop.call_soon_threadsafe(end, None)
        self._user_loop = loop
        # Handlers of Python, not of the loop: they run while a coroutine of user code blocks this thread.
        before: dict[signal.Signals, Any] = {}
        with suppress(ValueError):  # this is not the main thread
            for number in (signal.SIGINT, signal.SIGTERM):
                before[number] = signal.signal(number, stop)
        try:
            with SignalWakeup():
                self._thread.start()
                await ended
        finally:
            self._left.set()
            for number, handler in before.items():
                signal.signal(number, handler)
        return self._result()

    def wait(self) -> Run:
        """Start the run and wait for it. Ctrl-C in this thread stops it kindly; a second one stops it at once.

        Ctrl-C raises KeyboardInterrupt here, or cancels the caller's task: `asyncio.run` has a handler that does that.
        """
        self._thread.start()
        caller = asyncio.current_task()
        requests = 0
        while not self._ended.is_set():
            try:
                self._ended.wait(_POLL_SECONDS)
                if caller is None or caller.cancelling() <= requests:
                    continue
                requests = caller.cancelling()
            except KeyboardInterrupt:
                pass
            with suppress(RuntimeError):  # the loop is closed: the run ended in this moment
                self._loop.call_soon_threadsafe(self._interrupt)
        return self._result()

    def _result(self) -> Run:
        if self._error is not None:
            raise self._error
        assert self._run is not None
        return self._run

    def _open(self) -> Runner:
        self._runner = self._open_runner()
        return self._runner

    def _interrupt(self) -> None:
        if self._runner is not None:
            self._runner.interrupt()

    def _work(self) -> None:
        user_loop.set(self._user_loop)
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as loop:
                self._run = loop.run(_open_and_run(self._open, signals=False))
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            self._error = error
        finally:
            self._ended.set()
            with suppress(RuntimeError):  # the waiting loop is closed: two Ctrl-C have ended the wait before the run
                self._on_end()
            # After Ctrl-C, a coroutine of user code that blocks the main thread must not keep the process alive.
            while self._requests and self._user_loop and not self._left.wait(_LAST_SECONDS):
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def _new_event_loop() -> asyncio.AbstractEventLoop:
    """An event loop of uvloop where it is installed, else Python's own. Code of a case cannot stop it."""
    try:
        import uvloop
    except ImportError:
        kind: type[Any] = asyncio.SelectorEventLoop
    else:
        kind = uvloop.Loop

    class RunEventLoop(kind):  # type: ignore[misc]
        """The event loop of a run."""

        def stop(self) -> None:
            """Stop the loop, as asyncio does at the end. A task that calls it is code of a case."""
            if asyncio.current_task(self) is not None:
                raise RuntimeError("code of a case cannot stop the event loop of the run")
            super().stop()

    return cast("asyncio.AbstractEventLoop", RunEventLoop())
