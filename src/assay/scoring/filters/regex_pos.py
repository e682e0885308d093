"""Filter `regex_pos`: extracts part-of-speech tags from replies such as `[('I', 'PRON'), ('run', 'VERB')]`."""

from __future__ import annotations

import re
from typing import Any

from assay.language.patterns import compile_pattern
from assay.scoring.filters import Filter

_TAGGED_WORD = re.compile(r"\('([^']*)', '([^']*)'\)")


def build(*, regex_pattern: str = r"\['(.*?)'\]", group_select: int = 0, fallback: list[str] | None = None) -> Filter:
    """Return the filter. Each reply becomes its list of tags, or `fallback` if it has none.

    `regex_pattern` and `group_select` have no effect, as in lm-evaluation-harness.
    """
    compile_pattern(regex_pattern)
    default_tags = ["invalid"] if fallback is None else fallback

    def tags(reply: Any) -> list[str]:
        pairs = _TAGGED_WORD.findall(reply) if isinstance(reply, str) else reply
        return [tag for _, tag in pairs] or default_tags

    return lambda replies: [tags(reply) for reply in replies]
