"""The attempts of one operator: ask, read, verify, and ask again with what was wrong.

Two layers retry. A call that fails is repeated by the run's caller, below this. A reply that does not hold
is asked again here, at most `hop_retry` times in all. A call that failed for good ends the operator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from assay.core.errors import ModelError
from assay.core.hop_result import FAIL, LACK_OF_INFO, OK, UNCERTAIN
from assay.solvers.hop.messages import (
    RejectedAnswer,
    TaskText,
    UnreadableReply,
    as_text,
    build_messages,
    read_reply,
    shorten,
)
from assay.solvers.hop.verifiers import Ask, Claim, Verification, Verifier, verify_format

CALL_ERROR = "RuntimeError"
"""The error type of a call that failed for good."""

_UNREADABLE_CHARACTERS = 300
"""Of an unreadable reply that are shown to the model again: a small model only repeats them."""


class Operation(NamedTuple):
    """What an operator asks for: its prompt with the values for it, and what a result has to be."""

    prompt: str
    text: TaskText
    task: Any
    context: Any
    values: dict[str, str]
    schema: dict[str, Any]
    """Of the whole reply, for an endpoint that holds the model to it."""
    form: Any = None
    check: Callable[[Any], Any] = lambda result: result
    """Returns the result as it should be, or raises UnreadableReply."""
    verifier: Verifier | None = None
    claim_text: TaskText | None = None
    """The task as a verifier is told it, where that is more than the task."""


class OperatorOutcome(NamedTuple):
    """How an operator ended. `reason` says why it is not OK, `error` is the type of what was raised."""

    status: str
    result: Any
    retries: int = 0
    reason: str = ""
    error: str | None = None

    def metadata(self) -> dict[str, Any]:
        """What a step keeps besides status and retries."""
        metadata = {}
        if self.reason:
            metadata["reason"] = self.reason
        if self.error:
            metadata["error_type"] = self.error
        return metadata


class _Attempt(NamedTuple):
    verification: Verification
    result: Any
    answer: str


async def run_operation(operation: Operation, ask: Ask, ask_verifier: Ask, hop_retry: int) -> OperatorOutcome:
    """At least one attempt. UNCERTAIN and LACK_OF_INFO of the last one stand; any other is FAIL unless OK."""
    rejected: list[RejectedAnswer] = []
    attempts = max(1, hop_retry)
    try:
        while True:
            attempt = await _attempt(operation, ask, ask_verifier, rejected)
            status, reason, error = attempt.verification
            if status == OK or error or len(rejected) + 1 == attempts:
                break
            rejected.append(RejectedAnswer(attempt.answer, reason))
    except ModelError as failed:
        text = f"[{CALL_ERROR}] {failed.failure.kind}: {failed.failure.message}"
        return OperatorOutcome(FAIL, text, len(rejected), text, CALL_ERROR)
    if status == OK:
        return OperatorOutcome(OK, attempt.result, len(rejected))
    if status == UNCERTAIN:
        return OperatorOutcome(UNCERTAIN, attempt.result, len(rejected), reason)
    # Without a result to return, the function gets what was wrong or missing.
    status = LACK_OF_INFO if status == LACK_OF_INFO else FAIL
    return OperatorOutcome(status, reason, len(rejected), reason, error)


async def _attempt(
    operation: Operation, ask: Ask, ask_verifier: Ask, rejected: list[RejectedAnswer]
) -> _Attempt:
    messages = build_messages(operation.prompt, operation.text, operation.values, rejected)
    text = await ask(messages, operation.schema)
    try:
        reply = read_reply(text, operation.form)
        if reply.missing is not None:
            return _Attempt(Verification(LACK_OF_INFO, reply.missing), None, text)
        result = operation.check(reply.result)
    except UnreadableReply as error:
        return _Attempt(Verification(FAIL, str(error)), None, shorten(text, _UNREADABLE_CHARACTERS))
    verification = verify_format(result)
    if verification.status == OK and operation.verifier is not None:
        claim = Claim(operation.claim_text or operation.text, result, operation.task, operation.context)
        verification = await operation.verifier(claim, ask_verifier)
    return _Attempt(verification, result, as_text(result))
