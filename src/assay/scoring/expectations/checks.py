"""`Check`, the result of one comparison; JSON paths; and short texts of values for messages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from msgspec import UNSET, Struct

from assay.files.excerpt import cut_end

# Stands for a value that does not exist. In JSON the field is left out, so that it differs from null.
MISSING = UNSET


class Check(Struct, frozen=True, omit_defaults=True):
    """The path of a value, the kind of check, and whether it passed.

    `passed` is None if a judge has not answered yet, its verdict is invalid, or a pattern was stopped. `expected` and
    `actual` are the complete values; `why` is a short sentence about a failure. `rule` is the id of the rule behind
    the check.
    """

    path: str
    kind: str
    passed: bool | None
    expected: Any = MISSING
    actual: Any = MISSING
    why: str = ""
    rule: str = ""


def verdict(checks: Iterable[Check]) -> bool | None:
    """Return False if any check failed. None if there are no checks, or if the result of a check is missing."""
    outcome: bool | None = None
    is_open = False
    for check in checks:
        if check.passed is False:
            return False
        is_open |= check.passed is None
        outcome = True
    return None if is_open else outcome


# JSON paths: `sentiment`, `scores[2].value`, `["odd.key"].x`; an empty path is the whole value.

_NEEDS_BRACKETS = re.compile(r"""[.\[\]"\s]|^$""")
_PATH_STEP = re.compile(r"""\.?([^.\[\]"\s][^.\[\]]*)|\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]""")


def child_path(path: str, key: Any) -> str:
    """Return the path of a value in an object. Keys with dots, brackets, quotes or spaces go into brackets."""
    if type(key) is str and key.isidentifier():  # fast path for most keys
        return f"{path}.{key}" if path else key
    name = str(key)
    if _NEEDS_BRACKETS.search(name):
        return f"{path}[{json.dumps(name, ensure_ascii=False)}]"
    return f"{path}.{name}" if path else name


def lookup(value: Any, path: str) -> Any:
    """Return the value at a path, or MISSING. A key that equals the whole path has precedence."""
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


# Values as texts: complete for searching, short for messages.

# Limits that keep a message on one or two lines of a terminal.
_MOST_CHARACTERS = 80
_MOST_NAMES = 8
# Writes what json.dumps writes, without building an encoder for every value.
_encode = json.JSONEncoder(ensure_ascii=False, default=str).encode


def as_text(value: Any) -> str:
    """Return a text unchanged, other values as JSON, so that `contains:` can search lists and objects."""
    return value if isinstance(value, str) else _encode(value)


def short_text(value: Any) -> str:
    """Return a value for a message: texts in quotes, other values as JSON, cut if they are long."""
    return cut_end(repr(value) if isinstance(value, str) else as_text(value), _MOST_CHARACTERS)


def unequal(expected: Any, actual: Any) -> str:
    """Return the message for two different values. It names the type if the types differ."""
    if isinstance(actual, (dict, list, tuple)):
        actual_text = container_text(actual)
    elif isinstance(actual, str) and not isinstance(expected, str):
        actual_text = f"the text {short_text(actual)}"
    else:
        actual_text = short_text(actual)
    return f"expected {short_text(expected)}, found {actual_text}"


def container_text(value: Any) -> str:
    """Describe an object by its keys, a list by its length."""
    if not isinstance(value, dict):
        return f"a list of {counted(len(value), 'item')}"
    return f"an object with {counted(len(value), 'key')}: {name_list(value)}" if value else "an empty object"


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: `1 item`, `2 items`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def name_list(keys: Iterable[Any]) -> str:
    """Return the first few names, and the number of the remaining ones."""
    names = [str(key) for key in keys]
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
