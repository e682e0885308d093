"""Judges ask a model whether a text is good enough. One file each, found by its name.

A judge's `build(**options)` returns an object with `fingerprint`, which changes with its prompt, and
`judge(asker, rubric, text, reference=None)`. What it cannot read is invalid: never a pass, never a failure.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class JudgeVerdict(Struct, frozen=True):
    """What the judge said. `passed` is None where the status is "invalid", and the reason says why."""

    passed: bool | None
    reason: str
    status: Literal["scored", "invalid"] = "scored"
