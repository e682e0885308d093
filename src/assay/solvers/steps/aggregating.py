"""A step that makes one thing of many items."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from assay.core.expressions import Expression, ExpressionProblem
from assay.solvers.code import Code, CodeRunner
from assay.solvers.steps import strategies
from assay.solvers.steps.coding import DEFAULT_TIMEOUT, allowed, carried, run_code
from assay.solvers.steps.failing import StepFailed
from assay.solvers.steps.running import Runner, StepContext
from assay.solvers.steps.sources import Source

TOLD = (
    "strategy",
    "separator",
    "fields",
    "condition",
    "group_by",
    "summary_fields",
    "score_field",
    "include_distribution",
)
"""Settings that a test may give, under the names the pipeline file has for them."""
_SAME = {"aggregation_strategy": "strategy", "aggregation_code": "code"}


class Settings(Struct, frozen=True, kw_only=True):
    """How items are put together. `strategy` says which of the others count."""

    strategy: str = "concat"
    separator: str = "\n"
    fields: list[str] = []
    condition: str = ""
    group_by: str = ""
    summary_fields: list[str] = []
    score_field: str = "score"
    include_distribution: bool = False


class AggregateStep(Struct, frozen=True, kw_only=True):
    """Takes the list under `items`, or the only list there is. `shape` renames and picks from the result."""

    settings: Settings
    items: str = "items"
    shape: dict[str, Source] = {}
    code: Code | None = None
    own: CodeRunner | None = None
    foreign: CodeRunner | None = None
    timeout: float = DEFAULT_TIMEOUT

    async def run(self, values: dict[str, Any], ctx: StepContext) -> Any:
        """The result, shaped if the pipeline says so."""
        items = self._items(values)
        result = await self._custom(items) if self.settings.strategy == "custom" else self._built_in(items)
        if not self.shape:
            return result
        return {key: source.find({"result": result}) for key, source in self.shape.items()}

    def _items(self, values: dict[str, Any]) -> list[Any]:
        found = values.get(self.items)
        if not isinstance(found, list):
            kind = "missing" if found is None else type(found).__name__
            raise StepFailed(f"it aggregates the list {self.items!r}, and that is {kind}")
        return found

    def _built_in(self, items: list[Any]) -> Any:
        settings = self.settings
        if settings.strategy == "concat":
            return strategies.concat(items, settings.separator)
        if settings.strategy == "stats":
            return strategies.stats(items, settings.fields, distribution=settings.include_distribution)
        if settings.strategy == "filter":
            return strategies.keep(items, compiled(settings.condition))
        if settings.strategy == "group":
            return strategies.group(items, settings.group_by)
        return strategies.summary(items, settings.summary_fields, settings.score_field)

    async def _custom(self, items: list[Any]) -> Any:
        if self.code is None or self.own is None:
            raise StepFailed("the strategy `custom` needs code", "no_code")
        return await run_code(self.own, self.code, items, self.timeout)

    def adapted(self, told: dict[str, Any]) -> Runner:
        """With the settings of a test; its code runs in the sandbox."""
        told = {_SAME.get(key, key): value for key, value in told.items()}
        given = {key: told[key] for key in TOLD if key in told}
        step = replace(self, settings=checked(given, self.settings)) if given else self
        if "code" in told:
            step = replace(step, code=carried(told["code"]), own=allowed(self.foreign))
        return step


def compiled(condition: str) -> Expression:
    """The condition of a filter; one that a test gives may be wrong."""
    try:
        return Expression(condition)
    except ExpressionProblem as problem:
        raise StepFailed(f"condition: {problem}", "bad_setting") from None


def checked(given: dict[str, Any], base: Settings) -> Settings:
    """Settings over others, with the right types. Raises StepFailed, since a test may give anything."""
    if problem := next(problems(given), None):
        raise StepFailed(problem, "bad_setting")
    return replace(base, **given)


def problems(given: dict[str, Any]) -> Any:
    """What is wrong with settings, one sentence each."""
    lists, texts = ("fields", "summary_fields"), ("separator", "condition", "group_by", "score_field")
    for key, value in given.items():
        if key == "strategy" and value not in strategies.NAMES:
            yield f"there is no strategy {value!r}; known: {', '.join(strategies.NAMES)}"
        elif key in lists and not (isinstance(value, list) and all(isinstance(one, str) for one in value)):
            yield f"{key} is a list of names, not {value!r}"
        elif key in texts and not isinstance(value, str):
            yield f"{key} is a text, not {value!r}"
        elif key == "include_distribution" and not isinstance(value, bool):
            yield f"{key} is true or false, not {value!r}"
