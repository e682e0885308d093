"""Counts errors of cases, so that a run can name its most frequent one with file and line.

errors = ErrorCounts()
errors.add("[KeyError] 'text' (Hop.py:14: return fields['text'])")
errors.add("KeyError: 'text'", traceback)       # the place is the innermost frame of the traceback
str(errors.all()[0])                            # "KeyError: 'text' at Hop.py:14"
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from assay.core.types import Failure

# The place in the user's code at the end of a message, such as `(Hop.py:14: raise KeyError(name))`.
_PLACE = re.compile(r" \((?P<place>[^()\s]+:\d+)(?:: .*)?\)\Z", re.DOTALL)
_FRAME = re.compile(r'^ *File "(?P<file>[^"\n]+)", line (?P<line>\d+)', re.MULTILINE)
# `[KeyError] 'text'`, as UserCodeError writes it.
_TYPE = re.compile(r"\[(?P<type>\w+)\] ")
# Characters of a message. `assay show RUN CASE` prints all of it.
_MAX_MESSAGE = 200


class ErrorCount(Struct, frozen=True, omit_defaults=True):
    """One error and how many cases, tests or questions have it. `place` is `file.py:12`, or empty if it is unknown."""

    message: str
    count: int
    place: str = ""

    def __str__(self) -> str:
        return f"{self.message} at {self.place}" if self.place else self.message


def with_place(failure: Failure) -> str:
    """Return the message of a failure, with `(file.py:12)` of the user's code at its end if that is known."""
    place = _place_in(failure.traceback)
    if not place or _PLACE.search(failure.message):
        return failure.message
    return f"{failure.message} ({place})"


def _place_in(traceback: str) -> str:
    """Return `file.py:12` of the innermost frame; empty without a traceback."""
    frames = _FRAME.findall(traceback)
    if not frames:
        return ""
    file, line = frames[-1]
    return f"{file.replace(chr(92), '/').rpartition('/')[2]}:{line}"


class ErrorCounts:
    """Counts errors. Errors of one type at one line are one error, whatever else their messages say."""

    def __init__(self, errors: Iterable[ErrorCount] = ()) -> None:
        self._errors: dict[tuple[str, str], ErrorCount] = {}
        for error in errors:
            self._add(error)

    def add(self, message: str, traceback: str = "") -> None:
        """Add one error, by its message and the traceback with the user's own frames."""
        place = _place_in(traceback)
        if match := _PLACE.search(message):
            place, message = place or match["place"], message[: match.start()]
        message = " ".join(_TYPE.sub(r"\g<type>: ", message, count=1).split())
        if len(message) > _MAX_MESSAGE:
            message = message[: _MAX_MESSAGE - 1] + "…"
        self._add(ErrorCount(message, 1, place))

    def _add(self, error: ErrorCount) -> None:
        key = (error.message.partition(":")[0] if error.place else error.message, error.place)
        before = self._errors.get(key)
        self._errors[key] = replace(before, count=before.count + error.count) if before else error

    def all(self) -> list[ErrorCount]:
        """Return every error, the most frequent one first. Of equally frequent ones the one that was added first."""
        return sorted(self._errors.values(), key=lambda error: -error.count)
