"""A step that combines a list of items into one value.

strategy: concat    the texts of the items, joined by `separator`
strategy: stats     count, sum, mean, median and more for each of `fields`
strategy: filter    the items that meet `condition`
strategy: group     the items, grouped by the value of `group_by`
strategy: summary   number of successes and failures, and the mean of `score_field`
strategy: custom    the return value of the step's code
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

from assay.language.conditions import Expression, ExpressionProblem
from assay.suites.pipeline.code import Code, CodeRunner, Language
from assay.suites.pipeline.steps.code_step import DEFAULT_TIMEOUT, require_sandbox, run_code, testset_code
from assay.suites.pipeline.steps.pipeline import ValuePath
from assay.suites.pipeline.steps.runner import StepContext, StepError, StepRunner

STRATEGIES = ("concat", "stats", "filter", "group", "summary", "custom")
SUMMARY_FIELDS = ("total_count", "success_count", "failure_count", "average_score", "success_rate")

# Names that Prompt Lab uses for the same settings.
_ALIASES = {"aggregation_strategy": "strategy", "aggregation_code": "code"}
# Keys of an item that may hold its text. The first that exists is used.
_TEXT_KEYS = ("text", "output", "result")


class AggregateSettings(Struct, frozen=True, kw_only=True):
    """How items are combined. Each strategy uses some of the settings. A test may override any of them."""

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
    """Combines the list that the step's values have under the key `items`.

    `shape` builds the output from the result: one path into `result` per output key. `runner` and
    `sandbox` run the code of the strategy `custom`, as in a CodeStep. `language` is that of a test's code that
    names none.
    """

    settings: AggregateSettings
    items: str = "items"
    shape: dict[str, ValuePath] = {}
    code: Code | None = None
    language: Language = "python"
    runner: CodeRunner | None = None
    sandbox: CodeRunner | None = None
    timeout: float = DEFAULT_TIMEOUT

    @property
    def enforces_timeout(self) -> bool:
        """True for `code`: after a timeout, its process is killed. Built-in strategies run in this process."""
        return self.code is not None

    async def run(self, values: dict[str, Any], ctx: StepContext) -> Any:
        """Return the combined value, in the `shape` of the pipeline file."""
        items = values.get(self.items)
        if not isinstance(items, list):
            kind = "missing" if items is None else type(items).__name__
            raise StepError(f"the step aggregates the list {self.items!r}, but that value is {kind}")
        if self.settings.strategy != "custom":
            result = self._built_in(items)
        elif self.code is None or self.runner is None:
            raise StepError("the strategy `custom` needs code", "no_code")
        else:
            result = await run_code(self.runner, self.code, items, self.timeout)
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
            # The pipeline's condition was checked at load time. A test's condition was not.
            except ExpressionProblem as problem:
                raise StepError(f"condition: {problem}", "bad_setting") from None
            return filter_items(items, condition)
        if settings.strategy == "group":
            return group(items, settings.group_by)
        return summary(items, settings.summary_fields, settings.score_field)

    def with_settings(self, settings: dict[str, Any]) -> StepRunner:
        """Return the step with the settings of a test. Code from a test runs in the sandbox."""
        renamed = {_ALIASES.get(key, key): value for key, value in settings.items()}
        overrides = {key: renamed[key] for key in SETTINGS if key in renamed}
        step = self
        if overrides:
            problem = next(settings_problems(overrides), None)
            if problem is not None:
                raise StepError(problem, "bad_setting")
            step = replace(self, settings=replace(self.settings, **overrides))
        if "code" in renamed:
            code = testset_code(renamed["code"], renamed.get("language"), self.language)
            step = replace(step, code=code, runner=require_sandbox(self.sandbox))
        return step


def settings_problems(settings: dict[str, Any]) -> Iterator[str]:
    """Yield one message for each invalid setting."""
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
    """Join the texts of the items. The text of an object is its `text`, else `output`, else `result`, else JSON."""
    texts: list[str] = []
    for item in items:
        value = item
        if isinstance(item, dict):
            value = next((item[key] for key in _TEXT_KEYS if key in item), item)
        texts.append(_label(value))
    return separator.join(texts)


def stats(items: list[Any], fields: list[str], *, distribution: bool) -> dict[str, Any]:
    """Return `{total_items, fields: {name: figures}}`. `distribution` adds the count of each value.

    Items without the field, and null values, are left out of its figures.
    """
    if not fields:
        raise StepError("the strategy `stats` needs `fields`", "bad_setting")
    figures: dict[str, dict[str, Any]] = {}
    for name in fields:
        values = [item[name] for item in items if isinstance(item, dict) and item.get(name) is not None]
        figures[name] = _figures(values)
        if distribution:
            figures[name]["distribution"] = dict(Counter(map(_label, values)))
    return {"total_items": len(items), "fields": figures}


def filter_items(items: list[Any], condition: Expression) -> list[Any]:
    """Return the items that meet the condition. It may write a field as `score` or as `item.score`."""
    matches: list[Any] = []
    for item in items:
        names = {**item, "item": item} if isinstance(item, dict) else {"item": item}
        if condition.holds(names):
            matches.append(item)
    return matches


def group(items: list[Any], by: str) -> dict[str, list[Any]]:
    """Group the items by the value of a field, in order of appearance. Items without the field are under "null"."""
    if not by:
        raise StepError("the strategy `group` needs `group_by`", "bad_setting")
    groups: dict[str, list[Any]] = {}
    for item in items:
        value = item.get(by) if isinstance(item, dict) else None
        groups.setdefault(_label(value), []).append(item)
    return groups


def summary(items: list[Any], fields: list[str], score_field: str) -> dict[str, Any]:
    """Count successes and failures, and average the scores. Returns all SUMMARY_FIELDS if `fields` is empty."""
    unknown = [name for name in fields if name not in SUMMARY_FIELDS]
    if unknown:
        names = ", ".join(SUMMARY_FIELDS)
        raise StepError(f"there is no summary field {unknown[0]!r}; known: {names}", "bad_setting")
    failures = 0
    scores: list[Any] = []
    for item in items:
        if isinstance(item, dict):
            failures += item.get("success") is False or bool(item.get("error"))
            if _is_number(item.get(score_field)):
                scores.append(item[score_field])
        else:
            # A batch step writes null for an item that failed.
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
    """Return statistics of numbers, or the rate of booleans. Other values are only counted."""
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
    """Compute a figure. Raises StepError if it is infinite, because JSON has no infinity."""
    try:
        value = figure(numbers)
        if isfinite(value):
            return value
    except OverflowError:
        pass
    raise StepError("the numbers are too large: a sum, mean or deviation is infinite", "bad_output")


def _label(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
