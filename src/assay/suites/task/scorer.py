"""Applies a task's filters and metrics to one document's replies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from sys import float_info
from typing import Any, NamedTuple

from msgspec import Struct

from assay.core.protocols import Context, Scorer, View
from assay.core.types import Case, Score, ScoreStatus
from assay.suites.task import repeated
from assay.suites.task.chains import Chain, Filtered, run_chain
from assay.suites.task.config import GENERATE
from assay.suites.task.likelihoods import measured
from assay.suites.task.metrics import OF_NUMBERS, Metric
from assay.suites.task.outputs import Gold

NO_ANSWER = "no answer"
_LARGEST = float_info.max


class Scoring(NamedTuple):
    """How one task is scored. `process` is the user's `process_results`, which then computes everything."""

    output: str
    chains: list[Chain]
    metrics: dict[str, Metric]
    process: Callable[[dict[str, Any], list[Any]], dict[str, Any]] | None = None

    def metric(self, name: str, of: str = "") -> Metric:
        """By name. A name that the metric `of` gave is made one number as that is; any other is averaged."""
        if name in self.metrics:
            return self.metrics[name]
        return self.metrics[of]._replace(name=name, own=None) if of else Metric(name)


class Verdict(Struct, frozen=True):
    """What is said of one answer by one filter and metric."""

    status: ScoreStatus
    value: float | None = None
    data: dict[str, Any] | None = None
    reason: str = ""


class TaskScorer(Scorer):
    """Scores one case by every filter and metric of its task."""

    def __init__(self, scorer_id: str, tasks: dict[str, Scoring]) -> None:
        self.id = scorer_id
        self._tasks = tasks

    async def score(self, view: View, ctx: Context) -> list[Score]:
        """A score for each filter and metric, filter by filter."""
        scoring = self._tasks[view.case.set]
        if view.end.status == "subject_error":
            return [
                self._without_answer(view.case, chain, metric)
                for chain in scoring.chains
                for metric in scoring.metrics.values()
            ]
        replies = view.records[0].data
        return [score for chain in scoring.chains for score in self._by(view.case, chain, scoring, replies)]

    def _by(self, case: Case, chain: Chain, scoring: Scoring, replies: list[list[Any]]) -> Iterator[Score]:
        gold: Gold = case.gold
        try:
            filtered = [run_chain(chain, repeats, gold.doc) for repeats in replies]
            values = values_of(scoring, gold, [one.value for one in filtered])
        except Exception as error:  # noqa: BLE001 - a filter that fails on one doc costs that doc's score
            invalid = Verdict("invalid", reason=f"{chain.name}: {type(error).__name__}: {error}")
            for metric in scoring.metrics.values():
                yield self._score(case, chain, metric, invalid)
            return
        data = _kept(filtered, scoring, chain, gold, replies)
        for name, (value, of) in values.items():
            metric = scoring.metric(name, of)
            kept = {**data, "of": of} if of else data
            yield self._score(case, chain, metric, _verdict(metric, plain(value), kept))
            data = {}  # the first metric of a filter carries what the filter gave

    def _without_answer(self, case: Case, chain: Chain, metric: Metric) -> Score:
        """No answer is a wrong answer where there is right and wrong; elsewhere it is left out."""
        if metric.right_wrong:
            return self._score(case, chain, metric, Verdict("scored", 0.0, reason=NO_ANSWER))
        return self._score(case, chain, metric, Verdict("not_applicable", reason=NO_ANSWER))

    def _score(self, case: Case, chain: Chain, metric: Metric, verdict: Verdict) -> Score:
        return Score(
            *case.head,
            scorer=self.id,
            metric=metric.name,
            part=chain.name,
            status=verdict.status,
            value=verdict.value,
            reason=verdict.reason,
            data=verdict.data or None,
        )


def _kept(
    filtered: list[Filtered], scoring: Scoring, chain: Chain, gold: Gold, replies: list[list[Any]]
) -> dict[str, Any]:
    """What the journal keeps of a filter's work: its values, the votes, and right answers by repeats."""
    data: dict[str, Any] = {"filtered": [plain(one.value) for one in filtered]}
    if filtered[0].votes:
        data["votes"] = filtered[0].votes
    if len(replies[0]) > 1 and (curve := repeated.curve(scoring, chain, gold, replies[0], right)):
        data["repeats"] = curve
    return data


