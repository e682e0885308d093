"""The one place where money is spent: log, replay, permits, retries and metering around any model."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Callable
from typing import Protocol

from assay.core.connect import LIKELIHOOD
from assay.core.errors import AssayError, ModelError, ModelRefused, StopRun
from assay.core.events import Called, Notify, Retrying
from assay.core.hashing import request_hash
from assay.core.protocols import Upstream
from assay.core.types import COMMON, NO_CASE, Call, Case, Failure, Request, Response
from assay.models.calling.permits import Permits

Reuse = Callable[[Case, str, str, int], Call | None]
"""The complete call of another run for (case, stage, hash, n)."""

_FIRST_WAIT = 0.5
_LONGEST_WAIT = 30.0
_REFUSALS = frozenset({"auth", "not_found"})
_NEVER = "unsupported"
"""The kind of a failure that every call of its sort would meet, whatever was answered before."""


class Replies(Protocol):
    """What was told before; a plain dict will do."""

    def get(self, key: tuple[str, str, int], /) -> Call | None:
        """The call of (stage, hash, n)."""
        ...


class CallLog(Protocol):
    """Where calls are written before anybody hears of them."""

    def call(self, call: Call) -> None:
        """Append one call."""
        ...


class CallLedger:
    """What all callers of a run share: the log, the budget, and the word to stop."""

    def __init__(self, log: CallLog, notify: Notify, max_calls: int | None, reuse: Reuse | None) -> None:
        self.log = log
        self.notify = notify
        self.reuse = reuse
        self.halted: AssayError | None = None
        self._halting = asyncio.Event()
        self._left = max_calls
        self._most = max_calls
        self._counts = dict.fromkeys(
            ("paid", "replayed", "failed", "retries", "input_tokens", "output_tokens"), 0
        )

    def counts(self) -> dict[str, int]:
        """What this start has paid for."""
        return dict(self._counts)

    def meter(self, call: Call, *, replayed: bool) -> None:
        """Count one call that ended; replayed ones cost nothing."""
        usage = call.response.usage if call.response else None
        counts = self._counts
        counts["replayed" if replayed else "paid"] += 1
        if call.response is None:
            counts["failed"] += 1
        if usage and not replayed:
            counts["input_tokens"] += usage.input
            counts["output_tokens"] += usage.output
        self.notify(Called(usage, call.response is None, replayed))

    def retrying(self, failure: Failure, wait: float) -> None:
        """Count an attempt that will be followed by another."""
        self._counts["retries"] += 1
        self.notify(Retrying(failure, wait))

    def halt(self, reason: AssayError) -> AssayError:
        """No call may be made any more; the first reason stands."""
        self.halted = self.halted or reason
        self._halting.set()
        return self.halted

    async def pause(self, seconds: float) -> None:
        """Sleep; the word to stop ends it, and is raised."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._halting.wait(), seconds)
        if self.halted:
            raise self.halted

    def write(self, call: Call) -> None:
        """Log one call. What cannot be logged must not be paid: no further call is made."""
        try:
            self.log.call(call)
        except AssayError as error:
            raise self.halt(error) from error

    def admit(self, attempt: int) -> None:
        """Let one attempt go out now. A call is taken from the budget with its first one."""
        if self.halted:
            raise self.halted
        if self._left is not None and attempt == 1:
            if self._left == 0:
                raise self.halt(StopRun(f"stopped after {self._most} calls, as --max-calls says"))
            self._left -= 1


