"""Reads YAML that other programs wrote: bounded in size and in what its aliases unfold to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from assay.core.errors import InputError, Problem, unreadable
from assay.files.bounds import refuse_special_file
from assay.files.foreign_json import MAX_DEPTH

MAX_YAML_BYTES = 1 << 26
"""YAML takes a hundred times as long as JSON: a file of this size about a minute."""
_MAX_VALUES = 5_000_000
"""Values of a file after its aliases are unfolded. Ten aliases of ten aliases unfold to billions."""


def read_yaml(path: Path) -> Any:
    """Return the value of a YAML file, with dates as text. Raises InputError if it is no YAML, or too large."""
    try:
        refuse_special_file(path)
        size = path.stat().st_size
        if size > MAX_YAML_BYTES:
            raise InputError(
                Problem(str(path), f"has {size:,} bytes; a YAML file may have {MAX_YAML_BYTES:,}. Export JSON")
            )
        text = path.read_bytes()
    except OSError as error:
        raise InputError(unreadable(path, error)) from None
    return decode_yaml(text, str(path))


def decode_yaml(text: str | bytes, where: str) -> Any:
    """Do what `read_yaml` does, for a text. `where` names it in messages."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the compiled one is missing on some platforms
    try:
        # Events come one by one. The loader itself calls itself for each level, and would overflow the stack.
        depth = 0
        for event in yaml.parse(text, Loader=loader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH:
                raise InputError(Problem(where, f"is nested more than {MAX_DEPTH} levels deep"))
        value = yaml.load(text, Loader=loader)  # noqa: S506 - a safe loader
    except yaml.YAMLError as error:
        raise InputError(Problem(where, f"is not YAML: {error}")) from None
    except (ValueError, RecursionError, OverflowError) as error:
        raise InputError(Problem(where, f"is not YAML: {type(error).__name__}: {error}")) from None
    _check_size(value, where)
    # JSON has no dates, and its objects have text keys only.
    return json.loads(json.dumps(_with_plain_keys(value), default=str))


def _with_plain_keys(value: Any) -> Any:
    """Return the value with keys that JSON can write. In YAML a date may be a key too."""
    if isinstance(value, dict):
        return {
            key if key is None or isinstance(key, (str, int, float)) else str(key): _with_plain_keys(item)
            for key, item in value.items()
        }
    return [_with_plain_keys(item) for item in value] if isinstance(value, list) else value


def _check_size(value: Any, where: str) -> None:
    level, count, depth = [value], 0, 0
    while level:
        depth += 1
        count += len(level)
        if depth > MAX_DEPTH:
            raise InputError(Problem(where, f"is nested more than {MAX_DEPTH} levels deep"))
        deeper: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                deeper.extend(item.values())
            elif isinstance(item, (list, tuple, set)):
                deeper.extend(item)
            if count + len(deeper) > _MAX_VALUES:
                raise InputError(Problem(where, f"unfolds to more than {_MAX_VALUES:,} values"))
        level = deeper
