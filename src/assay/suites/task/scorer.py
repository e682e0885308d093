"""Applies a task's filters and metrics to one document's replies."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable
from math import isfinite
from typing import Any, NamedTuple

from msgspec import Struct

from assay.core import registry
from assay.core.errors import InputError, Problem, UsageError
from assay.core.protocols import Context, View
from assay.core.registry import unknown
from assay.core.types import Case, Score, ScoreStatus
from assay.scoring.filters import Filter
from assay.scoring.metrics import Measure
from assay.scoring.statistics import mean
from assay.suites.task.config import TaskConfig

_METRIC_KEYS = frozenset({"metric", "aggregation", "higher_is_better", "hf_evaluate"})
_OF_NUMBERS = frozenset({"mean", "median"})
_MOST_VOTES = 20
NO_ANSWER = "no answer"


class Pipeline(NamedTuple):
    """A named chain of filters."""

    name: str
    steps: list[tuple[str, Filter]]


class Metric(NamedTuple):
    """A metric with its options bound."""

    name: str
    measure: Measure
    aggregation: str
    higher_is_better: bool
    right_wrong: bool


class Filtered(Struct, frozen=True):
    """What a pipeline made of the replies to one request."""

    value: Any
    votes: list[tuple[Any, int]] | None


class Verdict(Struct, frozen=True):
    """What is said of one answer by one filter and metric."""

    status: ScoreStatus
    value: float | None = None
    data: dict[str, Any] | None = None
    reason: str = ""


def pipelines(config: TaskConfig) -> list[Pipeline]:
    """The task's filter pipelines; without any, the first reply as it is."""
    listed = config.values.get("filter_list")
    if not listed:
        return [Pipeline("none", [("take_first", registry.find("filter", "take_first").build())])]
    problems: list[Problem] = []
    found = [_pipeline(config, position, entry, problems) for position, entry in enumerate(listed)]
    if problems:
        raise InputError(problems)
    return found


def _pipeline(config: TaskConfig, position: int, entry: Any, problems: list[Problem]) -> Pipeline:
    place = ("filter_list", position)
    if not isinstance(entry, dict) or "name" not in entry or not isinstance(entry.get("filter"), list):
        problems.append(Problem(config.where(*place), "expected `name` and a list `filter`"))
        return Pipeline("", [])
    steps = []
    for at, step in enumerate(entry["filter"]):
        where = config.where(*place, "filter", at)
        if not isinstance(step, dict) or "function" not in step:
            problems.append(Problem(where, "expected a mapping with the key 'function'"))
            continue
        options = {key: value for key, value in step.items() if key != "function"}
        built = _built("filter", step["function"], options, where, problems)
        if built is not None:
            steps.append((step["function"], built))
    return Pipeline(str(entry["name"]), steps)


def _built(kind: str, name: str, options: dict[str, Any], where: str, problems: list[Problem]) -> Any:
    try:
        return bound(registry.find(kind, name).build, options)
    except (UsageError, ValueError, TypeError) as error:
        problems.append(Problem(where, str(error)))
    except Exception as error:  # noqa: BLE001 - re.error and whatever a plugin raises on wrong options
        problems.append(Problem(where, f"{kind} {name!r}: {error}"))
    return None


def bound(build: Callable[..., Any], options: dict[str, Any]) -> Any:
    """`build(**options)`, with a sentence for options it does not have or does not get."""
    known = inspect.signature(build).parameters
    for option in options:
        if option not in known:
            raise UsageError(unknown("option", str(option), sorted(known) or ["(none)"]))
    for name, parameter in known.items():
        if parameter.default is parameter.empty and name not in options:
            raise UsageError(f"the option {name!r} is missing")
    return build(**options)


def metrics(config: TaskConfig) -> list[Metric]:
    """The task's metrics. Of two with one name the later one counts, as in the harness."""
    listed = config.values.get("metric_list") or [{"metric": "exact_match"}]
    problems: list[Problem] = []
    found: dict[str, Metric] = {}
    for position, entry in enumerate(listed):
        where = config.where("metric_list", position)
        if not isinstance(entry, dict) or not isinstance(entry.get("metric"), str):
            problems.append(Problem(where, "expected a mapping with the key 'metric'"))
        elif metric := _metric(entry, where, problems):
            found[metric.name] = metric
    if problems:
        raise InputError(problems)
    return list(found.values())


