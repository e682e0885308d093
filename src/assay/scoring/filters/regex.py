"""Filter `regex`: extracts the part of a reply that a pattern matches."""

from __future__ import annotations

from typing import Any

from assay.language.patterns import compile_pattern
from assay.scoring.filters import Filter


def build(
    *, regex_pattern: str = r"#### (\-?[0-9\.\,]+)", group_select: int = 0, fallback: str = "[invalid]"
) -> Filter:
    """Return the filter.

    `group_select` is the index of the match: 0 is the first, -1 the last. If the pattern has several groups, the
    first group that is not empty counts. The default pattern is that of GSM8K.
    """
    find = compile_pattern(regex_pattern).findall

    def extract(reply: Any) -> str:
        matches = find(reply if isinstance(reply, str) else "")
        if not matches:
            return fallback
        match = matches[group_select]
        if isinstance(match, tuple):
            match = next((group for group in match if group), fallback)
        return str(match).strip()

    return lambda replies: [extract(reply) for reply in replies]
