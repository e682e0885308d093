"""The attempts of one operator: ask, read, verify, and ask again with what was wrong.

Two layers retry. A call that fails is repeated by the caller of the run, below this; what comes back and does
not hold is asked again here, at most `hop_retry` times in all. A call that failed for good ends the operator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from assay.core.errors import ModelError
from assay.core.status import FAIL, LACK_OF_INFO, OK, UNCERTAIN
from assay.solvers.hop.replies import Unreadable, read_reply
from assay.solvers.hop.verifiers import Ask, Subject, Verdict, Verifier
from assay.solvers.hop.verifiers.format import verify_format
from assay.solvers.hop.wording import Asked, Rejected, as_text, cut, messages

TRANSPORT = "RuntimeError"
"""The error type of a call that failed for good."""
_UNREADABLE = 300
"""Characters of a reply without form that are shown again: a small model only repeats them."""


class Operation(NamedTuple):
    """What an operator is: its prompt with the values for it, and what a result has to be."""

    prompt: str
    asked: Asked
    given: tuple[Any, Any]
    values: dict[str, str]
    schema: dict[str, Any]
    """Of the whole reply, for an endpoint that holds the model to it."""
    form: Any = None
    check: Callable[[Any], Any] = lambda result: result
    """Makes the result what it should be, or raises Unreadable."""
    verifier: Verifier | None = None
    shown: Asked | None = None
    """What a verifier is told was asked, where that is more than the task."""


class Outcome(NamedTuple):
    """How an operator ended. `reason` says why it is not OK, `error` is the type of what was raised."""

    status: str
    result: Any
    retries: int = 0
    reason: str = ""
    error: str | None = None

    def metadata(self) -> dict[str, Any]:
        """What a step keeps besides status and retries."""
        said = {"reason": self.reason} if self.reason else {}
        return {**said, "error_type": self.error} if self.error else said


class Sides(NamedTuple):
    """The two models of a session as an operator asks them."""

    run: Ask
    verify: Ask


class _Attempt(NamedTuple):
    verdict: Verdict
    result: Any
    text: str


async def operate(operation: Operation, sides: Sides, hop_retry: int) -> Outcome:
    """At least one attempt. UNCERTAIN and LACK_OF_INFO of the last stand; all else that is not OK is FAIL."""
    rejected: list[Rejected] = []
    most = max(1, hop_retry)
    try:
        while True:
            attempt = await _attempt(operation, sides, rejected)
            if attempt.verdict.status == OK or attempt.verdict.error or len(rejected) + 1 == most:
                return _ended(attempt, len(rejected))
            rejected.append(Rejected(attempt.text, attempt.verdict.reason))
    except ModelError as error:
        said = f"[{TRANSPORT}] {error.failure.kind}: {error.failure.message}"
        return Outcome(FAIL, said, len(rejected), said, TRANSPORT)


async def _attempt(operation: Operation, sides: Sides, rejected: list[Rejected]) -> _Attempt:
    asked = messages(operation.prompt, operation.asked, operation.values, rejected)
    text = await sides.run(asked, operation.schema)
    try:
        reply = read_reply(text, operation.form)
        if reply.missing is not None:
            return _Attempt(Verdict(LACK_OF_INFO, reply.missing), None, text)
        result = operation.check(reply.result)
    except Unreadable as error:
        return _Attempt(Verdict(FAIL, str(error)), None, cut(text, _UNREADABLE))
    verdict = verify_format(result)
    if verdict.status == OK and operation.verifier is not None:
        subject = Subject(operation.shown or operation.asked, result, operation.given)
        verdict = await operation.verifier(subject, sides.verify)
    return _Attempt(verdict, result, as_text(result))


def _ended(attempt: _Attempt, retries: int) -> Outcome:
    """OK and UNCERTAIN have the result, the others what was wrong or missing."""
    status, reason, error = attempt.verdict
    if status == OK:
        return Outcome(OK, attempt.result, retries)
    if status == UNCERTAIN:
        return Outcome(UNCERTAIN, attempt.result, retries, reason)
    kept = LACK_OF_INFO if status == LACK_OF_INFO else FAIL
    return Outcome(kept, reason, retries, reason, error)
