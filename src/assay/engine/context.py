"""What one try of one case may use."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from assay.core.errors import AssayError, UsageError
from assay.core.protocols import Asker
from assay.core.types import Call, Case, Failure, Record, Usage
from assay.core.user_code import failure_of

# Key of the shared endpoint in TryContext._endpoints. The other keys are names of roles, in lower case.
_SHARED = "OPENAI_BASE_URL"
_GROUP = 64
"""Records that are written at once."""
T = TypeVar("T")
R = TypeVar("R")


class Metered(Asker, Protocol):
    """An asker that counts what this try was told."""

    calls: int
    input: int
    output: int
    stopped: AssayError | None
    """The word to stop, if this try was told it: such a try may not end."""


class Binder(Protocol):
    """A model of the run, from which each try gets its own asker."""

    def bind(
        self, case: Case, stage: str, try_: int, replies: Mapping[tuple[str, str, int], Call]
    ) -> Metered:
        """The asker of one try."""
        ...


class SdkEndpoint(Protocol):
    """A base URL for foreign SDKs. `failure` is the last failed call there; foreign code may swallow it."""

    url: str
    failure: Failure | None

    def close(self) -> None:
        """Stop answering and cancel the calls in flight."""
        ...


class SdkGateway(Protocol):
    """Opens endpoints for foreign SDKs. Listens after the first `start`."""

    async def start(self) -> None:
        """Listen. Further calls do nothing."""
        ...

    def open_endpoint(self, role: str, asker: Asker) -> SdkEndpoint:
        """Open an endpoint whose requests this asker answers."""
        ...

    def open_shared_endpoint(self, role: str, asker: Asker) -> SdkEndpoint:
        """Let this asker answer at the run's shared endpoint until the result is closed."""
        ...


class SharedEndpoint(Struct, frozen=True):
    """The endpoint that all cases of a run share, for code that cannot be given a base URL.

    With `only_open_case` one case is open at a time, so that calls at this endpoint belong to it.
    """

    role: str
    asker: Metered
    endpoint: SdkEndpoint
    only_open_case: bool


Verdict = Callable[[Case, Sequence[Record], str], Awaitable[bool]]
"""Whether the records of a case meet the expectations of a part, as far as no judge is needed: `Suite.passed`."""


class RecordLog(Protocol):
    """Where records go."""

    def write_records(self, records: Sequence[Record]) -> list[int]:
        """Write records; returns their offsets, which the end will name."""
        ...


class TryContext:
    """The Context of one stage of one try. Records are written in groups, the last group with the end.

    Those of a try that did not end are never read: it is made again of its calls, which are in the log.
    """

    def __init__(self, case: Case, stage: str, try_: int, run: RunContext) -> None:
        self.case = case
        self.stage = stage
        self.try_ = try_
        self._run = run
        self._askers: dict[str, Metered] = {}
        self._endpoints: dict[str, SdkEndpoint] = {}
        self._earlier_failure = run.shared_endpoint.endpoint.failure if run.shared_endpoint else None
        self.written: list[int] = []
        self.pending: list[Record] = []
        self.records: list[Record] = []

    def model(self, role: str = "main") -> Asker:
        """The model that plays this role."""
        if role not in self._askers:
            binder = self._run.models.get(role)
            if binder is None:
                raise UsageError(f"this run has no model for the role {role!r}; name one with --model")
            replies = self._run.replies(self.case.index, self.stage)
            self._askers[role] = binder.bind(self.case, self.stage, self.try_, replies)
        return self._askers[role]

    async def base_url(self, role: str = "main") -> str:
        """Where a foreign SDK reaches that model until this try ends."""
        asker, gateway = self.model(role), self._run.gateway
        if gateway is None:
            raise UsageError("this run has no gateway for foreign SDKs")
        await gateway.start()
        if role not in self._endpoints:
            self._endpoints[role] = gateway.open_endpoint(role, asker)
        return self._endpoints[role].url

    def lend_shared_endpoint(self) -> None:
        """Make calls at the shared endpoint calls of this try, if no other case can be open."""
        shared, gateway = self._run.shared_endpoint, self._run.gateway
        if shared and shared.only_open_case and gateway:
            asker = self.model(shared.role)
            self._endpoints[_SHARED] = gateway.open_shared_endpoint(shared.role, asker)

    def failure_for(self, error: BaseException) -> Failure:
        """The failure behind a solver's exception.

        An SDK turns a failed call into an error of its own, so a call that failed at one of this try's endpoints is
        the cause. Otherwise it is the user's code.
        """
        own = failure_of(error)
        failed_call = self._failed_at_shared_endpoint()
        for endpoint in self._endpoints.values():
            if endpoint.failure is not None:
                failed_call = endpoint.failure
                break
        if failed_call is not None:
            return replace(failed_call, where=own.message, traceback=own.traceback)
        return own

    def _failed_at_shared_endpoint(self) -> Failure | None:
        """Return the last call that failed at the shared endpoint since this try began.

        The call may belong to another case. Asking this one again costs little: its replies are in the log.
        """
        if self._run.shared_endpoint is None:
            return None
        failure = self._run.shared_endpoint.endpoint.failure
        return None if failure is self._earlier_failure else failure

    def close(self) -> None:
        """Shut this try's addresses. Raises what stopped the run, however the case's code took it."""
        for endpoint in self._endpoints.values():
            endpoint.close()
        shared = [self._run.shared_endpoint.asker] if self._run.shared_endpoint else []
        for asker in [*self._askers.values(), *shared]:
            if asker.stopped:
                raise asker.stopped

    def emit(self, kind: str, data: Any, part: str = "") -> None:
        """Write one record."""
        record = Record(*self.case.head, self.try_, kind, part, data=data)
        if len(self.pending) >= _GROUP:
            self.written += self._run.log.write_records(self.pending)
            self.pending = []
        self.pending.append(record)
        self.records.append(record)

    async def map(self, function: Callable[[T], Awaitable[R]], items: Iterable[T]) -> list[R]:
        """`function` of all items side by side, in order. An error waits for the others: they are paid."""
        calls = [function(item) for item in items]
        if len(calls) == 1:
            return [await calls[0]]
        results = await asyncio.gather(*calls, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return cast("list[R]", results)

    async def passed(self, part: str) -> bool:
        """Whether what this try emitted under a part meets its expectations."""
        if self._run.verdict is None:
            raise UsageError("this suite has no verdict before its scorers speak")
        return await self._run.verdict(self.case, self.records, part)

    def rng(self, name: str) -> random.Random:
        """A stream that depends on the case, the name and the run's seed only."""
        return random.Random(f"{self._run.seed}/{self.case.set}/{self.case.key}/{name}")  # noqa: S311

    def now(self) -> float:
        """The run's first start."""
        return self._run.started

    @property
    def calls(self) -> int:
        """Calls this stage has made, replayed ones included."""
        return sum([asker.calls for asker in self._askers.values()]) if self._askers else 0

    @property
    def usage(self) -> Usage | None:
        """Tokens of this stage; None where no endpoint counted any."""
        asked = said = 0
        for asker in self._askers.values():
            asked += asker.input
            said += asker.output
        return Usage(asked, said) if asked or said else None


class RunContext(Struct, frozen=True):
    """What all tries of a run share."""

    models: Mapping[str, Binder]
    log: RecordLog
    replies: Callable[[int, str], Mapping[tuple[str, str, int], Call]]
    seed: int
    started: float
    gateway: SdkGateway | None = None
    verdict: Verdict | None = None
    shared_endpoint: SharedEndpoint | None = None
