"""What the caller tells about calls: failures without secrets, and how requests were changed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from assay.core.errors import ModelError
from assay.core.events import Event, Noted, Retrying
from assay.core.types import Failure, Request, Response
from assay.engine.caller import Caller, CallLedger
from assay.engine.permits import Permits
from assay.files.excerpt import cut_end
from assay.files.redact import Redactor
from assay.journal.journal import Journal

from support.engine_run import facts

SECRET = "sk-other-1234567890abcdef"
REDACTOR = Redactor([SECRET])


def failed() -> ModelError:
    message = cut_end(f"http://x answered 500: {SECRET} and {SECRET}", len(SECRET) + 40)
    return ModelError(Failure("server_error", message), retry=True)


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


def events_of(folder: Path, *outcomes: Response | Exception, max_retries: int = 1) -> list[Event]:
    events: list[Event] = []
    journal = Journal(folder, [], [])

    async def send() -> None:
        ledger = CallLedger(journal, events.append, None, None, redactor=REDACTOR)
        model = Model(*outcomes)
        caller = Caller(
            facts("anthropic/m", model), model, Permits(1), ledger, seed=1, max_retries=max_retries, max_wait=0.0
        )
        await caller.send(Request(model="m", prompt="?"), 0, 0)

    try:
        asyncio.run(send())
    finally:
        journal.close()
    return events


def test_a_line_about_waiting_shows_no_secret_and_no_part_of_one(tmp_path: Path) -> None:
    (retry,) = [event for event in events_of(tmp_path, failed(), Response("yes")) if isinstance(event, Retrying)]
    assert retry.failure.message == "http://x answered 500: [redacted] and [redacted]…"
    assert retry.failure.kind == "server_error"


@pytest.mark.parametrize("error", [failed(), ValueError(f"no header for {SECRET}")], ids=["endpoint", "provider"])
def test_an_error_that_ends_a_call_shows_no_secret(error: Exception, tmp_path: Path) -> None:
    with pytest.raises(ModelError) as caught:
        events_of(tmp_path, error, max_retries=0)
    assert SECRET not in caught.value.failure.message
    assert SECRET not in str(caught.value)


def test_a_parameter_that_was_left_out_is_not_called_rejected(tmp_path: Path) -> None:
    """The format of an endpoint may have no such parameter: then the endpoint has never seen it."""
    reply = Response("yes", adapted=("no seed",))
    (note,) = [event for event in events_of(tmp_path, reply) if isinstance(event, Noted)]
    assert note.text == "requests to anthropic/m are adapted: no seed"
