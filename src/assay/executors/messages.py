"""The messages between the driver, which runs the evaluation, and its workers, which run the cases.

A worker computes and never asks an endpoint: it sends its requests to the driver, which logs each reply before the case
sees it. Gold, keys, budget and journal never leave the driver.

    driver → worker   StartCase, Reply, PartPassed, Abandon, Send
    worker → driver   Ask, Passed, EndCase, CaseBlocked, Stopped, Sent, Opened, Told

`placement` is a number of the driver for one case on one worker. A case that is started again has another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from assay.core.types import Call, Case, Failure, Record, Request, Response
from assay.usercode.blocked_calls import BlockedCall
from assay.usercode.opened_files import CodeFile

# Messages that come up within this time travel together: a message of its own costs Ray about a millisecond of CPU.
GROUP_SECONDS = 0.002


class StartCase(Struct, frozen=True):
    """Run a case. It has no gold: that stays with the driver."""

    placement: int
    case: Case
    try_: int
    started: float
    """The time of the run's first start, for `ctx.now`."""
    blocked: Sequence[BlockedCall] = ()
    """Calls of the user's code that blocked the workers of earlier placements."""


class Reply(Struct, frozen=True):
    """The answer to an Ask: the call as it is logged, with its reply or its failure."""

    placement: int
    number: int
    call: Call
    replayed: bool


class PartPassed(Struct, frozen=True):
    """The answer to Passed."""

    placement: int
    number: int
    passed: bool


class Abandon(Struct, frozen=True):
    """Stop a case: the run stops, so nobody waits for its end."""

    placement: int


class Send(Struct, frozen=True):
    """Ask a model that computes in the worker."""

    number: int
    role: str
    request: Request
    seed: int


class Ask(Struct, frozen=True):
    """A request of a case. Its hash and its number among equal requests are counted where the case runs."""

    placement: int
    number: int
    role: str
    request: Request
    hash: str
    n: int
    purpose: str


class Passed(Struct, frozen=True):
    """The question whether a part meets its expectations, with the records that the driver does not have yet."""

    placement: int
    number: int
    part: str
    records: list[Record]


class EndCase(Struct, frozen=True):
    """A case has ended. `records` are those that the driver does not have yet."""

    placement: int
    records: list[Record]
    failure: Failure | None


class CaseBlocked(Struct, frozen=True):
    """Code of a case blocks the worker and cannot be interrupted. The driver ends the worker."""

    placement: int
    call: BlockedCall


class Stopped(Struct, frozen=True):
    """Code of a case raised an error that concerns the whole run. An exception would not cross processes unchanged."""

    placement: int
    message: str
    exit_code: int


class Sent(Struct, frozen=True):
    """The answer to Send: a reply, or the parts of a ModelError."""

    number: int
    response: Response | None = None
    failure: Failure | None = None
    retry: bool = False
    wait: float | None = None


class Opened(Struct, frozen=True):
    """Code of the user's is about to read a file, or changes one. Sent before any request that may depend on it."""

    file: CodeFile


class Told(Struct, frozen=True):
    """A sentence for the progress of the run."""

    text: str


ToWorker = StartCase | Reply | PartPassed | Abandon | Send
ToDriver = Ask | Passed | EndCase | CaseBlocked | Stopped | Sent | Opened | Told


class MessageGroup(Struct, frozen=True):
    """Messages of a worker. Groups are numbered, because two of them may overtake each other."""

    number: int
    messages: Sequence[ToDriver]


class Hello(Struct, frozen=True):
    """What a worker says of itself when it is ready, or why it cannot run cases of this run."""

    name: str
    problem: str = ""
    kind: Literal["", "version", "files", "models", "build"] = ""
