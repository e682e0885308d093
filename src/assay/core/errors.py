"""All exceptions that assay raises itself.

AssayError                  exit code
├── UsageError              2   wrong flag, wrong value, missing file or run
│   └── MissingExtra        2   an optional package is not installed
├── InputError              2   a file is invalid; has all of its problems
│   ├── DamagedRun          2   a file of a run folder is not as it was written
│   ├── InvalidTestset      2   a testset read by Python code is invalid; also a ValueError
│   └── MissingTestset      2   there is no such testset; also a FileNotFoundError
├── RunBusy                 2   another process works on the same run
├── ModelRefused            2   the endpoint rejected the first requests (key, model name)
├── CheckFailed             1   `run.check()`: the run stopped, or some of its cases failed
├── StopRun                 3   the run stopped and can be continued
│   └── DiskFull            3   the disk is full; the replies in flight are saved
├── ModelError              -   one call failed; the case gets a Failure, the run goes on
└── CaseFailed              -   one case has no result; the case gets a Failure, the run goes on

A message says what happened, where, and what to do next. It has no prefix such as "Error:".
"""

from __future__ import annotations

import errno
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from assay.core.types import Failure, Response


class AssayError(Exception):
    """The base class of all exceptions of assay."""

    exit_code = 2


class UsageError(AssayError):
    """A command, flag, option or name is wrong."""


class MissingExtra(UsageError):
    """A feature needs an optional package that is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs an optional package: pip install 'assay[{extra}]'")


class Problem(NamedTuple):
    """One problem of a file. `level` is error, warning or advice; a note says only what `assay check` read."""

    where: str
    message: str
    level: str = "error"

    def __str__(self) -> str:
        return f"{self.where}: {self.message}"


_SIMILARITY = 0.75
"""Least similarity of a misspelled name, from 0 to 1. A lower one suggests `description` for `restriction`, and checks
would warn of right names."""


def similar(name: str, choices: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: the names that are similar to it, if any."""
    return _did_you_mean(similar_names(name, choices))


def similar_names(name: str, choices: Iterable[str]) -> list[str]:
    """Return at most three names that `name` is probably a misspelling of, the most similar first.

    It is the one rule for every "did you mean", and for every check that takes a name for a misspelled one.
    """
    from difflib import get_close_matches  # imported here because only a typo needs it

    choices = list(choices)
    # `OpenAI` is nearer to `openai` than its letters say, and `oen` to `one`.
    near = [choice for choice in choices if choice.lower() == name.lower() or _is_swapped(name, choice)]
    return near[:3] or get_close_matches(name, choices, n=3, cutoff=_SIMILARITY)


def _is_swapped(name: str, other: str) -> bool:
    """Return whether two neighbouring letters changed places."""
    differing = [at for at, pair in enumerate(zip(name, other, strict=False)) if pair[0] != pair[1]]
    if len(name) != len(other) or len(differing) != 2:
        return False
    first, second = differing
    return second == first + 1 and name[first : second + 1] == other[second] + other[first]


def unknown(kind: str, name: str, choices: list[str]) -> str:
    """Return the message for an unknown name, with similar names or with all choices."""
    hint = similar(name, choices) or (f"; known: {', '.join(choices)}" if choices else "")
    return f"there is no {kind} named {name!r}{hint}"


def _did_you_mean(names: list[str]) -> str:
    return f"; did you mean {' or '.join(map(repr, names))}?" if names else ""


def similar_file(path: Path) -> str:
    """Return the end of a message about a missing file: names in its folder that are similar to its own, if any.

    Of a path that exists and is no file it says so, instead of suggesting its own name.
    """
    if "\0" in str(path):
        return ""
    try:
        if path.is_dir():
            return "; it is a folder"
        if path.exists():
            return "; it is a pipe, a device or a socket"
    except OSError:  # a name that is too long for a file
        return ""
    try:
        stems = sorted(entry.stem for entry in path.parent.iterdir() if entry.suffix == path.suffix)
    except OSError:
        return f"; there is no folder {str(path.parent)!r} either"
    # Without the ending, which would make all names of files similar.
    near = similar_names(path.stem, stems)
    return _did_you_mean([stem + path.suffix for stem in near])


