"""Examples of fuzz tests: how many, from which seed, and the bounds of each one.

    @fuzzed(40)
    def test_a_reader_survives(random: Random) -> None:
        with bounded():
            read(mutated(random, data))

`make test` plays a fifth of the given number with a fixed seed, so that the same commit has the same result.
`make fuzz` plays FUZZ_EXAMPLES / 250 of it with a new seed, which it prints; FUZZ_SEED plays one again. Failing examples are made small by
Hypothesis, and kept in `.hypothesis`, from where the next `make fuzz` tries them first.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings, strategies as st

from assay.core.errors import AssayError

WHOLE = 250
"""`make fuzz FUZZ_EXAMPLES=250` plays the given number of examples, 2500 ten times as many."""
IN_TEST = 50
EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "0"))
# Hangs only: the slowest example takes half a second, and a busy machine twenty times as long.
HANG_SECONDS = 120.0
# More than any reader needs for a file of a few kilobytes, and far less than a bomb wants.
MEMORY_BYTES = 1 << 30


def fuzzed(examples: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test with a fifth of so many sources of random numbers, or with FUZZ_EXAMPLES by hand."""

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        limited = settings(
            max_examples=max(1, examples * (EXAMPLES or IN_TEST) // WHOLE),
            derandomize=not EXAMPLES,
            database=None if not EXAMPLES else settings().database,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
        )
        return limited(given(random=st.randoms(use_true_random=False))(test))

    return decorate


class _Hang(BaseException):
    """The time is over. Not an Exception, because readers may catch those."""


@contextmanager
def bounded() -> Iterator[None]:
    """Fail if the block hangs or takes much memory. The limit is the kernel's, for this process, and goes with the block."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()

    def stop(*_: Any) -> None:
        raise _Hang

    previous = signal.signal(signal.SIGALRM, stop)
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY_BYTES, hard))
    signal.setitimer(signal.ITIMER_REAL, HANG_SECONDS)
    try:
        yield
    except _Hang as hang:
        raise AssertionError(f"no end within {HANG_SECONDS:.0f} s") from hang
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def pick(random: Random, choices: list[Any], likely: list[Any]) -> Any:
    """Return one of the likely values most of the time."""
    return random.choice(likely if random.random() < 0.75 else choices)


def expect_printable(message: str) -> None:
    """A message has words, and standard output takes them: it writes surrogates of file names, and no others."""
    assert message.strip()
    message.encode(errors="surrogateescape")


def accept(action: Callable[[], object]) -> None:
    """Do it within bounds. Errors of ours are answers, if a terminal can print them."""
    try:
        with bounded():
            action()
    except AssayError as error:
        expect_printable(str(error))


def run_bounded(main: Callable[[], Awaitable[None]]) -> None:
    """Run a coroutine in a loop of its own, within bounds."""

    async def limited() -> None:
        await asyncio.wait_for(main(), HANG_SECONDS)

    with bounded():
        asyncio.run(limited())
