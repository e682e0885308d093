"""Judges ask a model whether a text is good enough. One file each, found by its name.

A judge's `build(**options)` returns an object with `fingerprint`, which changes with its prompt, and
`judge(asker, rubric, text, reference=None)`. What it cannot read is invalid: never a pass, never a failure.
"""

from __future__ import annotations

from typing import Literal, Protocol

from msgspec import Struct

from assay.core.types import Request, Response


class JudgeVerdict(Struct, frozen=True):
    """What the judge said. `passed` is None where the status is "invalid", and the reason says why."""

    passed: bool | None
    reason: str
    status: Literal["scored", "invalid"] = "scored"


class JudgeModel(Protocol):
    """The model that judges: an asker that knows its name, PROVIDER/NAME, and its endpoint."""

    @property
    def name(self) -> str:
        """As the user wrote it."""
        ...

    @property
    def endpoint(self) -> str:
        """Where it is asked."""
        ...

    async def ask(self, request: Request) -> Response:
        """The reply, from the log where it was asked before."""
        ...
