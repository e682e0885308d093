"""Judges that ask a model, one per file. The versioned prompt is a text file beside it.

There are two kinds:

- `rubric` judges whether a text meets a rubric. `build()` returns an object with `fingerprint`, which changes with
  the prompt, and `judge(asker, rubric, text, reference=None)`.
- Each other judge answers one kind of question of `scoring/questions.py`. `build()` returns a `JudgePrompt` (see
  `scoring/judge_prompt.py`).

A reply that cannot be read makes the verdict invalid. It counts neither as passed nor as failed.

To change the wording of a prompt, add a new file (`answer.v2.txt`) and change `VERSION`. This makes it another
judge, which needs its own calibration.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class RubricVerdict(Struct, frozen=True):
    """The verdict on a rubric. If the status is "invalid", `passed` is None and `reason` tells why."""

    passed: bool | None
    reason: str
    status: Literal["scored", "invalid"] = "scored"
