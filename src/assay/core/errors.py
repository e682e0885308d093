"""Every error assay raises on purpose.

AssayError                  exit code
├── UsageError              2   wrong flag, wrong value, something that is not there
│   └── MissingExtra        2   an optional package is needed
├── InputError              2   a file is wrong; carries every problem found in it
├── RunBusy                 2   another process works on the same run
├── ModelRefused            2   the endpoint refused us before it gave one answer
├── CheckFailed             1   `run.check()`: a run stopped, or cases of it failed
├── StopRun                 3   the run stops here and can be continued
├── ModelError              -   one call failed; becomes a Failure on the record, never a crash
└── CaseFailed              -   what is evaluated failed on one case; the same

A message says what happened, where, and what to do. It has no prefix and no exclamation mark:
the command line adds what is needed around it.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from assay.core.types import Failure


class AssayError(Exception):
    """The root: whoever catches this catches everything raised on purpose."""

    exit_code = 2


class UsageError(AssayError):
    """The command, a flag or a name is wrong."""


class MissingExtra(UsageError):
    """A feature needs a package that the base install leaves out."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs an optional package: pip install 'assay[{extra}]'")


class Problem(NamedTuple):
    """One thing wrong in a file: where it is and what it is."""

    where: str
    message: str
    level: str = "error"

    def __str__(self) -> str:
        return f"{self.where}: {self.message}"


def unreadable(path: Path, error: OSError, hint: str = "") -> Problem:
    """A file that the system does not give; the hint says what stands in it, for one that is not there."""
    if isinstance(error, FileNotFoundError):
        return Problem(str(path), "; ".join(filter(None, ["there is no such file", hint])))
    return Problem(str(path), f"cannot be read: {error.strerror}")


class InputError(AssayError):
    """A file cannot be used; all its problems at once."""

    def __init__(self, problems: list[Problem] | Problem) -> None:
        self.problems = [problems] if isinstance(problems, Problem) else problems
        super().__init__("\n".join(map(str, self.problems)))


class RunBusy(AssayError):
    """A run folder has one writer at a time."""


class ModelRefused(AssayError):
    """401, 403 or an unknown model on the first reply: asking on would change nothing."""


class CheckFailed(AssayError):
    """A run is not fine: it stopped, measured nothing, or cases of it failed."""

    exit_code = 1


class StopRun(AssayError):
    """Nothing is lost: the same command continues."""

    exit_code = 3


def cannot_write(path: object, error: OSError) -> StopRun:
    """A full disk, mostly. What is written so far is whole."""
    return StopRun(
        f"cannot write {path}: {error.strerror}; everything up to here is kept. "
        "Make room and run the same command again"
    )


class ModelError(AssayError):
    """One call failed. `retry` says whether asking again may help, `wait` what the server asked for."""

    exit_code = 3

    def __init__(self, failure: Failure, *, retry: bool = False, wait: float | None = None) -> None:
        self.failure = failure
        self.retry = retry
        self.wait = wait
        self.attempts = 1
        self.seconds = 0.0
        super().__init__(failure.message)


class CaseFailed(AssayError):
    """A solver's word that this case has no result, after everything it has to show was emitted."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        super().__init__(failure.message)
