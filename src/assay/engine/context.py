"""TryContext: the Context that a solver or scorer gets for one try of one case."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from assay.core.errors import UsageError
from assay.core.types import Case, Failure, Record, Usage
from assay.engine.asker import CaseAsker
from assay.engine.gateway import CaseEndpoint, Gateway
from assay.journal.journal import Journal
from assay.usercode.errors import failure_of

# Records are written in groups of this size. A write per record would cost a system call each.
_GROUP = 64
T = TypeVar("T")
R = TypeVar("R")
Spent = tuple[Usage | None, int, float | None]
"""Tokens, number and price of calls.

The tokens are None if no endpoint reported any. The price is that of calls whose purpose was named; None if none of
them has a price.
"""
NOTHING_SPENT: Spent = (None, 0, None)


class SharedEndpoint(Struct, frozen=True):
    """The endpoint that all cases of a run share, for code that takes its base URL from OPENAI_BASE_URL only.

    With `only_open_case` one case runs at a time, so that all calls at this endpoint belong to that case.
    """

    role: str
    asker: CaseAsker
    endpoint: CaseEndpoint
    only_open_case: bool


PassedFunction = Callable[[Case, Sequence[Record], str], Awaitable[bool]]
"""The type of `Suite.passed`: whether the records of a case meet the expectations of a part."""


class TryContext:
    """The Context of one stage of one try. It writes records in groups; the last group is written with the end.

    Records of a try without an end are never read: the case runs again, with the replies that are in the log.
    """

    def __init__(self, case: Case, stage: str, try_: int, run: RunContext) -> None:
        self.case = case
        self.stage = stage
        self.try_ = try_
        self._run = run
        self._askers: dict[str, CaseAsker] = {}
        self._endpoints: dict[str, CaseEndpoint] = {}  # by role
        self._lent_endpoint: CaseEndpoint | None = None
        self._earlier_failure = run.shared_endpoint.endpoint.failure if run.shared_endpoint else None
        self.written: list[int] = []
        self.pending: list[Record] = []
        self.records: list[Record] = []

    def model(self, role: str = "main") -> CaseAsker:
        """Return the model of this role."""
        asker = self._askers.get(role)
        if asker is None:
            asker = self._run.bind(role, self)
            if asker is None:
                raise UsageError(f"this run has no model for the role {role!r}. Pass one with --model")
            self._askers[role] = asker
        return asker

    async def base_url(self, role: str = "main") -> str:
        """Return a base URL at which an SDK of another project reaches the model until this try ends."""
        asker, gateway = self.model(role), self._run.gateway
        if gateway is None:
            raise UsageError("ctx.base_url() is not available: this run has no gateway for SDKs")
        await gateway.start()
        if role not in self._endpoints:
            self._endpoints[role] = gateway.open_endpoint(role, asker)
        return self._endpoints[role].url

    def lend_shared_endpoint(self) -> None:
        """Log calls at the shared endpoint as calls of this try, if it is the only open case."""
        shared, gateway = self._run.shared_endpoint, self._run.gateway
        if shared and shared.only_open_case and gateway:
            asker = self.model(shared.role)
            self._lent_endpoint = gateway.open_shared_endpoint(shared.role, asker)

    def failure_for(self, error: BaseException) -> Failure:
        """Return the failure that caused a solver's exception.

        An SDK turns a failed call into an exception of its own. So if a call failed at an endpoint of this try, that
        call is the cause. Otherwise the user's code is.
        """
        own = failure_of(error)
        failed_call = self._failed_at_shared_endpoint()
        for endpoint in self._open_endpoints():
            if endpoint.failure is not None:
                failed_call = endpoint.failure
                break
        if failed_call is not None:
            return replace(failed_call, where=own.message, traceback=own.traceback)
        return own

    def _failed_at_shared_endpoint(self) -> Failure | None:
        """Return the last failure at the shared endpoint since this try began.

        The failed call may belong to another case. Then this case runs again without need, which costs little: its
        replies are in the log.
        """
        if self._run.shared_endpoint is None:
            return None
        failure = self._run.shared_endpoint.endpoint.failure
        return None if failure is self._earlier_failure else failure

    def _open_endpoints(self) -> list[CaseEndpoint]:
        lent = [self._lent_endpoint] if self._lent_endpoint is not None else []
        return [*self._endpoints.values(), *lent]

    def close(self) -> None:
        """Close this try's endpoints. Raises the error that stopped the run, even if the case's code swallowed it."""
        for endpoint in self._open_endpoints():
            endpoint.close()
        for asker in self._askers.values():
            if asker.stopped:
                raise asker.stopped
        shared = self._run.shared_endpoint
        if shared and shared.asker.stopped:
            raise shared.asker.stopped

    def emit(self, kind: str, data: Any, part: str = "") -> None:
        """Write one record."""
        case = self.case
        record = Record(case.index, case.key, case.set, case.subject, self.try_, kind, part, data)
        if len(self.pending) >= _GROUP and self._run.journal is not None:
            offsets, records = self._run.journal.write_records(self.pending)
            self.written += offsets
            self.records[-len(records) :] = records
            self.pending = []
        self.pending.append(record)
        self.records.append(record)

    async def map(self, function: Callable[[T], Awaitable[R]], items: Iterable[T]) -> list[R]:
        """Call `function` for all items concurrently and return the results in order.

        If one fails, the others still finish before the error is raised, because their calls are paid for.
        """
        calls = [function(item) for item in items]
        if len(calls) == 1:
            return [await calls[0]]
        results = await asyncio.gather(*calls, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return cast("list[R]", results)

    async def passed(self, part: str) -> bool:
        """Return whether the records that this try emitted for `part` meet their expectations."""
        if self._run.passed is None:
            raise UsageError("ctx.passed() is not available: this suite has no `passed` method.")
        records = self.records if self._run.journal is None else self._run.journal.without_secrets(self.records)
        return await self._run.passed(self.case, records, part)

    def rng(self, name: str) -> random.Random:
        """Return a generator whose numbers depend only on the case, the name and the run's seed."""
        return random.Random(f"{self._run.seed}/{self.case.set}/{self.case.key}/{name}")  # noqa: S311

    def now(self) -> float:
        """Return the time of the run's first start."""
        return self._run.started

    def spent(self) -> Spent:
        """Return what the calls of this stage used, including replayed ones."""
        if not self._askers:
            return NOTHING_SPENT
        calls = input_tokens = output_tokens = 0
        cost: float | None = None
        for asker in self._askers.values():
            calls += asker.calls
            input_tokens += asker.input
            output_tokens += asker.output
            for usage in asker.usage.values():
                if usage.price is not None:
                    cost = (cost or 0.0) + usage.price
        tokens = Usage(input_tokens, output_tokens) if input_tokens or output_tokens else None
        return tokens, calls, cost


class RunContext(Struct, frozen=True):
    """The parts of a context that all tries of a run share."""

    bind: Callable[[str, TryContext], CaseAsker | None]
    """Returns the model of a role for one stage of one try; None if the run has no such role."""
    journal: Journal | None
    """None on a worker of Ray: the driver writes the records."""
    seed: int
    started: float
    gateway: Gateway | None = None
    passed: PassedFunction | None = None
    shared_endpoint: SharedEndpoint | None = None
