"""Extracts what a pattern finds."""

from __future__ import annotations

from typing import Any

from assay.scoring.filters import Filter
from assay.scoring.patterns import compile_pattern


def build(
    *, regex_pattern: str = r"#### (\-?[0-9\.\,]+)", group_select: int = 0, fallback: str = "[invalid]"
) -> Filter:
    """`group_select` picks among all matches, -1 the last. Of several groups the first with text counts."""
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
