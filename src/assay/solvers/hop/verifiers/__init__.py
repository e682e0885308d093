"""What says whether a result can be believed: one verifier a file, found by name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from assay.core.status import FAIL, OK
from assay.solvers.hop.wording import Asked, Messages

Ask = Callable[[Messages, dict[str, Any]], Awaitable[str]]
"""One call to one side, with the JSON schema of its reply; the reply's text. Raises what the call raises."""


class Verdict(NamedTuple):
    """`reason` is shown to the model that is asked again. `error` names what a user's verifier raised."""

    status: str
    reason: str = ""
    error: str | None = None


class Subject(NamedTuple):
    """What is to be verified, and what for. A user's verifier sees task and context as they were `given`."""

    asked: Asked
    result: Any
    given: tuple[Any, Any]


Verifier = Callable[[Subject, Ask], Awaitable[Verdict]]

PASSED = Verdict(OK)


def failed(reason: str) -> Verdict:
    """The result is wrong, for this reason."""
    return Verdict(FAIL, reason)
