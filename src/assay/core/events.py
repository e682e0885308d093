"""Events of a run, for progress bars and other observers. An observer is a function of an Event."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from assay.core.types import Case, End, Failure, Usage

if TYPE_CHECKING:
    import asyncio


class Started(Struct, frozen=True):
    """The run starts. Earlier starts finished `done` of its `total` cases."""

    total: int
    done: int


class Noted(Struct, frozen=True):
    """A sentence to print, such as a warning about a damaged line."""

    text: str


class Called(Struct, frozen=True):
    """A call ended, with a reply or a failure. A `replayed` call came from the log and cost nothing."""

    usage: Usage | None
    failed: bool
    replayed: bool
    cost: float | None = None
    """In US dollars. None if the price is not known."""


class Retrying(Struct, frozen=True):
    """An attempt failed. The next one follows after `wait` seconds."""

    failure: Failure
    wait: float


class Waiting(NamedTuple):
    """Sent every second, however little happens.

    `calls` are in flight, `paused` wait before their next attempt, and `seconds` have passed since a call ended last.
    """

    calls: int
    paused: int
    seconds: float


class Computing(NamedTuple):
    """Sent a few times a second while models inside this process compute replies that are not complete yet.

    `read` of the `prompt` tokens of these calls are read, `written` tokens of their replies are there, and
    `per_second` more are written each second.
    """

    read: int
    prompt: int
    written: int
    per_second: float


class Ended(Struct, frozen=True):
    """A case has run, and its end is in the journal. Its scores may still be missing."""

    case: Case
    end: End


class Stopping(Struct, frozen=True):
    """The run stops early: open cases may finish, no further case starts."""

    reason: str


class Finished(Struct, frozen=True):
    """All cases are done, or the run has stopped."""


Event = Started | Noted | Called | Retrying | Waiting | Computing | Ended | Stopping | Finished
Notify = Callable[[Event], None]

OnRead = Callable[[Path, float], object]
on_read: ContextVar[OnRead | None] = ContextVar("on_read", default=None)
"""Called while the index of a run is built, with the run folder and the share of its bytes that were read.

The first reading of a run of a million cases takes half a minute. A command or a page tells people, whichever function
they called.
"""

on_slow: ContextVar[Callable[[str], object] | None] = ContextVar("on_slow", default=None)
"""Called with a sentence about work before the first request that takes long, such as a search for data files. Set by
the command line, unless `--quiet` is set."""

# Reading data in less time than this needs no word.
_SLOW_SECONDS = 5.0
_MOST_SECONDS_BETWEEN = 60.0


@contextmanager
def tell_if_slow(sentence: Callable[[], str], seconds: float = _SLOW_SECONDS) -> Iterator[None]:
    """Tell people what takes so long, after some seconds and then ever less often, as long as the block runs."""
    tell = on_slow.get()
    if tell is None:
        yield
        return
    is_over = threading.Event()

    def watch() -> None:
        pause = seconds
        while not is_over.wait(pause):
            tell(sentence())
            pause = min(2 * pause, _MOST_SECONDS_BETWEEN)

    threading.Thread(target=watch, name="assay-slow", daemon=True).start()
    try:
        yield
    finally:
        is_over.set()


notify: ContextVar[Notify | None] = ContextVar("notify", default=None)
"""The observers of the run that is in progress, for code that has no other way to them, such as a provider that waits
for a server it started. Set by the runner; the tasks of the run inherit it."""

halt: ContextVar[asyncio.Event | None] = ContextVar("halt", default=None)
"""Set when the run that is in progress stops, for code that waits long for something that costs nothing, such as the
start of a server. Set by the runner, like `notify`."""


@contextmanager
def observed(observers: Sequence[Notify]) -> Iterator[None]:
    """Let `notice` reach these observers while the block runs, for code before the run, such as a connecting model."""

    def tell(event: Event) -> None:
        for observer in observers:
            observer(event)

    token = notify.set(tell)
    try:
        yield
    finally:
        notify.reset(token)


def notice(text: str) -> None:
    """Print a sentence in the progress of the run that is in progress, if there is one."""
    observer = notify.get()
    if observer is not None:
        observer(Noted(text))
