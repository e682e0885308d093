"""Judges ask a model. One file each, found by its name, with its versioned prompt beside it.

`rubric` asks whether a text is good enough: its `build(**options)` returns an object with `fingerprint`,
which changes with its prompt, and `judge(asker, rubric, text, reference=None)`. Each of the others puts one
kind of matter into words: its `build()` returns a `Wording` of `judging/asking.py`. What cannot be read is
invalid: never a pass, never a failure.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class JudgeVerdict(Struct, frozen=True):
    """What the judge said. `passed` is None where the status is "invalid", and the reason says why."""

    passed: bool | None
    reason: str
    status: Literal["scored", "invalid"] = "scored"
