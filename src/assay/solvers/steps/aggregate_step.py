"""A step that makes one value of many items: by a built-in strategy, or by the pipeline's own code.

strategy: concat    the items' texts, joined by `separator`
strategy: stats     figures of the `fields`: count, sum, mean, median, ...
strategy: filter    the items for which `condition` holds
strategy: group     the items by the value of `group_by`
strategy: summary   how many worked, how many failed, the mean of `score_field`
strategy: custom    what the step's code returns
"""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Callable, Iterator
from math import isfinite
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from assay.core.expressions import Expression, ExpressionProblem
from assay.solvers.code import Code, CodeRunner
from assay.solvers.steps.code_step import DEFAULT_TIMEOUT, carried_code, require_sandbox, run_code
from assay.solvers.steps.pipeline import ValuePath
from assay.solvers.steps.runner import StepContext, StepFailed, StepRunner

STRATEGIES = ("concat", "stats", "filter", "group", "summary", "custom")
SUMMARY_FIELDS = ("total_count", "success_count", "failure_count", "average_score", "success_rate")

_ALIASES = {"aggregation_strategy": "strategy", "aggregation_code": "code"}
_TEXT_KEYS = ("text", "output", "result")


class AggregateSettings(Struct, frozen=True, kw_only=True):
    """How items are put together. `strategy` says which of the others count. A test may give any of them."""

    strategy: str = "concat"
    separator: str = "\n"
    fields: list[str] = []
    condition: str = ""
    group_by: str = ""
    summary_fields: list[str] = []
    score_field: str = "score"
    include_distribution: bool = False


SETTINGS = AggregateSettings.__struct_fields__


class AggregateStep(Struct, frozen=True, kw_only=True):
    """Takes the list under `items`. `shape` renames and picks from the result."""

    settings: AggregateSettings
    items: str = "items"
    shape: dict[str, ValuePath] = {}
    code: Code | None = None
    own: CodeRunner | None = None
    foreign: CodeRunner | None = None
    timeout: float = DEFAULT_TIMEOUT

    @property
    def limits_itself(self) -> bool:
        """Code runs in a process that must be killed; the built-in strategies have nothing to stop."""
        return self.code is not None

    async def run(self, values: dict[str, Any], ctx: StepContext) -> Any:
        """Return the aggregate, in the shape that the pipeline asks for."""
        items = values.get(self.items)
        if not isinstance(items, list):
            kind = "missing" if items is None else type(items).__name__
            raise StepFailed(f"it aggregates the list {self.items!r}, and that is {kind}")
        if self.settings.strategy != "custom":
            result = self._built_in(items)
        elif self.code is None or self.own is None:
            raise StepFailed("the strategy `custom` needs code", "no_code")
        else:
            result = await run_code(self.own, self.code, items, self.timeout)
        if not self.shape:
            return result
        return {key: path.find({"result": result}) for key, path in self.shape.items()}

    def _built_in(self, items: list[Any]) -> Any:
        settings = self.settings
        if settings.strategy == "concat":
            return concat(items, settings.separator)
        if settings.strategy == "stats":
            return stats(items, settings.fields, distribution=settings.include_distribution)
        if settings.strategy == "filter":
            try:
                condition = Expression(settings.condition)
            except ExpressionProblem as problem:  # a test may give a wrong one
                raise StepFailed(f"condition: {problem}", "bad_setting") from None
            return keep(items, condition)
        if settings.strategy == "group":
            return group(items, settings.group_by)
        return summary(items, settings.summary_fields, settings.score_field)

    def adapted(self, settings: dict[str, Any]) -> StepRunner:
        """Return the step with the settings of a test; its code runs in the sandbox."""
        renamed = {_ALIASES.get(key, key): value for key, value in settings.items()}
        own = {key: renamed[key] for key in SETTINGS if key in renamed}
        step = self
        if own:
            problem = next(settings_problems(own), None)
            if problem is not None:
                raise StepFailed(problem, "bad_setting")
            step = replace(self, settings=replace(self.settings, **own))
        if "code" in renamed:
            step = replace(step, code=carried_code(renamed["code"]), own=require_sandbox(self.foreign))
        return step


