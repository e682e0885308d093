"""What happens while a run runs: one stream that progress bars and live views hang on."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from msgspec import Struct

from assay.core.types import Case, End, Failure, Usage


class Started(NamedTuple):
    """The loop begins. `done` cases ended in an earlier start."""

    total: int
    done: int


class Noted(NamedTuple):
    """Something a person should read once, such as a damaged line."""

    text: str


class Called(Struct, frozen=True):
    """A call ended, well or not. `replayed` ones came from the log and cost nothing."""

    usage: Usage | None
    failed: bool
    replayed: bool


class Retrying(NamedTuple):
    """An attempt failed and another will follow after `wait` seconds."""

    failure: Failure
    wait: float


class Ended(Struct, frozen=True):
    """A case was asked and is committed."""

    case: Case
    end: End


class Stopping(NamedTuple):
    """No further case is taken."""

    reason: str


class Finished(NamedTuple):
    """The loop is over."""


Event = Started | Noted | Called | Retrying | Ended | Stopping | Finished
Notify = Callable[[Event], None]
