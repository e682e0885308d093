"""Regular expressions of users, from task files and testsets."""

from __future__ import annotations

import re

from assay.core.errors import UsageError


def compile_pattern(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Return the compiled pattern. Raises UsageError if it is not a regular expression."""
    try:
        return re.compile(pattern, flags)
    except (re.error, TypeError, OverflowError, RecursionError) as error:
        raise UsageError(f"{pattern!r} is not a regular expression: {error}") from None