def settings_problems(settings: dict[str, Any]) -> Iterator[str]:
    """Yield what is wrong with settings, one sentence each."""
    for key, value in settings.items():
        if key == "strategy" and value not in STRATEGIES:
            yield f"there is no strategy {value!r}; known: {', '.join(STRATEGIES)}"
        elif key in ("fields", "summary_fields"):
            if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
                yield f"{key} is a list of names, not {value!r}"
        elif key in ("separator", "condition", "group_by", "score_field"):
            if not isinstance(value, str):
                yield f"{key} is a text, not {value!r}"
        elif key == "include_distribution" and not isinstance(value, bool):
            yield f"{key} is true or false, not {value!r}"


def concat(items: list[Any], separator: str) -> str:
    """Join the items' texts. An object gives its `text`, else `output`, else `result`, else itself."""
    texts: list[str] = []
    for item in items:
        value = item
        if isinstance(item, dict):
            value = next((item[key] for key in _TEXT_KEYS if key in item), item)
        texts.append(_label(value))
    return separator.join(texts)


def stats(items: list[Any], fields: list[str], *, distribution: bool) -> dict[str, Any]:
    """Return `{total_items, fields: {name: figures}}`; with `distribution`, the count of each value as well."""
    if not fields:
        raise StepFailed("the strategy `stats` needs `fields`", "bad_setting")
    figures: dict[str, dict[str, Any]] = {}
    for name in fields:
        values = [item[name] for item in items if isinstance(item, dict) and item.get(name) is not None]
        figures[name] = _figures(values)
        if distribution:
            figures[name]["distribution"] = dict(Counter(map(_label, values)))
    return {"total_items": len(items), "fields": figures}


def keep(items: list[Any], condition: Expression) -> list[Any]:
    """Return the items for which the condition holds. Fields may be named with or without `item.`."""
    kept: list[Any] = []
    for item in items:
        names = {**item, "item": item} if isinstance(item, dict) else {"item": item}
        if condition.holds(names):
            kept.append(item)
    return kept


def group(items: list[Any], by: str) -> dict[str, list[Any]]:
    """Return items by the value of a field, in order of appearance; those without it under "null"."""
    if not by:
        raise StepFailed("the strategy `group` needs `group_by`", "bad_setting")
    groups: dict[str, list[Any]] = {}
    for item in items:
        value = item.get(by) if isinstance(item, dict) else None
        groups.setdefault(_label(value), []).append(item)
    return groups


def summary(items: list[Any], fields: list[str], score_field: str) -> dict[str, Any]:
    """Count the items that worked and that failed, and average their scores."""
    wrong = [name for name in fields if name not in SUMMARY_FIELDS]
    if wrong:
        names = ", ".join(SUMMARY_FIELDS)
        raise StepFailed(f"there is no summary field {wrong[0]!r}; known: {names}", "bad_setting")
    failures = 0
    scores: list[Any] = []
    for item in items:
        if isinstance(item, dict):
            # An item failed by itself (null) or by its own word.
            failures += item.get("success") is False or bool(item.get("error"))
            if _is_number(item.get(score_field)):
                scores.append(item[score_field])
        else:
            failures += item is None
    figures = {
        "total_count": len(items),
        "success_count": len(items) - failures,
        "failure_count": failures,
        "average_score": _finite(statistics.fmean, scores) if scores else None,
        "success_rate": (len(items) - failures) / len(items) if items else None,
    }
    return {name: figures[name] for name in fields or SUMMARY_FIELDS}


def _figures(values: list[Any]) -> dict[str, Any]:
    """Return the usual figures of numbers, the rate of booleans; anything else is only counted."""
    booleans = [value for value in values if isinstance(value, bool)]
    if booleans and len(booleans) == len(values):
        return {"count": len(booleans), "true": sum(booleans), "rate": sum(booleans) / len(booleans)}
    numbers = [value for value in values if _is_number(value)]
    if not numbers:
        return {"count": len(values)}
    figures = {
        "count": len(numbers),
        "sum": _finite(sum, numbers),
        "mean": _finite(statistics.fmean, numbers),
        "min": min(numbers),
        "max": max(numbers),
    }
    if len(numbers) > 1:
        figures["median"] = _finite(statistics.median, numbers)
        figures["stdev"] = _finite(statistics.stdev, numbers)
    return figures


def _finite(figure: Callable[[list[Any]], Any], numbers: list[Any]) -> Any:
    """Compute a figure. JSON has no number for infinity, so one that is too large fails the step."""
    try:
        value = figure(numbers)
        if isfinite(value):
            return value
    except OverflowError:
        pass
    raise StepFailed("the numbers are too large to be put together", "bad_output")


def _label(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
