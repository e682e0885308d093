"""Daemon threads for blocking functions, and what happens to those that nobody waits for."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from assay.core.threads import DaemonPool

from support.commands import environment


async def left_hanging(pool: DaemonPool, gate: threading.Event) -> None:
    """A function that has begun, and that nobody waits for any more."""
    begun = threading.Event()

    def hang() -> None:
        begun.set()
        gate.wait(30)

    task = asyncio.ensure_future(pool.run(hang))
    await DaemonPool(1, "watch").run(begun.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def meet(pool: DaemonPool, width: int) -> int:
    """Functions that end only if `width` of them run at once; how many did."""
    barrier = threading.Barrier(width)
    return len(await asyncio.gather(*(pool.run(lambda: barrier.wait(20)) for _ in range(width))))


def test_results_and_exceptions_come_back() -> None:
    """Whatever kind of exception it is."""

    def leave() -> None:
        raise SystemExit(3)

    async def main() -> None:
        pool = DaemonPool(1, "t")
        assert await pool.run(lambda: 7) == 7
        with pytest.raises(ZeroDivisionError):
            await pool.run(lambda: 1 // 0)
        with pytest.raises(SystemExit):
            await pool.run(leave)
        assert await pool.run(lambda: 8) == 8

    asyncio.run(main())


def test_the_size_is_reached_and_never_passed() -> None:
    """As many as the size run at once; more wait for a thread."""
    running, most, lock = 0, 0, threading.Lock()
    barrier = threading.Barrier(3)

    def work() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        barrier.wait(20)
        with lock:
            running -= 1

    async def main() -> None:
        pool = DaemonPool(3, "t")
        await asyncio.gather(*(pool.run(work) for _ in range(12)))
        assert pool._threads == 3

    asyncio.run(main())
    assert most == 3


def test_one_thread_serves_functions_that_come_one_by_one() -> None:
    """A thread is started only where none is free."""

    async def main() -> None:
        pool = DaemonPool(8, "t")
        for _ in range(50):
            await pool.run(lambda: None)
        assert pool._started == 1

    asyncio.run(main())


def test_hung_functions_leave_the_pool_its_full_width() -> None:
    """As often as it happens; the threads end when their functions do."""
    gate = threading.Event()

    async def main() -> None:
        pool = DaemonPool(3, "hung", replaces=True)
        for _ in range(5):
            await left_hanging(pool, gate)
        assert await meet(pool, 3) == 3
        before = named("hung")
        assert len(before) == 8
        pool_threads = before[5:]
        gate.set()
        for thread in before:
            if thread not in pool_threads:
                thread.join(20)
        assert await meet(pool, 3) == 3
        assert len(named("hung")) == 3

    asyncio.run(main())


def named(prefix: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith(f"{prefix}-")]


def test_waiting_jobs_get_a_new_thread_in_place_of_one_that_hangs() -> None:
    """A queue behind it moves on as soon as it is given up."""
    gate = threading.Event()

    async def main() -> None:
        pool = DaemonPool(1, "t", replaces=True)
        hung = asyncio.ensure_future(pool.run(lambda: gate.wait(30)))
        waiting = asyncio.ensure_future(pool.run(lambda: 5))
        await asyncio.sleep(0.01)
        hung.cancel()
        assert await asyncio.wait_for(waiting, 20) == 5

    asyncio.run(main())
    gate.set()


def test_without_replacement_a_hung_function_keeps_its_place() -> None:
    """What uses a pool to protect something from many threads can rely on its size."""
    gate = threading.Event()

    async def main() -> None:
        pool = DaemonPool(1, "kept")
        await left_hanging(pool, gate)
        waiting = asyncio.ensure_future(pool.run(lambda: 5))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        gate.set()
        assert await asyncio.wait_for(waiting, 20) == 5
        assert len(named("kept")) == 1

    asyncio.run(main())


@pytest.mark.parametrize("replaces", [False, True])
def test_a_job_abandoned_before_its_start_never_runs(replaces: bool) -> None:
    """And it takes no thread."""
    gate, ran = threading.Event(), list[int]()

    async def main() -> None:
        pool = DaemonPool(1, "t", replaces=replaces)
        first = asyncio.ensure_future(pool.run(lambda: gate.wait(30)))
        later = [asyncio.ensure_future(pool.run(appended(ran, at))) for at in range(3)]
        await asyncio.sleep(0.01)
        later[1].cancel()
        await asyncio.sleep(0)
        gate.set()
        await first
        await asyncio.gather(*later, return_exceptions=True)
        assert await pool.run(lambda: 1) == 1
        assert (pool._open, pool._threads, pool._started) == (0, 1, 1)

    asyncio.run(main())
    assert ran == [0, 2]


def appended(numbers: list[int], number: int) -> Callable[[], None]:
    return lambda: numbers.append(number)


def test_a_forked_process_starts_threads_of_its_own() -> None:
    """Its pools do not wait for threads that only its parent has, nor for a lock that one of them held."""
    program = """if True:
        import asyncio, os, signal, threading
        from assay.language.patterns import call_without_blocking, compile_pattern
        from assay.core.threads import DaemonPool
        from assay.usercode.loop import compute

        pool, gate = DaemonPool(2, "t"), threading.Event()
        async def use():
            text = "a" * 20_000
            return [await pool.run(lambda: 1), await compute(lambda: 2), await call_without_blocking(compile_pattern("a+").findall, text)]
        async def main():
            waiting = [asyncio.ensure_future(pool.run(gate.wait)) for _ in range(3)]
            await asyncio.sleep(0)
            child = os.fork()
            if not child:
                asyncio._set_running_loop(None)
                signal.alarm(20)
                os._exit(asyncio.run(use()) != [1, 2, ["a" * 20_000]])
            gate.set()
            await asyncio.gather(*waiting)
            return os.waitpid(child, 0)[1]
        asyncio.run(use())
        raise SystemExit(asyncio.run(main()))
    """
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
