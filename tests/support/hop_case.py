"""A run with a run side and a verify side, whose one case is a function of the test: real askers and a real log."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from assay.core.errors import AssayError, ModelError
from assay.core.protocols import Context, Model
from assay.core.roles import CHAT
from assay.core.threads import DaemonPool
from assay.core.types import Failure, Request, Response
from assay.engine.asker import ModelFacts
from assay.engine.caller import Caller, CallLedger
from assay.engine.gateway import Gateway
from assay.engine.loop import Loop, LoopSetup
from assay.engine.permits import Permits
from assay.journal.journal import Journal
from assay.suites.hop.result import HopResult
from assay.suites.hop.session import ModelSide, Session
from assay.suites.hop.solver import call_function

from support.gateway_run import Plan

T = TypeVar("T")
Answer = str | Failure
AGREES = '{"verdict": "OK", "reason": "it holds"}'
RUN, VERIFY = ModelSide("run", {"temperature": 0.1}), ModelSide("verify", {"temperature": 0})


class Telling:
    """A model that tells its answers in the order it is asked; the last one again and again."""

    can = frozenset({CHAT})

    def __init__(self, *answers: Answer) -> None:
        self.endpoint = "here"
        self.answers = answers
        self.asked: list[Request] = []

    async def send(self, request: Request, seed: int) -> Response:
        self.asked.append(request)
        return self.answer(self.answers[min(len(self.asked), len(self.answers)) - 1])

    def answer(self, answer: Answer) -> Response:
        if isinstance(answer, Failure):
            raise ModelError(answer)
        return Response(answer)

    async def close(self) -> None:
        pass

    def said(self, at: int) -> str:
        """The user's part of the at-th question."""
        messages = self.asked[at].messages
        assert messages is not None
        return str(messages[-1]["content"])


class HopCase:
    """One start: `work` is the case's solver, and what it returns or raises comes out."""

    def __init__(self, folder: Path, run: Model, verify: Model | None = None) -> None:
        self.folder = folder
        self.models = {"run": run, "verify": verify or Telling(AGREES)}
        self.stopped: AssayError | None = None

    async def start(self, work: Callable[[Context], Awaitable[T]], max_calls: int | None = None) -> T:
        told: list[Any] = []

        async def solve(_: Any, ctx: Context) -> None:
            try:
                told.append((await work(ctx), None))
            except Exception as error:
                told.append((None, error))
                raise

        self.folder.mkdir(exist_ok=True)
        journal = Journal(self.folder, [], [])
        permits, ledger = Permits(8), CallLedger(journal, lambda _: None, max_calls, None)
        facts = {role: ModelFacts(f"test/{role}", model.endpoint, model.can) for role, model in self.models.items()}
        callers = {
            role: Caller(facts[role], model, permits, ledger, seed=1, max_retries=0)
            for role, model in self.models.items()
        }
        gateway = Gateway(facts)
        plan: Any = Plan(solve, 1)
        setup = LoopSetup(
            cases=plan,
            solver=plan,
            scorers=[],
            journal=journal,
            callers=callers,
            permits=permits,
            halt=ledger.halt,
            notify=lambda _: None,
            notice=lambda _: None,
            open_cases=1,
            retry_failed=False,
            seed=1,
            started=0.0,
            gateway=gateway,
        )
        try:
            await Loop(setup).run()
        except AssayError as error:
            self.stopped = error
        finally:
            await gateway.close()
            journal.close()
        value, raised = told[0]
        if raised is not None:
            raise raised
        return value  # type: ignore[no-any-return]

    def calls(self) -> list[dict[str, Any]]:
        lines = (self.folder / "calls.jsonl").read_text().split("\n")[1:-1]
        return [json.loads(line) for line in lines]

    def session(self, work: Callable[[Session], Awaitable[T]], hop_retry: int = 3) -> T:
        """What `work` makes of an async session."""

        async def solve(ctx: Context) -> T:
            return await work(Session(ctx, RUN, VERIFY, hop_retry))

        return asyncio.run(self.start(solve))

    def call(
        self, function: Callable[..., Any], fields: dict[str, Any] | None = None, timeout: float | None = 20
    ) -> tuple[HopResult, Session]:
        """What a function under test returns, and the sessions it was given."""

        async def solve(ctx: Context) -> tuple[HopResult, Session]:
            sessions = Session(ctx, RUN, VERIFY)
            pool = DaemonPool(4, "test", replaces=True)
            return await call_function(function, sessions, fields or {}, pool, timeout), sessions

        return asyncio.run(self.start(solve))


def result(value: Any) -> str:
    """A reply that has a result."""
    return json.dumps({"result": value})
