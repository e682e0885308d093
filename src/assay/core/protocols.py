"""The seams between packages: models, what a case may use, solvers and scorers. Each is a method or two wide."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, NamedTuple, Protocol, TypeVar

from msgspec import Struct

from assay.core.types import Call, Case, End, Record, Request, Response, Score

T = TypeVar("T")
R = TypeVar("R")


class Model(Protocol):
    """A provider's connection. `can` says what it is able to do before the first request."""

    can: frozenset[str]
    endpoint: str

    async def send(self, request: Request, seed: int) -> Response:
        """One attempt. Raises ModelError; never retries by itself."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


class Upstream(NamedTuple):
    """A model of the run under the name the user gave it, such as openai/gpt-4o-mini."""

    name: str
    model: Model


class Asker(Protocol):
    """A model as one case sees it: logged, replayed, limited, retried. Requests carry its name."""

    name: str
    endpoint: str
    can: frozenset[str]

    async def call(self, request: Request) -> Call:
        """The call as it stands in the log, with its seconds; raises ModelError where it has no reply."""
        ...

    async def ask(self, request: Request) -> Response:
        """The reply, from the log where it was asked before."""
        ...


class Context(Protocol):
    """What a solver or scorer may use. Everything that could differ between tries comes from here."""

    def model(self, role: str = "main") -> Asker:
        """The model that plays this role."""
        ...

    async def base_url(self, role: str = "main") -> str:
        """Where a foreign SDK reaches that model while this try is open; the same log, permits and budget."""
        ...

    def emit(self, kind: str, data: Any, part: str = "") -> None:
        """Write one record."""
        ...

    async def map(self, function: Callable[[T], Awaitable[R]], items: Iterable[T]) -> list[R]:
        """`function` of all items side by side, results in order of items."""
        ...

    async def passed(self, part: str) -> bool:
        """Whether what was emitted under this part meets its expectations, which no solver sees."""
        ...

    def rng(self, name: str) -> random.Random:
        """A stream of random numbers that is the same in every try of this case."""
        ...

    def now(self) -> float:
        """The run's first start, in seconds: the same in every try."""
        ...


class Solver(ABC):
    """How one case runs."""

    @abstractmethod
    async def solve(self, inputs: Any, ctx: Context) -> None:
        """Ask, and emit records. A coroutine that emits, never a generator."""

    async def close(self) -> None:  # noqa: B027 - most solvers start nothing
        """Let go of processes, files and ports that the solver opened. Called once, where the solver runs."""


class View(Struct, frozen=True):
    """What a scorer sees: a case with its gold, how it ended, and its records in order."""

    case: Case
    end: End
    records: list[Record]


class Scorer(ABC):
    """Judges one case. `id` is name@fingerprint, so that a changed scorer scores anew."""

    id: str

    @property
    def call_stage(self) -> str:
        """The name under which this scorer's calls are logged.

        Scorers that share it share replies to the same request about the same case: one that scores anew pays only
        for what it asks otherwise.
        """
        return self.id

    @abstractmethod
    async def score(self, view: View, ctx: Context) -> list[Score]:
        """The scores, in order of their parts."""
