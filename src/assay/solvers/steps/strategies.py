"""The built-in ways to aggregate a list of items."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Callable
from math import isfinite
from typing import Any

from assay.core.expressions import Expression
from assay.solvers.steps.failing import StepFailed

NAMES = ("concat", "stats", "filter", "group", "summary", "custom")
SUMMARY_FIELDS = ("total_count", "success_count", "failure_count", "average_score", "success_rate")
_TEXT_KEYS = ("text", "output", "result")


def concat(items: list[Any], separator: str) -> str:
    """The items' texts in order. An object gives its `text`, else `output`, else `result`, else itself."""
    return separator.join(map(_text, items))


def _text(item: Any) -> str:
    if isinstance(item, dict):
        item = next((item[key] for key in _TEXT_KEYS if key in item), item)
    return item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)


def stats(items: list[Any], fields: list[str], *, distribution: bool) -> dict[str, Any]:
    """`{total_items, fields: {name: numbers}}`; with `distribution`, how often each value occurs as well."""
    if not fields:
        raise StepFailed("the strategy `stats` needs `fields`", "bad_setting")
    found = {}
    for name in fields:
        values = [item[name] for item in items if isinstance(item, dict) and item.get(name) is not None]
        found[name] = _numbers(values) | ({"distribution": _counts(values)} if distribution else {})
    return {"total_items": len(items), "fields": found}


def _numbers(values: list[Any]) -> dict[str, Any]:
    """Of numbers their usual figures, of truths their rate; anything else is only counted."""
    truths = [value for value in values if isinstance(value, bool)]
    if truths and len(truths) == len(values):
        return {"count": len(truths), "true": sum(truths), "rate": sum(truths) / len(truths)}
    numbers = [value for value in values if _is_number(value)]
    if not numbers:
        return {"count": len(values)}
    found = {
        "count": len(numbers),
        "sum": _finite(sum, numbers),
        "mean": _finite(statistics.fmean, numbers),
        "min": min(numbers),
        "max": max(numbers),
    }
    if len(numbers) > 1:
        found["median"] = _finite(statistics.median, numbers)
        found["stdev"] = _finite(statistics.stdev, numbers)
    return found


def _finite(figure: Callable[[list[Any]], Any], numbers: list[Any]) -> Any:
    """A figure of numbers, as long as JSON has a number for it."""
    try:
        value = figure(numbers)
        if isfinite(value):
            return value
    except OverflowError:
        pass
    raise StepFailed("the numbers are too large to be put together", "bad_output")


def _counts(values: list[Any]) -> dict[str, int]:
    return dict(Counter(_label(value) for value in values))


def _label(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def keep(items: list[Any], condition: Expression) -> list[Any]:
    """The items for which the condition holds. Fields may be named with or without `item.`."""
    return [item for item in items if condition.holds(names_of(item))]


def names_of(item: Any) -> dict[str, Any]:
    """What a condition may name: the item, and its fields."""
    return {**item, "item": item} if isinstance(item, dict) else {"item": item}


def group(items: list[Any], by: str) -> dict[str, list[Any]]:
    """Items by the value of a field, in order of appearance; those without it stand under "null"."""
    if not by:
        raise StepFailed("the strategy `group` needs `group_by`", "bad_setting")
    found: dict[str, list[Any]] = {}
    for item in items:
        value = item.get(by) if isinstance(item, dict) else None
        found.setdefault(_label(value), []).append(item)
    return found


def summary(items: list[Any], fields: list[str], score_field: str) -> dict[str, Any]:
    """Counts of items that worked and that did not, and the mean of their scores."""
    if unknown := [name for name in fields if name not in SUMMARY_FIELDS]:
        known = ", ".join(SUMMARY_FIELDS)
        raise StepFailed(f"there is no summary field {unknown[0]!r}; known: {known}", "bad_setting")
    failures = sum(map(_failed, items))
    values = [item.get(score_field) for item in items if isinstance(item, dict)]
    scores: list[Any] = [value for value in values if _is_number(value)]
    found = {
        "total_count": len(items),
        "success_count": len(items) - failures,
        "failure_count": failures,
        "average_score": _finite(statistics.fmean, scores) if scores else None,
        "success_rate": (len(items) - failures) / len(items) if items else None,
    }
    return {name: found[name] for name in fields or SUMMARY_FIELDS}


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _failed(item: Any) -> bool:
    """Whether an item of a batch has no result, by itself or by its own word."""
    if not isinstance(item, dict):
        return item is None
    return item.get("success") is False or bool(item.get("error"))
