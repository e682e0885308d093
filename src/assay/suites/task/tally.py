"""Collects a task's scores in data order and aggregates them. Every number has a denominator.

Data order matters: bootstrap draws and sums of floats must give the same digits as in the harness.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import groupby
from sys import float_info
from typing import Any

from msgspec import Struct

from assay.core.errors import AssayError
from assay.core.report import Interval, Metric
from assay.core.types import BAD_CASE, End, Score
from assay.files.excerpt import cut_end
from assay.scoring.intervals import statistic_interval, t_interval, wilson
from assay.scoring.metric_builders import undeclared_warning
from assay.scoring.statistics import left_sum, pass_at_k, stderr
from assay.suites.task.catalog import GroupMetric, TaskGroup
from assay.suites.task.metrics import TaskMetric, no_group_value
from assay.suites.task.samples import sample_value
from assay.suites.task.scorer import TaskScoring
from assay.usercode.errors import is_failure, last_line, raised_as
from assay.usercode.source import place_of

# Why a document that has an answer is left out: there is no score of it.
_NOT_SCORED = "not scored"
# Why a document is left out of which no request can be made.
_BAD_DATA = "bad data"


class MetricResult(Struct, kw_only=True):
    """One number of a task, for one filter and metric.

    `value` is the return value of the aggregation. It may be any object; results files show it unchanged.
    None with a `reason` means that the aggregation raised an exception, or that `process_results` never returned the
    metric. None without a reason means that no document was scored.
    """

    filter: str
    metric: str
    aggregation: str
    count: int
    left_out: dict[str, int]
    value: Any = None
    stderr: float | None = None
    higher_is_better: bool | None = None
    numerator: int | None = None
    is_share: bool = False
    """True if the number is a mean of right (1) and wrong (0) answers, or of shares of right ones."""
    interval: Interval | None = None
    interval_method: str = ""
    reason: str = ""
    warning: str = ""


class MetricScores:
    """All values of one filter and metric in data order, and counts of the documents without a value."""

    def __init__(self, part: str, metric: TaskMetric) -> None:
        self.part = part
        self.metric = metric
        self.left_out: Counter[str] = Counter()
        # An array needs 8 bytes per value. The first value that is not a float turns it into a list.
        self._values: Any = array("d")

    def add(self, score: Score) -> None:
        """Add the score of one case."""
        if score.status != "scored":
            self.left_out[score.status] += 1
            return
        value = sample_value(score)
        if type(value) is not float and isinstance(self._values, array):
            self._values = self._values.tolist()
        self._values.append(value)

    def result(self, draws: int, without_scores: Counter[str]) -> MetricResult:
        """Aggregate the values. `draws` is the number of bootstrap draws for the standard error.

        `without_scores` counts the documents that have no scores at all, by reason.
        """
        metric, values = self.metric, self._values
        result = MetricResult(
            filter=self.part,
            metric=metric.name,
            aggregation=metric.aggregation,
            count=len(values),
            left_out=dict(without_scores + self.left_out),
        )
        if not len(values):
            return result
        result.higher_is_better = metric.higher_is_better
        try:
            value, error = metric.aggregate(values), stderr(metric.aggregation, values, draws)
        except BaseException as problem:
            # The user's aggregation failed. All requests are paid, so the run reports the other numbers.
            if isinstance(problem, AssayError) or not is_failure(problem):
                raise
            place = last_line(problem).partition(": ")[0]
            result.reason = f"{metric.aggregation} raised {raised_as(problem)}{_at(place)}"
            return result
        result.value, result.stderr = value, error
        result.is_share = self._is_share()
        if result.is_share and all(number in (0.0, 1.0) for number in values):
            result.numerator = values.count(1.0)
            result.interval = wilson(result.numerator, len(values))
            result.interval_method = "wilson"
        elif metric.aggregation == "mean" and not result.is_share:
            if metric.higher_is_better is not False:
                result.warning = undeclared_warning(values, "right_wrong: true in metric_list")
            if error is not None and _is_finite(value):
                bounds = t_interval(value, error * error, len(values) - 1)
                result.interval, result.interval_method = bounds
        else:
            bounds = statistic_interval(value, error, len(values), is_share=result.is_share)
            result.interval, result.interval_method = bounds
        if not _is_finite(value):
            place = _at(place_of(metric.aggregate)) if metric.aggregation.startswith("!function") else ""
            comma = "," if place else ""
            text = cut_end(repr(value), 200)
            result.reason = f"{metric.aggregation} returned {text}, which is not a finite number{comma}{place}"
        return result

    def _is_share(self) -> bool:
        """Return True for a mean of answers that are right or wrong: the metric says so, or every value is a bool.

        The range of the values is no evidence: seconds, or differences that are all 0, can lie between 0 and 1 too.
        """
        if self.metric.aggregation != "mean":
            return False
        if self.metric.right_wrong:
            return all(0 <= value <= 1 for value in self._values)
        return all(type(value) is bool for value in self._values)


def _at(place: str) -> str:
    return f" at {place}" if place else ""


def _is_finite(value: Any) -> bool:
    return isinstance(value, (int, float)) and abs(value) <= float_info.max


class RepeatMeans(Struct):
    """pass@k and maj@k over the documents of a task, for every k."""

    metric: str
    documents: int
    pass_at: list[float]
    majority_at: list[float]


class RepeatTally:
    """Counts correct repeats and correct majority votes over the documents of a task."""

    def __init__(self) -> None:
        self._documents_by_right: Counter[int] = Counter()
        self._right_votes: list[int] = []
        self._documents = 0
        self._metric = ""
        self._unanswered: Counter[str] = Counter()

    def add_unanswered(self, metric: str) -> None:
        """Add a document without an answer that the metric counts as wrong: all its repeats are wrong."""
        self._unanswered[metric] += 1

    def add(self, repeats: dict[str, Any]) -> None:
        """Add one document. It is ignored if it has another number of repeats than the first document."""
        votes = repeats["votes"]
        if not self._documents:
            self._metric, self._right_votes = repeats["metric"], [0] * len(votes)
        if len(votes) != len(self._right_votes):
            return
        self._documents += 1
        self._documents_by_right[repeats["right"]] += 1
        for position, vote in enumerate(votes):
            self._right_votes[position] += vote == "1"

    def result(self) -> RepeatMeans | None:
        """Return the means for every k; None if no document has an answer.

        The denominator is that of the metric: a document without an answer counts as wrong in both.
        """
        if not self._documents:
            return None
        documents = self._documents + self._unanswered[self._metric]
        repeats = len(self._right_votes)
        passed = []
        for k in range(1, repeats + 1):
            # pass@k depends only on the number of correct repeats, so it is computed once per number.
            chances = [pass_at_k(repeats, right, k) * count for right, count in self._documents_by_right.items()]
            passed.append(sum(chances) / documents)
        majority = [count / documents for count in self._right_votes]
        return RepeatMeans(self._metric, documents, passed, majority)


class TaskNumbers(Struct):
    """All numbers of one task."""

    counts: dict[str, int]
    metrics: list[MetricResult]
    repeats: dict[str, RepeatMeans]

    @property
    def answered(self) -> int:
        """The number of documents with a reply or a `subject_error`. Failures of the infrastructure do not count."""
        return self.counts["ok"] + self.counts["subject_error"]


class TaskTally:
    """Counts a task's cases and collects their scores, in data order."""

    def __init__(self, scoring: TaskScoring, judge_scores: MetricScores | None = None) -> None:
        self._scoring = scoring
        self._judge_scores = judge_scores
        # By filter and metric, in the order in which the scores of documents have them.
        self._tallies: dict[str, dict[str, MetricScores]] = {chain.name: {} for chain in scoring.chains}
        self._repeats = {chain.name: RepeatTally() for chain in scoring.chains}
        self._counts = {"ok": 0, "subject_error": 0, "infra_error": 0, "unfinished": 0}
        self._without_scores: Counter[str] = Counter()
        # The user's Python code may return the names of metrics. If it raises for a document, assay does not know
        # the names. Such documents are counted per filter, and added to all metrics of that filter at the end.
        self._learns_names = scoring.process is not None or any(
            metric.user_function for metric in scoring.metrics.values()
        )
        self._without_names: dict[str, Counter[str]] = {chain.name: Counter() for chain in scoring.chains}

    def add(self, end: End | None, scores: list[Score], verdicts: Sequence[Score] = ()) -> None:
        """Add one case: its end (None if unfinished), its scores, and the judge's scores."""
        is_bad = end is not None and end.failure is not None and end.failure.kind == BAD_CASE
        status = end.status if end else "unfinished"
        self.add_case(status, scores, verdicts, reason=_BAD_DATA if is_bad else status)

    def add_case(self, status: str, scores: list[Score], verdicts: Sequence[Score] = (), *, reason: str = "") -> None:
        """Do what `add` does, for the status of a case. `reason` says why it is left out if it has no scores."""
        reason = reason or status
        self._counts[status] += 1
        if self._judge_scores is not None:
            for verdict in verdicts:
                self._judge_scores.add(verdict)
            if not verdicts:
                self._judge_scores.left_out["not judged" if status in ("ok", "subject_error") else reason] += 1
        if not scores:
            self._without_scores[_NOT_SCORED if status == "ok" else reason] += 1
            return
        for score in self._with_names(scores) if self._learns_names else scores:
            tallies = self._tallies[score.part]
            tally = tallies.get(score.metric)
            if tally is None:
                of = (score.data or {}).get("of", "")
                tally = MetricScores(score.part, self._scoring.metric(score.metric, of))
                tallies[score.metric] = tally
            tally.add(score)
            if score.data and "repeats" in score.data:
                self._repeats[score.part].add(score.data["repeats"])
            elif status == "subject_error" and score.status == "scored":
                self._repeats[score.part].add_unanswered(score.metric)

    def _with_names(self, scores: list[Score]) -> Iterator[Score]:
        """Yield the scores of filters with at least one value. Other filters are counted in `_without_names`."""
        for part, group in groupby(scores, key=lambda score: score.part):
            filter_scores = list(group)
            if any(score.status == "scored" for score in filter_scores):
                yield from filter_scores
            else:
                self._without_names[part][filter_scores[0].status] += 1

    def numbers(self, draws: int) -> TaskNumbers:
        """Return the numbers of every filter and metric, and the number of documents by status."""
        metrics = []
        # Metrics that every scored document has. They are listed in the report even without any score. Names
        # of metrics that the task's Python returns are known only once a score has them.
        declared: list[TaskMetric] = []
        if self._scoring.process is None and self._scoring.output == "generate_until":
            declared = [metric for metric in self._scoring.metrics.values() if not metric.user_function]
        for part, tallies in self._tallies.items():
            part_tallies = list(tallies.values())
            part_tallies += [MetricScores(part, metric) for metric in declared if metric.name not in tallies]
            without = self._without_scores + self._without_names[part]
            reason = ""
            if not part_tallies and (self._without_names[part] or without[_NOT_SCORED]):
                # No document was scored, so no metric name is known. Show the task file's metrics without values.
                part_tallies = [MetricScores(part, metric) for metric in self._scoring.metrics.values()]
                if self._scoring.process is not None and without[_NOT_SCORED]:
                    place = place_of(self._scoring.process)
                    reason = f"process_results{f' ({place})' if place else ''} never returned "
            for tally in part_tallies:
                result = tally.result(draws, without)
                if reason:
                    result.reason = f"{reason}{tally.metric.name!r}"
                metrics.append(result)
        if self._judge_scores is not None:
            metrics.append(self._judge_scores.result(draws, Counter()))
        repeats = {}
        for part, repeat_tally in self._repeats.items():
            means = repeat_tally.result()
            if means:
                repeats[part] = means
        return TaskNumbers(self._counts, metrics, repeats)