def _metric(entry: dict[str, Any], where: str, problems: list[Problem]) -> Metric | None:
    name = entry["metric"]
    try:
        module = registry.find("metric", name)
    except UsageError as error:
        problems.append(Problem(where, str(error)))
        return None
    aggregation = entry.get("aggregation", module.AGGREGATIONS[0])
    if aggregation not in module.AGGREGATIONS:
        message = unknown(f"aggregation for {name}", str(aggregation), list(module.AGGREGATIONS))
        problems.append(Problem(where, message))
        return None
    build = getattr(module, f"build_{aggregation}", module.build)
    options = {key: value for key, value in entry.items() if key not in _METRIC_KEYS}
    try:
        measure = bound(build, options)
    except Exception as error:  # noqa: BLE001 - re.error and whatever a plugin raises on wrong options
        problems.append(Problem(where, f"metric {name!r}: {error}"))
        return None
    higher = entry.get("higher_is_better", module.HIGHER_IS_BETTER)
    return Metric(name, measure, aggregation, higher, module.RIGHT_WRONG)


def run_pipeline(pipeline: Pipeline, replies: list[Any]) -> Filtered:
    """The filtered value, and the votes there were before the first step that chose among several."""
    value: Any = replies
    votes = None
    for name, step in pipeline.steps:
        if (
            votes is None
            and isinstance(value, list)
            and len(value) > 1
            and name in ("majority_vote", "take_first")
        ):
            votes = Counter(map(str, value)).most_common(_MOST_VOTES)
        value = step(value)
    return Filtered(value, votes)


def judge(metric: Metric, target: Any, answer: Any) -> Any:
    """One metric of one answer. Of several targets the best met counts, of several answers their mean."""
    if isinstance(answer, list) and metric.aggregation in _OF_NUMBERS:
        return mean([float(judge(metric, target, one)) for one in answer]) if answer else 0.0
    if isinstance(target, list):
        if metric.aggregation in _OF_NUMBERS:
            return max([float(metric.measure(one, answer)) for one in target], default=0.0)
        return metric.measure(answer if answer in target else target[0] if target else "", answer)
    if type(target) is not type(answer) and not isinstance(answer, list) and answer is not None:
        target = type(answer)(target)
    return metric.measure(target, answer)


class TaskScorer:
    """Scores one case by every filter and metric of its task."""

    def __init__(self, scorer_id: str, tasks: dict[str, tuple[list[Pipeline], list[Metric]]]) -> None:
        self.id = scorer_id
        self._tasks = tasks

    async def score(self, view: View, ctx: Context) -> list[Score]:
        """A score for each filter and metric, filter by filter."""
        chains, measures = self._tasks[view.case.set]
        if view.end.status == "subject_error":
            return [self._without_answer(view.case, chain, metric) for chain in chains for metric in measures]
        replies = view.records[0].data
        return [score for chain in chains for score in self._by_filter(view.case, chain, measures, replies)]

    def _by_filter(
        self, case: Case, chain: Pipeline, measures: list[Metric], replies: list[list[str]]
    ) -> list[Score]:
        try:
            filtered = [run_pipeline(chain, repeats) for repeats in replies]
            values = [judge(metric, case.gold.target, filtered[0].value) for metric in measures]
        except Exception as error:  # noqa: BLE001 - a filter that fails on one doc costs that doc's score
            reason = f"{type(error).__name__}: {error}"
            return [
                self._score(case, chain, metric, Verdict("invalid", reason=reason)) for metric in measures
            ]
        data: dict[str, Any] = {"filtered": [one.value for one in filtered]}
        if filtered[0].votes:
            data["votes"] = filtered[0].votes
        scores = []
        for metric, value in zip(measures, values, strict=True):
            scores.append(self._score(case, chain, metric, _verdict(metric, value, data)))
            data = {}  # the first metric of a filter carries what the filter gave
        return scores

    def _without_answer(self, case: Case, chain: Pipeline, metric: Metric) -> Score:
        """No answer is a wrong answer where there is right and wrong; elsewhere it is left out."""
        if metric.right_wrong:
            return self._score(case, chain, metric, Verdict("scored", 0.0, reason=NO_ANSWER))
        return self._score(case, chain, metric, Verdict("not_applicable", reason=NO_ANSWER))

    def _score(self, case: Case, chain: Pipeline, metric: Metric, verdict: Verdict) -> Score:
        return Score(
            index=case.index,
            case=case.key,
            set=case.set,
            subject=case.subject,
            scorer=self.id,
            metric=metric.name,
            part=chain.name,
            status=verdict.status,
            value=verdict.value,
            reason=verdict.reason,
            data=verdict.data or None,
        )


def _verdict(metric: Metric, value: Any, data: dict[str, Any]) -> Verdict:
    """A number is the score's value; a pair waits in its data for the aggregation."""
    if metric.aggregation not in _OF_NUMBERS:
        return Verdict("scored", None, {**data, "value": value})
    if isinstance(value, (int, float)) and isfinite(value):
        return Verdict("scored", float(value), data)
    return Verdict("invalid", None, data, f"the metric gave {value!r}, which is no number")
