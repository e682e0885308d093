"""CaseAsker: a model for one try of a case. It numbers the requests of the try, and counts what its calls cost.

    asker = caller.bind(case, stage, try_, replies)    # calls come from the log or the endpoint: caller.py
    asker = CaseAsker(facts, ask_driver)               # on a worker of Ray, the driver finds or makes them
    response = await asker.ask(request)

Equal requests are numbered in the order in which they are made, and the number is part of the log's key. So a case may
make calls concurrently, and a replay gives each request its own reply. The numbers are given where the case runs,
because only there the order is known.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct, field

from assay.core.errors import AssayError, ModelError
from assay.core.hashing import request_hash
from assay.core.params import with_params
from assay.core.protocols import Model
from assay.core.roles import Role
from assay.core.types import Call, CallTime, Request, Response
from assay.core.usage import PurposeUsage

FindOrMake = Callable[[Request, str, int, str], Awaitable[tuple[Call, bool]]]
"""Request, hash, number among equal requests, and purpose → the call, and whether its reply comes from a log.

A call that failed is returned. The reason to stop the run is raised.
"""


class ModelFacts(Struct, frozen=True):
    """A model of the run, as a case sees it."""

    name: str
    """The name that the user passed, such as openai/gpt-4o-mini."""
    endpoint: str
    can: frozenset[str]
    params: dict[str, Any] = field(default_factory=dict)
    """The role's parameters. They override those of each request."""
    sdk_params: dict[str, Any] | None = None
    """Those of the role (`core/roles.py`), for code with its own SDK."""


def facts_of(role: Role, model: Model) -> ModelFacts:
    """Return the facts of a role's model."""
    return ModelFacts(role.model, model.endpoint, model.can, role.params, role.sdk_params)


class CaseAsker:
    """A model for one stage of one try of a case.

    `calls`, `input` and `output` count its calls and tokens, including replayed ones. `stopped` is the
    reason to stop the run, if a call raised one. User code may swallow that exception, so the engine checks `stopped`
    before it commits the case.
    """

    __slots__ = (
        "_counts",
        "_find_or_make",
        "_params",
        "call_times",
        "calls",
        "can",
        "endpoint",
        "input",
        "name",
        "output",
        "purpose",
        "seed",
        "stopped",
        "usage",
    )

    def __init__(self, facts: ModelFacts, find_or_make: FindOrMake) -> None:
        self.name = facts.name
        self.endpoint = facts.endpoint
        self.can = facts.can
        self._params = facts.params
        self._find_or_make = find_or_make
        self._counts: dict[str, int] = {}  # by request hash
        self.calls = 0
        self.input = 0
        self.output = 0
        self.stopped: AssayError | None = None
        self.purpose = ""
        self.usage: dict[str, PurposeUsage] = {}
        self.seed: int | None = None
        self.call_times: list[CallTime] | None = None

    async def ask(self, request: Request) -> Response:
        """Return the reply to a request. Raises ModelError if there is none."""
        response = (await self.call(request)).response
        assert response is not None
        return response

    async def call(self, request: Request) -> Call:
        """Return the call as it is logged. Raises ModelError if it has no reply."""
        if self._params:
            request = with_params(request, self._params)
        if self.seed is not None:
            # A parameter, so that the request has another hash: replies to other seeds are not reused.
            request = with_params(request, {"seed": self.seed})
        hash_ = request_hash(request)
        n = self._counts.get(hash_, 0)
        self._counts[hash_] = n + 1
        call, _ = await self.call_numbered(request, hash_, n, self.purpose)
        if call.failure is not None:
            failed = ModelError(call.failure, response=call.response)
            failed.attempts, failed.seconds = call.attempts, call.seconds
            raise failed
        return call

    async def call_numbered(self, request: Request, hash_: str, n: int, purpose: str) -> tuple[Call, bool]:
        """Return the call of a request that has its hash and number, and whether its reply comes from a log.

        A call that failed is returned, not raised. Raises the reason to stop the run.
        """
        self.calls += 1
        began = time.perf_counter() if self.call_times is not None else 0.0
        try:
            call, replayed = await self._find_or_make(request, hash_, n, purpose)
        except AssayError as error:
            self.stopped = error
            raise
        if self.call_times is not None:
            self.call_times.append(CallTime(began, time.perf_counter(), call.seconds, replayed))
        if purpose:
            self.usage.setdefault(purpose, PurposeUsage()).add_call(call)
        response = call.response
        if response is not None and response.usage:
            self.input += response.usage.input
            self.output += response.usage.output
        return call, replayed