class Caller:
    """All calls of a run to one model."""

    def __init__(
        self, upstream: Upstream, permits: Permits, ledger: CallLedger, *, seed: int, max_retries: int
    ) -> None:
        self.name, self.model = upstream
        self.permits = permits
        self.ledger = ledger
        self._seed = seed
        self._max_retries = max_retries
        self._answered = 0

    def bind(self, case: Case, stage: str, try_: int, replies: Replies) -> CaseAsker:
        """The model as one try of one case sees it."""
        return CaseAsker(self, case, stage, try_, replies)

    def bind_shared(self, replies: Replies) -> CaseAsker:
        """The model as all cases see it at their common address: equal requests count over the whole run."""
        return CaseAsker(self, Case(NO_CASE, "", "", "", "", None), COMMON, 1, replies)

    async def pay(self, request: Request, n: int, order: int) -> tuple[Response, int, float]:
        """Ask the endpoint; the reply, the number of attempts and the seconds of the last one."""
        self._refuse_what_it_cannot(request)
        answered_before = self._answered
        attempt = 0
        while True:
            attempt += 1
            await self.permits.acquire(order)
            started = time.perf_counter()
            try:
                response = await self._attempt(request, n, attempt)
                return response, attempt, time.perf_counter() - started
            except ModelError as error:
                if not error.retry or attempt > self._max_retries:
                    error.attempts, error.seconds = attempt, time.perf_counter() - started
                    self._look_beyond(error.failure, answered_before)
                    raise
                await self._wait(error, attempt)

    def _refuse_what_it_cannot(self, request: Request) -> None:
        """Runs are refused before their first request; code that asks on its own is told here."""
        if request.continuation is not None and LIKELIHOOD not in self.model.can:
            raise ModelError(Failure("rejected", f"{request.model} cannot do {LIKELIHOOD}"))

    async def _attempt(self, request: Request, n: int, attempt: int) -> Response:
        """With a permit, which is given back."""
        try:
            self.ledger.admit(attempt)
            response = await self.model.send(request, self._seed + n)
        except ModelError as error:
            if error.failure.kind == "rate_limited":
                self.permits.overloaded()
            raise
        except AssayError:
            raise
        except Exception as error:
            # A provider that stumbles over a reply: no fault of what is evaluated.
            failure = Failure("bad_reply", f"the provider raised {type(error).__name__}: {error}")
            raise ModelError(failure, retry=True) from error
        finally:
            self.permits.release()
        self._answered += 1
        self.permits.succeeded()
        return response

    def _look_beyond(self, failure: Failure, answered_before: int) -> None:
        """Some failures concern every call to come, not just this one."""
        if failure.kind == _NEVER or (failure.kind in _REFUSALS and not self._answered):
            raise self.ledger.halt(ModelRefused(failure.message))
        if failure.kind == "unreachable" and self._answered == answered_before:
            raise self.ledger.halt(StopRun(failure.message))

    async def _wait(self, error: ModelError, attempt: int) -> None:
        wait = min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** (attempt - 1)) * random.uniform(0.5, 1.0)  # noqa: S311
        if error.wait is not None:
            wait = error.wait * random.uniform(1.0, 1.1)  # noqa: S311
        self.ledger.retrying(error.failure, wait)
        await self.ledger.pause(wait)


class CaseAsker:
    """Asks for one try of one case: replay first, then reuse, then the endpoint.

    Equal requests are told apart by the order they are issued in, so calls may run side by side.
    """

    __slots__ = (
        "_caller",
        "_case",
        "_counts",
        "_replies",
        "_stage",
        "_try",
        "calls",
        "can",
        "endpoint",
        "input",
        "name",
        "output",
        "stopped",
    )

    def __init__(self, caller: Caller, case: Case, stage: str, try_: int, replies: Replies) -> None:
        self.name = caller.name
        self.endpoint = caller.model.endpoint
        self.can = caller.model.can
        self._caller = caller
        self._case = case
        self._stage = stage
        self._try = try_
        self._replies = replies
        self._counts: dict[str, int] = {}
        self.calls = 0
        self.input = 0
        self.output = 0
        self.stopped: AssayError | None = None

    async def ask(self, request: Request) -> Response:
        """The reply to this request; raises ModelError where there is none."""
        response = (await self.call(request)).response
        assert response is not None
        return response

    async def call(self, request: Request) -> Call:
        """The call as it stands in the log; raises ModelError where it has no reply."""
        name = request_hash(request)
        n = self._counts.get(name, 0)
        self._counts[name] = n + 1
        self.calls += 1
        if self._replies and (earlier := self._replies.get((self._stage, name, n))):
            return self._told(earlier, replayed=True)
        try:
            call, replayed = await self._new_call(request, name, n)
        except AssayError as error:
            self.stopped = error  # the code of the case may swallow it: whoever commits the case looks here
            raise
        return self._told(call, replayed=replayed)

    async def _new_call(self, request: Request, name: str, n: int) -> tuple[Call, bool]:
        """A call that this run has not made yet, logged; and whether another run had paid for it."""
        ledger, case = self._caller.ledger, self._case
        response: Response | None = None
        failure: Failure | None = None
        attempts, seconds = 0, 0.0
        other = ledger.reuse(case, self._stage, name, n) if ledger.reuse else None
        if other is not None:
            response, seconds = other.response, other.seconds  # no attempt: nothing is paid
        else:
            try:
                response, attempts, seconds = await self._caller.pay(request, n, case.index)
            except ModelError as error:
                failure, attempts, seconds = error.failure, error.attempts, error.seconds
        call = Call(
            *case.head,
            self._stage,
            self._try,
            name,
            n,
            request if n == 0 else None,
            response,
            failure,
            attempts,
            round(seconds, 6),
        )
        ledger.write(call)
        return call, other is not None

    def _told(self, call: Call, *, replayed: bool) -> Call:
        response = call.response
        if response is not None and response.usage:
            self.input += response.usage.input
            self.output += response.usage.output
        self._caller.ledger.meter(call, replayed=replayed)
        if response is None:
            assert call.failure
            raise ModelError(call.failure)
        return call