def values_of(scoring: Scoring, gold: Gold, answers: list[Any]) -> dict[str, tuple[Any, str]]:
    """The values of one document by metric, from what the filters left of each request.

    Beside each the metric that gave it, where that has another name.
    """
    if scoring.process is not None:
        found = dict(scoring.process(gold.doc, [_as_harness(answer) for answer in answers]))
        return {name: (value, "") for name, value in found.items()}
    if scoring.output != GENERATE:
        found = measured(scoring.output, set(scoring.metrics), gold, answers)
        return {name: (value, "") for name, value in found.items()}
    values: dict[str, tuple[Any, str]] = {}
    for metric in scoring.metrics.values():
        if metric.own is not None:
            values |= _called(metric, gold.label, answers[0])
        else:
            values[metric.name] = judge(metric, gold.label, answers[0]), ""
    return values


def _as_harness(answer: Any) -> Any:
    """User code unpacks (logprob, greedy) and may compare it with tuples."""
    pair = isinstance(answer, list) and [type(item) for item in answer] == [float, bool]
    return tuple(answer) if pair else answer


def right(metric: Metric, target: Any, answer: Any) -> bool:
    """Whether one answer is right by a metric that knows right and wrong."""
    return bool(judge(metric, target, answer))


def judge(metric: Metric, target: Any, answer: Any) -> Any:
    """One metric of one answer. Of several targets the best met counts."""
    if metric.measure is None:
        return None
    if isinstance(target, list):
        if metric.aggregation in OF_NUMBERS:
            return max([float(metric.measure(one, answer)) for one in target], default=0.0)
        return metric.measure(answer if answer in target else target[0] if target else "", answer)
    return metric.measure(_cast(target, answer), answer)


def _cast(target: Any, answer: Any) -> Any:
    """The target in the answer's type, so that 7 and "7" can be equal."""
    if type(target) is type(answer) or isinstance(answer, list) or answer is None:
        return target
    return type(answer)(target)


def _called(metric: Metric, target: Any, answer: Any) -> dict[str, tuple[Any, str]]:
    """The user's metric. A mapping that it returns is several metrics."""
    if isinstance(target, list):
        scores = [_call(metric, one, answer) for one in target]
        right = any(one[metric.name] if isinstance(one, dict) else one for one in scores)
        return {metric.name: (1.0 if right else 0.0, "")}
    value = _call(metric, _cast(target, answer), answer)
    if not isinstance(value, dict):
        return {metric.name: (value, "")}
    return {name: (one, "" if name == metric.name else metric.name) for name, one in value.items()}


def _call(metric: Metric, target: Any, answer: Any) -> Any:
    assert metric.own is not None
    try:
        return metric.own(references=[target], predictions=[answer], **metric.options)
    except TypeError as first:
        try:
            return metric.own([target, answer])
        except TypeError:
            raise first from None  # it is called the usual way, and failed inside


def _verdict(metric: Metric, value: Any, data: dict[str, Any]) -> Verdict:
    """A number is the score's value, with its own type beside it; anything else waits for the aggregation.

    A scored case that has neither is NaN, which JSON has no word for.
    """
    if isinstance(value, (int, float)) and -_LARGEST <= value <= _LARGEST:
        kept = data if type(value) is float else {**data, "value": value}
        return Verdict("scored", float(value), kept)
    if metric.aggregation == "nanmean" and value != value:  # noqa: PLR0124 - not a number, which it leaves out
        return Verdict("scored", None, data)
    if metric.aggregation in OF_NUMBERS and metric.aggregate is not None:
        return Verdict("invalid", None, data, f"the metric gave {value!r}, which is no number")
    return Verdict("scored", None, {**data, "value": value})


def plain(value: Any) -> Any:
    """A value as JSON has it: user code may give tuples, sets, or scalars and arrays of numpy."""
    if value is None or (isinstance(value, (str, bool, int, float)) and type(value).__module__ == "builtins"):
        return value
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    return plain(value.tolist()) if hasattr(value, "tolist") else str(value)
