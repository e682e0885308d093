"""Judges ask a model. One file each, found by its name, with its versioned prompt beside it.

`rubric` asks whether a text is good enough: its `build(**options)` returns an object with `fingerprint`,
which changes with its prompt, and `judge(asker, rubric, text, reference=None)`. Each of the others puts one
kind of question into words: its `build()` returns a `JudgePrompt` (see `scoring/judge_prompt.py`). A reply
that cannot be read is invalid: never a pass, never a failure.

A new wording of a prompt is a new file (`answer.v2.txt`), a new `VERSION`, and another judge.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class JudgeVerdict(Struct, frozen=True):
    """The verdict on a rubric. `passed` is None where the status is "invalid", and the reason says why."""

    passed: bool | None
    reason: str
    status: Literal["scored", "invalid"] = "scored"
