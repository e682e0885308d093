"""Checks values that a memory returns for the result files: metadata of items and traces of hits."""

from __future__ import annotations

import math
from typing import Any

from assay.files.excerpt import cut_end
from assay.files.read import is_deeper

# JSON that people read is not deeper, and the check calls itself for each level.
_MAX_DEPTH = 20


def check_json(name: str, value: Any) -> None:
    """Raise TypeError with the place of a value that JSON cannot express. `name` is the field, such as `trace`."""
    if type(value) is not dict:
        raise TypeError(f"{name} is a dict of JSON values by name, not {cut_end(repr(value), 60)}")
    if is_deeper(value, _MAX_DEPTH):
        raise TypeError(f"{name} is nested more than {_MAX_DEPTH} levels deep")
    _check(name, value)


def _check(place: str, value: Any) -> None:
    # `type`, because numpy.float64 is a float for isinstance, and an enum may be a str.
    if value is None or type(value) in (str, bool, int):
        return
    if type(value) is float and math.isfinite(value):
        return
    if type(value) in (list, tuple):
        for number, item in enumerate(value):
            _check(f"{place}[{number}]", item)
        return
    if type(value) is dict:
        for key, item in value.items():
            if type(key) is not str:
                raise TypeError(f"a key of {place} must be a text, not {cut_end(repr(key), 60)}")
            _check(f"{place}.{key}", item)
        return
    kind = "a number" if type(value) is float else f"of type {type(value).__name__}"
    raise TypeError(
        f"{place} is {cut_end(repr(value), 60)}, {kind} that JSON does not have; use texts, numbers, lists and dicts"
    )