def unreadable(path: Path, error: OSError, hint: str = "") -> Problem:
    """Return the Problem for a file that cannot be opened. For a missing file, `hint` says what it should contain."""
    if isinstance(error, FileNotFoundError):
        missing = "; ".join(filter(None, ["there is no such file", hint]))
        return Problem(str(path), missing + similar_file(path))
    return Problem(str(path), f"cannot be read: {error.strerror}")


class InputError(AssayError):
    """A file is invalid. `problems` has all of its problems, so that the user can mend them in one go."""

    def __init__(self, problems: list[Problem] | Problem) -> None:
        self.problems = [problems] if isinstance(problems, Problem) else problems
        super().__init__("\n".join(map(str, self.problems)))


class DamagedRun(InputError):
    """A file of a run folder is not as assay wrote it. `problems` names the files and lines."""


class InvalidTestset(InputError, ValueError):
    """A testset is invalid. Raised by `TestCase` and `TestsetLoader`, whose original raises ValueError."""


class MissingTestset(InputError, FileNotFoundError):
    """There is no such testset. Raised by `TestsetLoader`, whose original raises FileNotFoundError."""


class RunBusy(AssayError):
    """Another process has the run folder open. A run has one writer at a time."""


class ModelRefused(AssayError):
    """The endpoint answered the first requests with 401, 403 or an unknown model. All further ones would fail too."""


class ExecutorRefused(UsageError):
    """The cases cannot run where --executor says: the cluster is too small, or has other files. No case has run."""


class StartInterrupted(KeyboardInterrupt):
    """Ctrl-C or SIGTERM before the workers of --executor were ready. No case has run."""


class CheckFailed(AssayError):
    """Raised by `run.check()`: the run stopped, measured nothing, or some of its cases failed."""

    exit_code = 1


class StopRun(AssayError):
    """The run stops early. All replies so far are saved, and the same command continues the run."""

    exit_code = 3


class DiskFull(StopRun):
    """The disk is full. The lines that were written last are saved: the run had reserved room for them."""


FULL_DISK = frozenset({errno.ENOSPC, errno.EDQUOT})
"""What a write says on a full disk, and where the user's quota is used up."""


def cannot_write(path: object, error: OSError) -> StopRun:
    """Return the StopRun for a failed write."""
    return StopRun(
        f"cannot write {path}: {error.strerror}. All replies so far are saved. "
        f"{write_advice(error)} and run the same command again"
    )


def cannot_log(path: object, error: OSError) -> StopRun:
    """Return the StopRun for a failed write to the journal, after which replies in flight are lost."""
    return StopRun(
        f"cannot write {path}: {error.strerror}. Replies that were written before are saved. "
        f"{write_advice(error)} and run the same command again"
    )


def write_advice(error: OSError) -> str:
    """Return what to do about the cause of a failed write. Only a full disk needs room."""
    if error.errno in FULL_DISK:
        return "Make room"
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return "Make the folder writable"
    if error.errno in (errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ENOTEMPTY):
        return "Move away what is in its place"
    return "Remove the cause"


class ModelError(AssayError):
    """One call failed. `retry` is True if another attempt may succeed. `wait` has the server's Retry-After seconds.

    `response` has the tokens and the price of a refusal that was billed, without its text. It is None for other errors.
    """

    exit_code = 3

    def __init__(
        self,
        failure: Failure,
        *,
        retry: bool = False,
        wait: float | None = None,
        response: Response | None = None,
    ) -> None:
        self.failure = failure
        self.retry = retry
        self.wait = wait
        self.response = response
        self.attempts = 1
        self.seconds = 0.0
        super().__init__(failure.message)


class CaseFailed(AssayError):
    """Raised by a solver when its case has no result. Records that it emitted before are saved."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        super().__init__(failure.message)


class WorkerLost(Exception):
    """The worker process that ran a case is gone, for example with its machine. `worker` tells which one.

    A loss that does not count is explained, and will not happen again: code of this or another case blocked the worker.
    """

    def __init__(self, worker: str, *, counts: bool = True) -> None:
        super().__init__(f"the worker {worker} was lost")
        self.worker = worker
        self.counts = counts
