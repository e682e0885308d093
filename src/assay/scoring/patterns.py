"""Regular expressions from task files and test sets."""

from __future__ import annotations

import re

from assay.core.errors import UsageError


def compile_pattern(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """The compiled pattern. UsageError names a pattern that is no regular expression."""
    try:
        return re.compile(pattern, flags)
    except (re.error, TypeError, OverflowError, RecursionError) as error:
        raise UsageError(f"{pattern!r} is no regular expression: {error}") from None
