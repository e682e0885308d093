"""A run of the engine alone: real journal, callers and loop around a solver, scorers and models of the test.

run = EngineRun(tmp_path, EchoModel())
result = run.start(solve, cases("first", "second"))     # opens the journal, as every start of a run does
assert result.statuses == ["ok", "ok"]
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from assay.core.errors import AssayError
from assay.core.events import Event, Noted
from assay.core.protocols import Asker, Context, Model, Scorer, ScorerInput, Solver
from assay.core.roles import CHAT, TEXT
from assay.core.types import ASK, Call, Case, End, Request, Response, Score
from assay.engine.asker import ModelFacts
from assay.engine.caller import Caller, CallLedger
from assay.engine.cases import Cases
from assay.engine.context import RunContext, TryContext
from assay.engine.loop import Loop, LoopSetup
from assay.engine.permits import Permits
from assay.journal.calls import CallReader
from assay.journal.index import RunIndex
from assay.journal.journal import Journal

SEED = 100
STARTED = 1_700_000_000.0
Solve = Callable[[Any, Context], Awaitable[None]]


class EchoModel:
    """A model in this process. It replies `PROMPT!`; subclasses override `reply`."""

    can = frozenset({CHAT, TEXT})
    endpoint = "here"

    def __init__(self) -> None:
        self.prompts: list[str] = []
        self.seeds: list[int] = []

    async def send(self, request: Request, seed: int) -> Response:
        assert request.prompt is not None
        self.prompts.append(request.prompt)
        self.seeds.append(seed)
        return await self.reply(request.prompt)

    async def reply(self, prompt: str) -> Response:
        return Response(f"{prompt}!")

    async def close(self) -> None:
        pass


def request(asker: Asker, prompt: str) -> Request:
    return Request(model=asker.name, endpoint=asker.endpoint, prompt=prompt)


async def ask(ctx: Context, prompt: str, role: str = "main") -> str:
    asker = ctx.model(role)
    return (await asker.ask(request(asker, prompt))).text


async def answer(inputs: str, ctx: Context) -> None:
    """Ask one question and emit the reply: the solver of most tests."""
    ctx.emit("answer", await ask(ctx, inputs))


async def turns() -> None:
    """Let the other tasks go on until all of them wait for something."""
    for _ in range(10):
        await asyncio.sleep(0)


def cases(*inputs: str) -> list[Case]:
    return [case(index, text) for index, text in enumerate(inputs)]


def case(index: int, inputs: str = "?") -> Case:
    return Case(index, f"key {index}", "set", "subject", f"row {index}", inputs)


def bare_context(of: Case) -> TryContext:
    """The context of a case in a run without models and without a journal."""
    return TryContext(of, ASK, 1, RunContext(bind=lambda role, ctx: None, journal=None, seed=SEED, started=STARTED))


def callers(
    models: dict[str, Model], journal: Journal, ledger: CallLedger | None = None, permits: Permits | None = None
) -> dict[str, Caller]:
    ledger = ledger or CallLedger(journal, lambda _: None, None, None)
    permits = permits or Permits(8)
    return {
        role: Caller(facts(f"test/{role}", model), model, permits, ledger, seed=SEED, max_retries=0)
        for role, model in models.items()
    }


def facts(name: str, model: Model) -> ModelFacts:
    """A model of a run under a name, without parameters."""
    return ModelFacts(name, model.endpoint, model.can)


class StartResult(NamedTuple):
    """What a start of a run left: by case, in data order, as the journal has it."""

    error: BaseException | None
    ends: list[End | None]
    answers: list[list[Any]]
    scores: list[list[float | None]]
    unscored: int
    events: list[Event]

    @property
    def statuses(self) -> list[str | None]:
        """How each case ended; None for a case that has not ended."""
        return [end.status if end else None for end in self.ends]

    def end(self, index: int) -> End:
        end = self.ends[index]
        assert end is not None
        return end


class EngineRun:
    """A run folder with the models of the run. `loop` and `journal` are those of the last start."""

    def __init__(self, folder: Path, model: Model | None = None, judge: Model | None = None) -> None:
        self.folder = folder
        self.models: dict[str, Model] = {"main": model or EchoModel(), "judge": judge or EchoModel()}
        self.loop: Loop
        self.journal: Journal

    def start(self, solve: Solve, of: Sequence[Case], **options: Any) -> StartResult:
        """Run the cases that are not done. `options` are those of `_start`. A start that hangs fails its test."""
        return asyncio.run(asyncio.wait_for(self._start(solve, of, **options), 30))

    async def _start(
        self,
        solve: Solve,
        of: Sequence[Case],
        *,
        scorers: Sequence[Scorer] = (),
        open_cases: int = 1,
        max_calls: int | None = None,
        permits: int = 8,
        retry_failed: bool = False,
        asks: bool = True,
        on_workers: bool = False,
        checkpoint: Callable[[ScorerInput], Awaitable[None]] | None = None,
    ) -> StartResult:
        events: list[Event] = []
        ids = [scorer.id for scorer in scorers]
        self.journal = journal = Journal(self.folder, ids, [])
        if on_workers:
            journal.keep_open_calls()
        ledger = CallLedger(journal, events.append, max_calls, None)
        limit = Permits(permits)
        setup = LoopSetup(
            cases=_ListedCases(of),
            solver=_FunctionSolver(solve),
            scorers=scorers,
            journal=journal,
            callers=callers(self.models, journal, ledger, limit),
            permits=limit,
            halt=ledger.halt,
            notify=events.append,
            notice=lambda sentences: events.extend(Noted(each) for each in sentences),
            open_cases=open_cases,
            retry_failed=retry_failed,
            seed=SEED,
            started=STARTED,
            checkpoint=checkpoint,
            asks=asks,
        )
        self.loop = Loop(setup)
        error: BaseException | None = None
        try:
            await self.loop.run()
        except (AssayError, OSError, KeyboardInterrupt) as raised:
            error = raised
        reader = journal.reader
        ended = [reader.ended(each.index) for each in of]
        result = StartResult(
            error,
            [each and each[0] for each in ended],
            [[record.data for record in each[1]] if each else [] for each in ended],
            [[score.value for scorer in ids for score in reader.scores(each.index, scorer)] for each in of],
            self.loop.unscored,
            events,
        )
        journal.close()
        return result

    def calls(self) -> list[Call]:
        """The log, in the order of its lines."""
        return logged_calls(self.folder)


def logged_calls(folder: Path) -> list[Call]:
    """The calls in the log of a run folder, in the order of its lines."""
    reader = CallReader(folder)
    try:
        return [reader.call(offset) for offset in RunIndex.of_run(folder).call_offsets]
    finally:
        reader.close()


class _ListedCases(Cases):
    """The cases of a list, without a suite."""

    def __init__(self, listed: Sequence[Case]) -> None:
        self._listed = listed
        self.total = self.slots = len(listed)

    def load(self, skip: Callable[[int], Any] | None, open_cases: int) -> Iterator[Case]:
        return (each for each in self._listed if skip is None or not skip(each.index))


class _FunctionSolver(Solver):
    def __init__(self, function: Solve) -> None:
        self._function = function

    async def solve(self, inputs: Any, ctx: Context) -> None:
        await self._function(inputs, ctx)


class FunctionScorer(Scorer):
    """A scorer whose one value is computed by an async function of the test."""

    def __init__(self, function: Callable[[ScorerInput, Context], Awaitable[float]], name: str = "scorer@1") -> None:
        self.id = name
        self._function = function

    async def score(self, given: ScorerInput, ctx: Context) -> list[Score]:
        return [Score(*given.case.head, self.id, "metric", value=await self._function(given, ctx))]
