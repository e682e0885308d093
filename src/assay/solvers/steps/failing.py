"""How a step fails: its own failure, which ends what depends on it, never the run."""

from __future__ import annotations


class StepFailed(Exception):
    """What went wrong in one step, for people to read. `kind` is a word a program can branch on."""

    def __init__(self, message: str, kind: str = "failed") -> None:
        self.kind = kind
        super().__init__(message)
