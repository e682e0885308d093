"""JSON paths as people write them: `sentiment`, `scores[2].value`, `["odd.key"].x`, empty for the whole."""

from __future__ import annotations

import json
import re
from typing import Any

from assay.scoring.expectations.checks import MISSING

_ODD = re.compile(r"""[.\[\]"\s]|^$""")
_STEP = re.compile(r"""\.?([^.\[\]"\s][^.\[\]]*)|\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]""")


def below(path: str, key: Any) -> str:
    """The path of an object's value. A key with dots, brackets, quotes or spaces stands in brackets."""
    if type(key) is str and key.isidentifier():
        return f"{path}.{key}" if path else key
    name = str(key)
    if _ODD.search(name):
        return f"{path}[{json.dumps(name, ensure_ascii=False)}]"
    return f"{path}.{name}" if path else name


def lookup(value: Any, path: str) -> Any:
    """What stands there, or MISSING. A key that is spelled like the whole path comes first."""
    if isinstance(value, dict) and path in value:
        return value[path]
    at = 0
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None:
            return MISSING
        value = _step(value, step)
        at = step.end()
        if value is MISSING:
            return MISSING
    return value


def _step(value: Any, step: re.Match[str]) -> Any:
    name, index, quoted = step.groups()
    if index is not None:
        inside = isinstance(value, (list, tuple)) and int(index) < len(value)
        return value[int(index)] if inside else MISSING
    key = name if quoted is None else json.loads(quoted)
    return value.get(key, MISSING) if isinstance(value, dict) else MISSING
