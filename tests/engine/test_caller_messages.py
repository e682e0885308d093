"""What the caller tells about calls: failures without secrets, and how requests were changed."""

from __future__ import annotations

import asyncio

import pytest

from assay.core.errors import ModelError
from assay.core.events import Event, Noted, Retrying
from assay.core.protocols import NamedModel
from assay.core.types import Call, Failure, Request, Response
from assay.engine.caller import Caller, CallLedger
from assay.engine.permits import Permits
from assay.files.excerpt import cut_end
from assay.files.redact import Redactor

SECRET = "sk-other-1234567890abcdef"
REDACTOR = Redactor([SECRET])


def failed() -> ModelError:
    message = cut_end(f"http://x answered 500: {SECRET} and {SECRET}", len(SECRET) + 40)
    return ModelError(Failure("server_error", message), retry=True)


class Log:
    def call(self, call: Call) -> Call:
        return call


class Model:
    endpoint = "http://x"
    can: frozenset[str] = frozenset()

    def __init__(self, *outcomes: Response | Exception) -> None:
        self._outcomes = list(outcomes)

    async def send(self, request: Request, seed: int) -> Response:
        outcome = self._outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def close(self) -> None:
        pass


def events_of(*outcomes: Response | Exception, max_retries: int = 1) -> list[Event]:
    events: list[Event] = []

    async def send() -> None:
        ledger = CallLedger(Log(), events.append, None, None, redactor=REDACTOR)
        named_model = NamedModel("anthropic/m", Model(*outcomes))
        caller = Caller(named_model, Permits(1), ledger, seed=1, max_retries=max_retries, max_wait=0.0)
        await caller.send(Request(model="m", prompt="?"), 0, 0)

    asyncio.run(send())
    return events


def test_a_line_about_waiting_shows_no_secret_and_no_part_of_one() -> None:
    (retry,) = [event for event in events_of(failed(), Response("yes")) if isinstance(event, Retrying)]
    assert retry.failure.message == "http://x answered 500: [redacted] and [redacted]…"
    assert retry.failure.kind == "server_error"


@pytest.mark.parametrize("error", [failed(), ValueError(f"no header for {SECRET}")], ids=["endpoint", "provider"])
def test_an_error_that_ends_a_call_shows_no_secret(error: Exception) -> None:
    with pytest.raises(ModelError) as caught:
        events_of(error, max_retries=0)
    assert SECRET not in caught.value.failure.message
    assert SECRET not in str(caught.value)


def test_a_parameter_that_was_left_out_is_not_called_rejected() -> None:
    """The format of an endpoint may have no such parameter: then the endpoint has never seen it."""
    reply = Response("yes", adapted=("no seed",))
    (note,) = [event for event in events_of(reply) if isinstance(event, Noted)]
    assert note.text == "requests to anthropic/m are adapted: no seed"
