"""`Check`: one comparison of an output with its expectation; JSON paths; values as short texts for messages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from msgspec import UNSET, Struct

MISSING = UNSET
"""There is no actual value. In JSON the field is left out, so that it differs from null."""


class Check(Struct, frozen=True, omit_defaults=True):
    """The place of a value, the kind of check, and whether it holds.

    `passed` is None where a judge has not answered yet or its verdict is invalid. `expected` and `actual` are
    kept whole; `why` is one short sentence for a failure. `rule` is the id of the rule behind the check.
    """

    path: str
    kind: str
    passed: bool | None
    expected: Any = MISSING
    actual: Any = MISSING
    why: str = ""
    rule: str = ""


def verdict(checks: Iterable[Check]) -> bool | None:
    """False if any check fails. None where nothing was checked, or where a judge's verdict is missing."""
    outcome: bool | None = None
    is_open = False
    for check in checks:
        if check.passed is False:
            return False
        is_open |= check.passed is None
        outcome = True
    return None if is_open else outcome


# JSON paths as people write them: `sentiment`, `scores[2].value`, `["odd.key"].x`, empty for the whole value.

_NEEDS_BRACKETS = re.compile(r"""[.\[\]"\s]|^$""")
_PATH_STEP = re.compile(r"""\.?([^.\[\]"\s][^.\[\]]*)|\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]""")


def child_path(path: str, key: Any) -> str:
    """The path of an object's value. A key with dots, brackets, quotes or spaces stands in brackets."""
    if type(key) is str and key.isidentifier():  # Most keys, and fast.
        return f"{path}.{key}" if path else key
    name = str(key)
    if _NEEDS_BRACKETS.search(name):
        return f"{path}[{json.dumps(name, ensure_ascii=False)}]"
    return f"{path}.{name}" if path else name


def lookup(value: Any, path: str) -> Any:
    """The value at a path, or MISSING. A key that is spelled like the whole path comes first."""
    if isinstance(value, dict) and path in value:
        return value[path]
    position = 0
    while position < len(path):
        step = _PATH_STEP.match(path, position)
        if step is None:
            return MISSING
        position = step.end()
        name, index, quoted = step.groups()
        if index is not None:
            if not isinstance(value, (list, tuple)) or int(index) >= len(value):
                return MISSING
            value = value[int(index)]
        else:
            key = name if quoted is None else json.loads(quoted)
            if not isinstance(value, dict) or key not in value:
                return MISSING
            value = value[key]
    return value


# Values as texts: whole where they are searched, short where a message names them.

_MOST_CHARACTERS = 80
_MOST_NAMES = 8


def as_text(value: Any) -> str:
    """A text as it is, anything else as JSON, so that `contains:` may look into lists and objects."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def short_text(value: Any) -> str:
    """For a message: texts in quotes, the rest as JSON, both cut when long."""
    text = repr(value) if isinstance(value, str) else as_text(value)
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"


def unequal(expected: Any, actual: Any) -> str:
    """The message for two values that are not the same. It names the type where that is what differs."""
    if isinstance(actual, (dict, list, tuple)):
        actual_text = container_text(actual)
    elif isinstance(actual, str) and not isinstance(expected, str):
        actual_text = f"the text {short_text(actual)}"
    else:
        actual_text = short_text(actual)
    return f"expected {short_text(expected)}, found {actual_text}"


def container_text(value: Any) -> str:
    """An object by its keys, a list by its length."""
    if not isinstance(value, dict):
        return f"a list of {counted(len(value), 'item')}"
    return f"an object with {counted(len(value), 'key')}: {name_list(value)}" if value else "an empty object"


def counted(count: int, noun: str) -> str:
    """`1 item`, `2 items`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def name_list(keys: Iterable[Any]) -> str:
    """The first few names, and how many there are besides."""
    names = [str(key) for key in keys]
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
