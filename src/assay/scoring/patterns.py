"""Regular expressions from task files."""

from __future__ import annotations

import re

from assay.core.errors import UsageError


def compiled(pattern: str) -> re.Pattern[str]:
    """The pattern, or a sentence that names it."""
    try:
        return re.compile(pattern)
    except (re.error, TypeError) as error:
        raise UsageError(f"{pattern!r} is no regular expression: {error}") from None
