"""The seams: what the engine asks of suites, solvers, scorers and models. Each is one method wide."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from msgspec import Struct

from assay.core.connect import Role
from assay.core.errors import Problem, StopRun
from assay.core.spec import Options, RunSpec
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


def check_same(case: Case, end: End) -> None:
    """A place is only a hint: what stands there must be the case that was asked."""
    check_key(case.key, end, case.label)


def check_key(key: str, end: End, label: str) -> None:
    """The same by the key alone, where no case is at hand."""
    if key != end.case:
        raise StopRun(f"the data changed while the run went on: {end.set} {label} is another document now")


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


class Reader(Protocol):
    """A run in the order of its data."""

    def end(self, index: int) -> End | None:
        """How the case ended, if it did."""
        ...

    def records(self, index: int) -> list[Record]:
        """The records of the try that ended."""
        ...

    def scores(self, index: int, scorer: str) -> list[Score]:
        """What this scorer said."""
        ...

    def case(self, index: int, scorer: str) -> tuple[End, list[Record], list[Score]] | None:
        """All of a case in one go, once it has ended."""
        ...


class RunFacts(NamedTuple):
    """What a suite's files say about the run besides its content."""

    started: float
    seconds: float
    folder: Path


class Outcome(NamedTuple):
    """What came of a run: every number with its denominator, as JSON, and the files that were written.

    `passed` is the suite's verdict: None where a judge's word is missing to have one. Files in the run's own
    folder are copied to `newest`, together with the run's summary: that folder shows the newest run.
    `notices` are told once, when the run ends.
    """

    results: dict[str, Any]
    files: list[Path]
    passed: bool | None = True
    newest: Path | None = None
    notices: tuple[str, ...] = ()


class Plan(Protocol):
    """A suite bound to a spec: everything resolved, checked and ready."""

    ask: Any
    score: Any
    solver: Solver
    scorers: list[Scorer]
    needs: frozenset[str]
    notices: tuple[str, ...]
    """What a person should know before it runs, and nothing stops."""

    @property
    def roles(self) -> Mapping[str, str | Role]:
        """The models that are asked, by role: `main` for what --model names, `judge` for judges."""
        ...

    def prepare(self, facts: dict[str, Any] | None) -> dict[str, Any]:
        """Look at the data once; a later start hands back what the first one found."""
        ...

    @property
    def total(self) -> int:
        """How many cases there are."""
        ...

    def load(self, skip: Callable[[int], bool]) -> Iterator[Case]:
        """The cases in data order, without those to be skipped."""
        ...

    def finish(self, reader: Reader, facts: RunFacts) -> Outcome:
        """Read the run once, in data order: make its numbers and write the format's own files."""
        ...


class Suite(Protocol):
    """One format: reads its cases, chooses solver and scorers, writes its files."""

    Options: type[Options]

    def plan(self, spec: RunSpec) -> Plan:
        """Resolve and check; raises before anything is written."""
        ...

    def check(self, path: Path) -> list[Problem]:
        """Every problem of one of its files."""
        ...
