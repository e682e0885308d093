"""Runs one operator: ask the model, read the reply, verify it, and ask again with feedback if it was rejected.

Retries happen on two levels. The run's model client retries a failed request (`--retries`). This module
retries a rejected reply, with at most `hop_retry` answers in total. A request that failed after all its
retries ends the operator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from assay.core.errors import ModelError
from assay.files.excerpt import cut_end
from assay.suites.hop.messages import RejectedAnswer, TaskText, UnreadableReply, as_text, build_messages, read_reply
from assay.suites.hop.result import FAIL, LACK_OF_INFO, OK, UNCERTAIN
from assay.suites.hop.verifiers import Ask, Claim, Verification, Verifier, verify_format

CALL_ERROR = "RuntimeError"
"""The error type that a trace shows for a request that failed after all retries."""

# Characters of an unreadable reply that the next prompt repeats. A small model copies a longer one.
_MAX_UNREADABLE = 300


class Operation(NamedTuple):
    """One call of an operator: its prompt, the values for the prompt, and the rules for its result."""

    prompt: str
    text: TaskText
    task: Any
    context: Any
    values: dict[str, str]
    schema: dict[str, Any]
    """The JSON schema of the whole reply, for endpoints with structured output."""
    form: Any = None
    check: Callable[[Any], Any] = lambda result: result
    """Returns the result, perhaps normalised, or raises UnreadableReply."""
    verifier: Verifier | None = None
    claim_text: TaskText | None = None
    """The task as the verifier sees it, if it needs more than `text`, such as the requested format."""


class OperatorOutcome(NamedTuple):
    """The end of an operator. `reason` is set if the status is not OK; `error` is the type of an exception."""

    status: str
    result: Any
    retries: int = 0
    reason: str = ""
    error: str | None = None

    def metadata(self) -> dict[str, Any]:
        """Return the metadata for the step of a trace."""
        metadata = {}
        if self.reason:
            metadata["reason"] = self.reason
        if self.error:
            metadata["error_type"] = self.error
        return metadata


class _VerifiedAnswer(NamedTuple):
    verification: Verification
    result: Any
    text: str


async def run_operation(operation: Operation, ask: Ask, ask_verifier: Ask, hop_retry: int) -> OperatorOutcome:
    """Run an operator, at most `hop_retry` times and at least once.

    Stops at the first OK. Otherwise the last answer counts: UNCERTAIN and LACK_OF_INFO are kept, any other
    status becomes FAIL.
    """
    rejected: list[RejectedAnswer] = []
    most_answers = max(1, hop_retry)
    try:
        while True:
            answer = await _verified_answer(operation, ask, ask_verifier, rejected)
            status, reason, error = answer.verification
            # An exception in the user's own verifier would be raised again, so it is not retried.
            if status == OK or error or len(rejected) + 1 == most_answers:
                break
            rejected.append(RejectedAnswer(answer.text, reason))
    except ModelError as model_error:
        text = f"[{CALL_ERROR}] {model_error.failure.kind}: {model_error.failure.message}"
        return OperatorOutcome(FAIL, text, len(rejected), text, CALL_ERROR)
    if status == OK:
        return OperatorOutcome(OK, answer.result, len(rejected))
    if status == UNCERTAIN:
        return OperatorOutcome(UNCERTAIN, answer.result, len(rejected), reason)
    # There is no result, so the function receives the reason in its place.
    status = LACK_OF_INFO if status == LACK_OF_INFO else FAIL
    return OperatorOutcome(status, reason, len(rejected), reason, error)


async def _verified_answer(
    operation: Operation, ask: Ask, ask_verifier: Ask, rejected: list[RejectedAnswer]
) -> _VerifiedAnswer:
    messages = build_messages(operation.prompt, operation.text, operation.values, rejected)
    text = await ask(messages, operation.schema)
    try:
        reply = read_reply(text, operation.form)
        if reply.missing is not None:
            return _VerifiedAnswer(Verification(LACK_OF_INFO, reply.missing), None, text)
        result = operation.check(reply.result)
    except UnreadableReply as error:
        return _VerifiedAnswer(Verification(FAIL, str(error)), None, cut_end(text, _MAX_UNREADABLE))
    verification = verify_format(result)
    if verification.status == OK and operation.verifier is not None:
        claim = Claim(operation.claim_text or operation.text, result, operation.task, operation.context)
        verification = await operation.verifier(claim, ask_verifier)
    return _VerifiedAnswer(verification, result, as_text(result))
