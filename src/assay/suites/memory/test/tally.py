"""Collects the scores of one memory over all conversations: by metric, by test and by category.

`summary` returns the content of the format's `summary.json`, `entry` the entry of the run's report. Both use the same
values. Headline numbers come from the last test of each conversation, where every question counts once. Intervals are
clustered by conversation, because questions about one conversation are not independent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from msgspec import to_builtins

from assay.core.error_counts import ErrorCounts
from assay.core.judges import JudgeInfo
from assay.core.no_answer import SEARCH_RESULT
from assay.core.report import (
    NO_GROUP,
    AnswerCount,
    Cell,
    Curve,
    Entry,
    Example,
    Examples,
    Metric,
    Point,
    Slice,
    Table,
)
from assay.core.types import Record, Score
from assay.core.usage import ANSWER, BUILD, RETRIEVE, PurposeUsage, add_usage, judge_usage
from assay.scoring.metric_builders import ClusteredValues
from assay.scoring.purpose_table import PurposeNumbers, purpose_numbers, purpose_tables
from assay.store.category_curves import BY_AGE, OF_TESTS
from assay.suites.memory.conversation import read_answers, read_insertion
from assay.suites.memory.test.retention import AgeBin, age_bins
from assay.suites.memory.test.retrieval import retrieval_metrics
from assay.suites.memory.test.scorers import AGE, JUDGED, METRICS, RECALL, metric_label, ordered_metrics
from assay.suites.memory.test.size import SizeTally, size_tables

COUNTS = (
    *("conversations", "failed", "answers", "errors", "failed_searches"),
    *("without_evidence", "unknown_places"),
)
# The report lists this many failed conversations. summary.json has all of them.
MOST_FAILURES = 10

RETRIEVAL_TABLE = "retrieval"

ValuesByMetric = dict[str, ClusteredValues]


def _values_by_metric() -> ValuesByMetric:
    return defaultdict(ClusteredValues)


class MemoryTally:
    """Collects the numbers of one memory, conversation by conversation."""

    def __init__(self, name: str, alias: str = "", *, reference: bool = False) -> None:
        self._name = name
        self._alias = alias or name
        self._reference = reference
        self.counts = dict.fromkeys(COUNTS, 0)
        self.errors = ErrorCounts()
        """Errors of answers. Failed conversations are counted by the run."""
        self._last: ValuesByMetric = _values_by_metric()
        self._tests: dict[int, ValuesByMetric] = defaultdict(_values_by_metric)
        self._categories: dict[str, ValuesByMetric] = defaultdict(_values_by_metric)
        # By conversation: the messages inserted before each of its tests. By conversation and test: its values.
        self._tests_after: dict[int, Sequence[int]] = {}
        self._test_values: dict[tuple[int, int], dict[str, list[float | str]]] = {}
        # The age of the evidence of each answer, and by metric: age, value, conversation.
        self._ages: list[int] = []
        self._age_values: dict[str, list[tuple[int, float | str, int]]] = defaultdict(list)
        self._size = SizeTally()
        self._failures: list[dict[str, str]] = []
        self._usage: dict[str, PurposeUsage] = {}
        self._seconds: dict[str, list[float]] = {BUILD: [], RETRIEVE: [], ANSWER: []}

    def add_conversation(
        self, index: int, tests_after: Sequence[int], records: Sequence[Record], scores: Sequence[Score]
    ) -> None:
        """Add a completed conversation. `tests_after` are the messages inserted before each of its tests."""
        self.counts["conversations"] += 1
        self._tests_after[index] = tests_after
        ages: dict[str, int] = {}
        for score in scores:
            if score.metric == RECALL and score.data and AGE in score.data:
                ages[score.part] = score.data[AGE]
        self._ages += ages.values()
        for score in scores:
            self._add_score(score, index, len(tests_after), ages.get(score.part))
        for _, answer in read_answers(records):
            self.counts["answers"] += 1
            if answer.error is not None:
                self.counts["errors"] += 1
                self.errors.add(answer.error)
            if answer.search_failed:
                self.counts["failed_searches"] += 1
            else:
                self._seconds[RETRIEVE].append(answer.search_seconds)
            # 0 seconds: no model was asked, as with --no-answer.
            if answer.answer_seconds:
                self._seconds[ANSWER].append(answer.answer_seconds)
        insertion = read_insertion(records)
        if insertion is not None:
            self._seconds[BUILD] += insertion.insert_seconds
            self._size.add(insertion.size)
            add_usage(self._usage, insertion.usage)
        add_usage(self._usage, judge_usage(scores))

    def add_failure(self, task_id: str, sample_id: str, reason: str) -> None:
        """Add a conversation that failed before its end. It has no file and no scores."""
        self.counts["failed"] += 1
        self._failures.append({"task_id": task_id, "sample_id": sample_id, "reason": reason})

    def count_evidence(self, places: Sequence[str], message_ids: Collection[str]) -> None:
        """Count one question of the last test whose evidence names missing messages, and those messages.

        A question has no evidence recall if the conversation has none of the messages in its evidence.
        """
        unknown = sum(place not in message_ids for place in places)
        self.counts["unknown_places"] += unknown
        self.counts["without_evidence"] += unknown == len(places)

    def _add_score(self, score: Score, conversation: int, last_test: int, age: int | None) -> None:
        # Only judged scores may lack a value and still count: they are counted by their status.
        if score.value is None and score.metric != JUDGED:
            return
        value = score.status if score.value is None else score.value
        test = int(score.part.partition("/")[0])
        self._tests[test][score.metric].add(value, conversation)
        by_metric = self._test_values.setdefault((conversation, test), {})
        by_metric.setdefault(score.metric, []).append(value)
        if age is not None and score.metric in METRICS:
            self._age_values[score.metric].append((age, value, conversation))
        if test == last_test:
            category = str((score.data or {}).get("category"))
            self._last[score.metric].add(value, conversation)
            self._categories[category][score.metric].add(value, conversation)

    # Curves.

    @property
    def metric_names(self) -> list[str]:
        """The metrics that the last tests have, in the order of the tables."""
        return ordered_metrics(self._last)

    @property
    def _test_count(self) -> int:
        return max(map(len, self._tests_after.values()), default=0)

    def _inserted(self, test: int) -> list[int]:
        """Return the messages inserted before a test, for each conversation that has this test."""
        return [after[test - 1] for after in self._tests_after.values() if len(after) >= test]

    def _values_until(self, test: int) -> tuple[float, ValuesByMetric]:
        """Return a point of the curve over all conversations: mean messages inserted, and all values.

        A conversation with fewer tests is represented by its last test. So every point covers all conversations, the
        x values never decrease, and the last point equals the headline.
        """
        values = _values_by_metric()
        inserted: list[int] = []
        for conversation, after in self._tests_after.items():
            if not after:
                continue
            own_test = min(test, len(after))
            inserted.append(after[own_test - 1])
            by_metric = self._test_values.get((conversation, own_test), {})
            for metric, metric_values in by_metric.items():
                for value in metric_values:
                    values[metric].add(value, conversation)
        return sum(inserted) / len(inserted), values

    def _values_by_age(self) -> list[tuple[AgeBin, ValuesByMetric]]:
        """Return the points of the curve over the age of the evidence: all answers of all tests, in bins."""
        points: list[tuple[AgeBin, ValuesByMetric]] = []
        for age_bin in age_bins(self._ages):
            values = _values_by_metric()
            for metric, aged in self._age_values.items():
                for age, value, conversation in aged:
                    if age_bin.low <= age <= age_bin.high:
                        values[metric].add(value, conversation)
            points.append((age_bin, values))
        return points

    # summary.json of the format.

    def summary(self) -> dict[str, Any]:
        """Return all numbers as JSON values, for `summary.json`."""
        metrics: list[dict[str, Any]] = []
        for name in self.metric_names:
            about = {"filter": "", "metric": name, "aggregation": "mean", "higher_is_better": True}
            metrics.append({**about, **_summary(_metric(name, self._last[name]))})
        tests: list[dict[str, Any]] = []
        curve: list[dict[str, Any]] = []
        for test in range(1, self._test_count + 1):
            inserted = self._inserted(test)
            tests.append(
                {
                    "test_index": test,
                    "conversations": len(inserted),
                    "dialogs_inserted": sum(inserted) / len(inserted),
                    **_summaries(self._tests[test]),
                }
            )
            mean, values = self._values_until(test)
            curve.append({"dialogs_inserted": mean, **_summaries(values)})
        return {
            "alias": self._alias,
            "reference": self._reference,
            "metrics": metrics,
            "counts": {name: count for name, count in self.counts.items() if count or name != "failed_searches"},
            "failures": self._failures,
            "categories": {name: _summaries(values) for name, values in sorted(self._categories.items())},
            "tests": tests,
            "curve": curve,
            "retention": self._retention(),
            "size": to_builtins(self._size.summary()),
            "stages": to_builtins(self.by_purpose()),
        }

    def by_purpose(self) -> dict[str, PurposeNumbers]:
        """Return calls, tokens, cost and seconds of building, searching, answering and judging."""
        return purpose_numbers(self._usage, self._seconds)

    def _retention(self) -> dict[str, Any]:
        """Return the curve over the age of the evidence, and how many answers have no age."""
        return {
            "answers": len(self._ages),
            "without_evidence": self.counts["answers"] - len(self._ages),
            "points": [
                {"age_from": at.low, "age_to": at.high, "age": at.mean, **_summaries(values)}
                for at, values in self._values_by_age()
            ],
        }

    # The report.

    def entry(
        self,
        headline: str | None,
        category_labels: Mapping[str, str],
        judges: Sequence[JudgeInfo],
        retrieval: Sequence[str] = (),
    ) -> Entry:
        """Return the entry of the report. The curves show the metric `headline`; None means no curves.

        `retrieval` are the columns of the table of retrieval metrics, the same for all memories of a run.
        """
        # The name stays that of `--categories` and of summary.json. People read that there is no category.
        labels = {str(None): NO_GROUP, **category_labels}
        slices = [
            Slice(by="category", name=name, label=labels.get(name, ""), metrics=_headlines(values))
            for name, values in sorted(self._categories.items())
        ]
        # Counts that are usually 0 are left out when they are 0.
        counts = {"conversations": self.counts["conversations"]}
        if self.counts["failed"]:
            counts["failed"] = self.counts["failed"]
        counts |= {"asked": self.counts["answers"], "errors": self.counts["errors"]}
        for name in ("failed_searches", "without_evidence", "unknown_places"):
            if self.counts[name]:
                counts[name] = self.counts[name]
        return Entry(
            name=self._name,
            subject=self._name,
            alias=self._alias,
            reference=self._reference,
            metrics=[_metric(name, self._last[name]) for name in self.metric_names],
            counts=counts,
            slices=slices,
            tables=[
                *retrieval_tables({name: _metric(name, self._last[name]) for name in self._last}, retrieval),
                *purpose_tables(self.by_purpose()),
                *size_tables(self._size.summary()),
            ],
            curves=self._curves(headline) if headline else [],
            examples=self._failure_examples(),
            judges=list(judges),
            answered=answered_questions([self]),
            errors=self.errors.all(),
        )

    def _curves(self, metric: str) -> list[Curve]:
        """Return the curves of the metric over the tests, see `curves_of`."""
        all_points: list[Point] = []
        own_points: list[Point] = []
        for test in range(1, self._test_count + 1):
            mean, values = self._values_until(test)
            if metric in values:
                all_points.append(Point(mean, _metric(metric, values[metric])))
            inserted = self._inserted(test)
            if metric in self._tests[test]:
                mean = sum(inserted) / len(inserted)
                own_points.append(Point(mean, _metric(metric, self._tests[test][metric])))
        age_points = [
            Point(at.mean, _metric(metric, values[metric], unit="answer"), (at.low, at.high))
            for at, values in self._values_by_age()
            if metric in values
        ]
        return [*curves_of(metric, all_points, own_points), *age_curves(metric, age_points)]

    def _failure_examples(self) -> list[Examples]:
        if not self._failures:
            return []
        examples = [
            Example(label=f"conversation {failure['task_id']} ({failure['sample_id']})", reason=failure["reason"])
            for failure in self._failures[:MOST_FAILURES]
        ]
        return [Examples(title="conversations without a file", total=len(self._failures), shown=examples)]


def answered_questions(tallies: Collection[MemoryTally]) -> AnswerCount:
    """Return how many questions of all memories have an answer that is no error."""
    asked = sum(tally.counts["answers"] for tally in tallies)
    failed = sum(tally.counts["errors"] for tally in tallies)
    # The evidence is what the memory found, whatever the model made of it. If every search failed, it found nothing.
    searched = asked - sum(tally.counts["failed_searches"] for tally in tallies)
    names = {name for tally in tallies for name in tally.metric_names}
    apart = (RECALL, *retrieval_metrics(names)) if searched else ()
    lacks = "an answer" if searched or not asked else SEARCH_RESULT
    return AnswerCount(asked - failed, asked, "question", apart, lacks)


def curves_of(metric: str, all_points: list[Point], own_points: list[Point]) -> list[Curve]:
    """Return two curves of a metric over the tests.

    A short conversation has fewer tests than a long one. In the first curve it keeps the value of its last test. In the
    second curve each point covers only the conversations that have this test. The second curve is left out if it equals
    the first.
    """
    title = f"{METRICS[metric]}, test by test"
    curves = [Curve(name=metric, x="messages inserted", points=all_points, title=title)]
    if own_points != all_points:
        title = f"{METRICS[metric]} of the conversations that have the test"
        curves.append(Curve(name=f"{metric}{OF_TESTS}", x="messages inserted", points=own_points, title=title))
    return [curve for curve in curves if curve.points]


def age_curves(metric: str, points: list[Point]) -> list[Curve]:
    """Return the curve of a metric over the age of the evidence, or no curve without points."""
    title = f"{METRICS[metric]} by age of the evidence"
    curve = Curve(name=f"{metric}{BY_AGE}", x="messages since the evidence", points=points, title=title)
    return [curve] if points else []


def retrieval_tables(metrics: Mapping[str, Metric], columns: Sequence[str]) -> list[Table]:
    """Return a table of the retrieval metrics in one row: their values, and the number of questions.

    The metrics of the report have the intervals. A metric of fewer questions than the others shows its own number.
    """
    present = [metrics[name] for name in retrieval_metrics(metrics)]
    if not present:
        return []
    questions = max(metric.denominator for metric in present)
    row: list[Cell] = [questions]
    for name in columns:
        metric = metrics.get(name)
        if metric is None or metric.value is None:
            row.append(None)
        elif metric.denominator == questions:
            row.append(f"{metric.value:.3f}")
        else:
            row.append(f"{metric.value:.3f} of {metric.denominator:,}")
    header = ["questions", *(metric_label(name) for name in columns)]
    return [Table(name=RETRIEVAL_TABLE, title="retrieval in the last test", columns=header, rows=[row], names=0)]


def _summaries(values: Mapping[str, ClusteredValues]) -> dict[str, Any]:
    return {name: _summary(_metric(name, values[name])) for name in ordered_metrics(values)}


def _summary(metric: Metric) -> dict[str, Any]:
    """Return a metric in the form of `summary.json`. The judged metric always has `invalid`, even if it is 0."""
    summary: dict[str, Any] = {
        "value": metric.value,
        "n": metric.denominator,
        "clusters": metric.clusters,
        "stderr": metric.stderr,
        "interval": metric.interval,
    }
    if metric.name == JUDGED:
        summary["invalid"] = 0
    return summary | metric.left_out


def _headlines(values: Mapping[str, ClusteredValues]) -> list[Metric]:
    return [_metric(name, values[name]) for name in METRICS if name in values]


def _metric(name: str, values: ClusteredValues, unit: str = "question") -> Metric:
    """Return a mean over questions. A judged metric may leave questions out: invalid verdicts, or judge not asked."""
    left_out: dict[str, int] = {}
    if values.left_out["invalid"]:
        left_out["invalid"] = values.left_out["invalid"]
    if values.left_out["not_applicable"]:
        left_out["not_judged"] = values.left_out["not_applicable"]
    reason = "" if len(values) else "no answer was judged"
    return values.metric(
        name,
        label=metric_label(name),
        unit=unit,
        left_out=left_out,
        reason=reason,
        table="" if name in METRICS else RETRIEVAL_TABLE,
    )