# Groups


def aggregate_group(group: TaskGroup, results: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return a group's entry in the results file, from the entries of its tasks."""
    entry: dict[str, Any] = {"alias": group.alias, "name": group.name}
    if not group.metrics:
        return entry
    names = dict.fromkeys(task.name for task in group.tasks())
    # With `--samples` only some tasks of the group may have run.
    tasks = [results[name] for name in names if name in results]
    entry["sample_len"] = sum(task["sample_len"] for task in tasks)
    counts = {}
    for metric in group.metrics:
        filters = metric.filters
        if filters is None:
            start = f"{metric.metric},"
            filters = sorted({key[len(start) :] for task in tasks for key in task if key.startswith(start)})
        for part in filters:
            key, error = f"{metric.metric},{part}", f"{metric.metric}_stderr,{part}"
            with_value = [task for task in tasks if isinstance(task.get(key), (int, float))]
            if with_value:
                entry[key], entry[error] = _group_mean(metric, with_value, key, error)
                counts[key] = sum(task["sample_len"] for task in with_value)
    if counts:
        entry["sample_count"] = counts
    return entry


def missing_results(group: TaskGroup, entry: dict[str, Any]) -> list[MetricResult]:
    """Return a number without a value for each metric and filter of the group that no task has, for the report."""
    missing = []
    for metric in group.metrics:
        found = [key.partition(",")[2] for key in entry if key.startswith(f"{metric.metric},")]
        parts = [""] if metric.filters is None and not found else metric.filters or ()
        for part in parts:
            if part not in found:
                reason = no_group_value(metric.metric, part)
                result = MetricResult(
                    filter=part,
                    metric=metric.metric,
                    aggregation="mean of tasks",
                    count=0,
                    left_out={},
                    reason=reason,
                )
                missing.append(result)
    return missing


def _group_mean(metric: GroupMetric, tasks: list[dict[str, Any]], key: str, error_key: str) -> tuple[float, Any]:
    """Return the mean over tasks, weighted by size if the group says so, and the harness's pooled standard error."""
    sizes = [task["sample_len"] if metric.weighted else 1 for task in tasks]
    total = sum(sizes)
    value = left_sum([task[key] * size for task, size in zip(tasks, sizes, strict=True)]) / total
    errors = [task[error_key] for task in tasks]
    if "N/A" in errors:
        return value, "N/A"
    if not metric.weighted:
        return value, math.sqrt(left_sum([error**2 for error in errors])) / len(errors)
    # With one document per task the denominator below is 0.
    if total <= len(sizes):
        return value, "N/A"
    spread = left_sum([(size - 1) * error**2 * size for error, size in zip(errors, sizes, strict=True)])
    return value, math.sqrt(spread / (total - len(sizes)) / total)


def report_metric(result: MetricResult) -> Metric:
    """Return the report's metric. A value that is not a finite number becomes None with a reason.

    The results file shows the value unchanged.
    """
    value, reason = result.value, result.reason
    value = float(value) if _is_finite(value) else None
    return Metric(
        name=result.metric,
        value=value,
        denominator=result.count,
        numerator=result.numerator,
        filter=result.filter,
        aggregation=result.aggregation,
        higher_is_better=result.higher_is_better,
        left_out=result.left_out,
        stderr=result.stderr,
        interval=result.interval,
        interval_method=result.interval_method,
        reason=reason,
        warning=result.warning,
    )


def share_names(results: Collection[MetricResult]) -> set[tuple[str, str]]:
    """Return the metrics, each with its filter, that are a share of right answers in every task that has them."""
    others = {(result.metric, result.filter) for result in results if not result.is_share}
    return {(result.metric, result.filter) for result in results} - others


def group_results(entry: dict[str, Any], shares: Collection[tuple[str, str]]) -> list[MetricResult]:
    """Return the numbers of a group's entry in the results file, for the report. `shares` is from `share_names`."""
    results = []
    for key, value in entry.items():
        metric, comma, part = key.partition(",")
        if not comma or metric.endswith("_stderr"):
            continue
        error = entry[f"{metric}_stderr,{part}"]
        result = MetricResult(
            filter=part,
            metric=metric,
            aggregation="mean of tasks",
            count=entry["sample_count"][key],
            left_out={},
            value=value,
            is_share=(metric, part) in shares,
        )
        if isinstance(error, float):
            result.stderr = error
            bounds = statistic_interval(value, error, result.count, is_share=result.is_share)
            result.interval, result.interval_method = bounds
        results.append(result)
    return results
