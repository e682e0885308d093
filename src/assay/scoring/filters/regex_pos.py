"""Extracts part-of-speech tags from replies such as `[('I', 'PRON'), ('run', 'VERB')]`."""

from __future__ import annotations

import re
from typing import Any

from assay.scoring.filters import Filter
from assay.scoring.patterns import compile_pattern

_TAGGED = re.compile(r"\('([^']*)', '([^']*)'\)")


def build(
    *, regex_pattern: str = r"\['(.*?)'\]", group_select: int = 0, fallback: list[str] | None = None
) -> Filter:
    """Every reply becomes its list of tags, or `fallback`. The harness ignores the other two options too."""
    compile_pattern(regex_pattern)
    otherwise = ["invalid"] if fallback is None else fallback

    def tags(reply: Any) -> list[str]:
        pairs = _TAGGED.findall(reply) if isinstance(reply, str) else reply
        return [tag for _, tag in pairs] or otherwise

    return lambda replies: [tags(reply) for reply in replies]
