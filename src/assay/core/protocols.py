"""Interfaces between the packages: Model, Asker, Context, Solver and Scorer.

A solver requests replies and emits records, a scorer turns records into scores:

    class EchoSolver(Solver):
        async def solve(self, inputs, ctx):
            asker = ctx.model()
            request = Request(model=asker.name, endpoint=asker.endpoint, prompt=inputs)
            reply = await asker.ask(request)
            ctx.emit("answer", reply.text)
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from assay.core.types import Call, CallTime, Case, End, Record, Request, Response, Score
from assay.core.usage import PurposeUsage

T = TypeVar("T")
R = TypeVar("R")


class Model(Protocol):
    """A connection to a model. `can` lists its abilities, such as `chat`, before the first request."""

    can: frozenset[str]
    endpoint: str

    async def send(self, request: Request, seed: int) -> Response:
        """Send a request once and return the reply. Raises ModelError. The caller does the retries."""
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...


class Asker(Protocol):
    """A model as one case uses it. Calls are logged, replayed, limited and retried."""

    name: str
    endpoint: str
    can: frozenset[str]
    purpose: str
    """What the next calls are made for, such as `build`. Solvers may set it. Empty: not counted in `usage`."""
    usage: dict[str, PurposeUsage]
    """What the calls of this try cost, by purpose. Replies from a log count like new ones."""
    seed: int | None
    """The seed of all requests instead of the run's. None means the run's. Solvers may set it."""
    call_times: list[CallTime] | None
    """A list to which the times of calls are added. None: nobody asks. Solvers may set it."""

    async def call(self, request: Request) -> Call:
        """Return the call as the log has it, with its duration. Raises ModelError if it has no reply."""
        ...

    async def ask(self, request: Request) -> Response:
        """Return the reply. It comes from the log if an earlier start sent the request. Raises ModelError."""
        ...


class Context(Protocol):
    """Everything that a solver or scorer may use: models, random numbers, time, records.

    A case that was interrupted runs again from its start. It must get the same values again, so solvers take
    everything that could differ between tries from here.
    """

    def model(self, role: str = "main") -> Asker:
        """Return the model of this role."""
        ...

    async def base_url(self, role: str = "main") -> str:
        """Return a base URL at which an SDK of another project reaches the model until this try ends.

        Its calls go through the same log, permits and budget.
        """
        ...

    def emit(self, kind: str, data: Any, part: str = "") -> None:
        """Write one record."""
        ...

    async def map(self, function: Callable[[T], Awaitable[R]], items: Iterable[T]) -> list[R]:
        """Call `function` for all items concurrently. Returns the results in the order of the items."""
        ...

    async def passed(self, part: str) -> bool:
        """Return whether the records of this part meet their expectations, which the solver cannot see."""
        ...

    def rng(self, name: str) -> random.Random:
        """Return a random number generator that yields the same numbers in every try of this case."""
        ...

    def now(self) -> float:
        """Return the time of the run's first start, in seconds. It is the same in every try."""
        ...


class Solver(ABC):
    """How one case runs."""

    @abstractmethod
    async def solve(self, inputs: Any, ctx: Context) -> None:
        """Run one case: call models through `ctx` and emit records with `ctx.emit`."""

    async def close(self) -> None:  # noqa: B027 - most solvers start nothing
        """Close the processes, files and ports that the solver opened. Called once, in the solver's event loop."""


class ScorerInput(Struct, frozen=True):
    """The input of a scorer: a case with its gold, how it ended, and its records in order."""

    case: Case
    end: End
    records: list[Record]


class Scorer(ABC):
    """Scores one case. `id` is name@fingerprint: a changed scorer has another id and scores all cases again."""

    id: str

    @property
    def call_stage(self) -> str:
        """The stage name of this scorer's calls in the log. The default is the scorer's id.

        Scorers with the same stage name reuse each other's replies to the same request about the same case. So a
        changed scorer pays only for requests that changed.
        """
        return self.id

    def score_at_once(self, given: ScorerInput) -> list[Score] | None:
        """Return what `score` returns, if that needs neither a model nor time; else None, and `score` is called.

        Scorers that only compute implement it: a context and a coroutine for every case cost more than most of them.
        """
        return None

    @abstractmethod
    async def score(self, given: ScorerInput, ctx: Context) -> list[Score]:
        """Return the scores of one case, in the order of their parts."""
