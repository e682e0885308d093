"""Collects the scores of one memory over all samples and builds its entry of the run's report.

Intervals are clustered by sample, because sessions and questions of one sample are not independent. Metrics leave
invalid verdicts out. Their `over_all` also counts invalid verdicts in the denominator, with value 0.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence

from msgspec import convert
from msgspec.structs import replace

from assay.core import usage
from assay.core.error_counts import ErrorCounts
from assay.core.judges import JudgeInfo
from assay.core.no_answer import SEARCH_RESULT
from assay.core.report import POOLED, AnswerCount, Cell, Entry, Example, Examples, Metric, Slice, Table
from assay.core.types import Record, Score
from assay.core.usage import BUILD, RETRIEVE, PurposeUsage, add_usage, judge_usage
from assay.scoring import questions
from assay.scoring.metric_builders import ClusteredValues, ratio_metric
from assay.scoring.purpose_table import PurposeNumbers, purpose_numbers, purpose_tables
from assay.suites.memory.eval.result_lines import QaLine
from assay.suites.memory.eval.scorers import (
    ANSWER,
    BLEU1,
    CORRECTNESS,
    EVIDENCE,
    F1,
    HALLUCINATION,
    INTERFERENCE,
    METRICS_BY_KIND,
    NOT_CITED,
    RECALL,
    RETRIEVED,
    UPDATE,
    UPDATE_RECALL,
)
from assay.suites.memory.sessions import ANSWER as ANSWER_RECORD, SESSION, USED

# Metrics computed from the scores of another metric.
EVIDENCE_MEAN, ANSWER_MADE_UP, ANSWER_OMITTED = "evidence_mean", "answer_hallucination", "answer_omission"

DIMENSIONS = {
    RECALL: "memory recall",
    CORRECTNESS: "memory correctness",
    UPDATE: "update handling",
    INTERFERENCE: "interference rejection",
    ANSWER: "question answering",
    EVIDENCE: "evidence coverage",
}
"""The six dimensions of the format with their labels, in its order."""
JUDGED = DIMENSIONS | {
    UPDATE_RECALL: "update recall",
    HALLUCINATION: "made-up memories",
    ANSWER_MADE_UP: "made-up answers",
    ANSWER_OMITTED: "omitted answers",
    EVIDENCE_MEAN: "evidence, mean of questions",
    RETRIEVED: "evidence in all retrieved",
}
"""All metrics that need a judge, with their labels."""
LEXICAL = {F1: "token F1", BLEU1: "BLEU-1"}
COUNTS = (
    *("samples", "failed", "sessions", "questions", "unanswered", "errors", "failed_searches"),
    *("citations", "dropped_citations", "replies_without_json"),
)

# Session metrics are means over sessions. Pooled metrics are shares of all pieces of evidence, as the format has them.
_SESSION_METRICS = (RECALL, UPDATE_RECALL, CORRECTNESS, HALLUCINATION)
_POOLED_METRICS = (EVIDENCE, RETRIEVED)
# What a memory stores and finds is judged without the model's answers.
_OF_MEMORIES = (*_SESSION_METRICS, UPDATE, INTERFERENCE, RETRIEVED)
_LOWER_IS_BETTER = (HALLUCINATION, ANSWER_MADE_UP, ANSWER_OMITTED)
_ANSWER_LABELS = {ANSWER_MADE_UP: questions.HALLUCINATION, ANSWER_OMITTED: questions.OMISSION}
_UNITS = {
    **dict.fromkeys(_SESSION_METRICS, "session"),
    **dict.fromkeys((UPDATE, INTERFERENCE), "point"),
    **dict.fromkeys(_POOLED_METRICS, "piece of evidence"),
}
# Metrics by question type and difficulty: with a judge, and without one.
_JUDGED_SLICE, _LEXICAL_SLICE = (ANSWER, EVIDENCE, F1), (F1, BLEU1)
_SLICED = frozenset({*_JUDGED_SLICE, *_LEXICAL_SLICE})
# The kind of question whose verdict a metric is computed from.
_KINDS = {metric: kind for kind, metrics in METRICS_BY_KIND.items() for metric in metrics}
# Limit for summary.json, which keeps the failed samples of the report.
_MOST_FAILURES = 100


class DimensionTally:
    """Collects the scores of one metric: values of valid verdicts, and the number of other verdicts."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._is_pooled = name in _POOLED_METRICS
        self._values = ClusteredValues()
        self._numerator = 0.0
        self._denominator = 0
        self._invalid_units = 0
        self._unasked = 0
        self._left_out: Counter[str] = Counter()

    def add(self, score: Score, cluster: int) -> None:
        """Add one score. An invalid or inapplicable score is only counted."""
        data = score.data or {}
        is_pooled = self._is_pooled
        denominator = data.get("denominator", 1)
        # What is left out is counted in the unit of the denominator: pieces of evidence if they are pooled.
        if score.status == "invalid":
            units = denominator if is_pooled else 1
            self._left_out["invalid"] += units
            self._invalid_units += units
            return
        if score.value is None:
            if score.reason == NOT_CITED:
                self._left_out["not cited"] += len(data.get("evidence", ())) if is_pooled else 1
            elif is_pooled:
                # It has no pieces that could be left out, so the question is named.
                self._left_out["questions without evidence"] += 1
            else:
                self._left_out["not applicable"] += 1
            return
        numerator = data.get("numerator", score.value)
        self._numerator += numerator
        self._denominator += denominator
        if score.reason in questions.TRIVIAL_REASONS:
            self._unasked += denominator if is_pooled else 1
        if is_pooled:
            # One value per piece of evidence, so that the interval is over pieces.
            for number in range(denominator):
                self._values.add(float(number < int(numerator)), cluster)
        elif self._name in _ANSWER_LABELS:
            self._values.add(float(data["labels"] == [_ANSWER_LABELS[self._name]]), cluster)
        else:
            self._values.add(score.value, cluster)

    def metric(self) -> Metric:
        """Return the metric. `beside` has `over_all`, and for session metrics `pooled`, the share of all points."""
        unit = _UNITS.get(self._name, "question")
        metric = self._values.metric(
            self._name,
            label=(JUDGED | LEXICAL)[self._name],
            unit=unit,
            aggregation=POOLED if self._is_pooled else "mean",
            higher_is_better=self._name not in _LOWER_IS_BETTER,
            left_out=dict(self._left_out),
        )
        total = _without_dust(metric.numerator or 0.0)
        beside = {"over_all": ratio_metric(self._name, total, metric.denominator + self._invalid_units, unit=unit)}
        if self._name in _SESSION_METRICS:
            beside["pooled"] = ratio_metric(self._name, _without_dust(self._numerator), self._denominator)
        return replace(metric, numerator=total, beside=beside, unasked=self._unasked)


def _without_dust(total: float) -> float:
    """Round a sum of shares to 9 digits, so that the numerator of 3 sessions is not 2.9999999999999996."""
    return round(total, 9)


class DimensionTallies(dict[str, DimensionTally]):
    """A DimensionTally for each metric, created when the metric is first used."""

    def __missing__(self, name: str) -> DimensionTally:
        """Create an empty tally for this metric."""
        self[name] = DimensionTally(name)
        return self[name]

    def add(self, score: Score, cluster: int) -> None:
        """Add a score to its metric and to the metrics computed from it."""
        self[score.metric].add(score, cluster)
        if score.metric == EVIDENCE:
            self[EVIDENCE_MEAN].add(score, cluster)
        if score.metric == ANSWER:
            for name in _ANSWER_LABELS:
                self[name].add(score, cluster)


class MemoryEvalTally:
    """Collects the numbers of one memory, sample by sample."""

    def __init__(self, name: str, alias: str = "", *, reference: bool = False) -> None:
        self._name = name
        self._usage: dict[str, PurposeUsage] = {}
        self._alias = alias
        self._reference = reference
        self._metrics = DimensionTallies()
        self._types: dict[str, DimensionTallies] = defaultdict(DimensionTallies)
        self._difficulties: dict[str, DimensionTallies] = defaultdict(DimensionTallies)
        self._voted: Counter[str] = Counter()
        self._flaky: Counter[str] = Counter()
        self._invalid_verdicts: set[tuple[int, object]] = set()
        self._failures: list[Example] = []
        self._seconds: dict[str, array[float]] = {purpose: array("d") for purpose in (BUILD, RETRIEVE, usage.ANSWER)}
        self.counts = dict.fromkeys(COUNTS, 0)
        self.errors = ErrorCounts()
        """Errors of answers. Failed samples are counted by the run."""

    def add_sample(
        self,
        cluster: int,
        sessions: int,
        questions: Sequence[QaLine],
        records: Sequence[Record],
        scores: Sequence[Score],
    ) -> None:
        """Add a completed sample with its records and scores. `sessions` is the number of its sessions."""
        self.counts["samples"] += 1
        self.counts["sessions"] += sessions
        for question in questions:
            self.counts["questions"] += 1
            self.counts["unanswered"] += not question.generated_answer.strip()
            self.counts["citations"] += len(question.cited_memories)
        for record in records:
            self._add_record(record)
        for score in scores:
            self._add_score(score, cluster)
        add_usage(self._usage, judge_usage(scores))

    def add_failure(self, index: int, sample_id: str, reason: str) -> None:
        """Add a sample that failed. It has no lines and no scores."""
        self.counts["failed"] += 1
        self._failures.append(Example(label=f"sample {sample_id}", index=index, reason=reason))

    def _add_record(self, record: Record) -> None:
        """Count seconds and citations. The pipeline and record files do not have them."""
        data = record.data
        if record.kind == SESSION:
            self._seconds[BUILD].append(data["seconds"])
        elif record.kind == ANSWER_RECORD:
            if "error" in data:
                self.counts["errors"] += 1
                self.errors.add(data["error"])
            if data.get("search_failed"):
                self.counts["failed_searches"] += 1
            else:
                self._seconds[RETRIEVE].append(data["search_seconds"])
            self.counts["dropped_citations"] += data.get("dropped", 0)
            self.counts["replies_without_json"] += data.get("loose", False)
            if "answer_seconds" in data:
                self._seconds[usage.ANSWER].append(data["answer_seconds"])
        elif record.kind == USED:
            add_usage(self._usage, convert(data["usage"], dict[str, PurposeUsage]))

    def _add_score(self, score: Score, cluster: int) -> None:
        data = score.data or {}
        self._metrics.add(score, cluster)
        if score.status == "invalid":
            # Imported verdicts have no number: one of a part and a kind of question.
            own = data.get("verdict", (score.part, _KINDS.get(score.metric)))
            self._invalid_verdicts.add((cluster, own))
        if "type" in data:
            for group in (self._types[data["type"]], self._difficulties[data["difficulty"]]):
                if score.metric in _SLICED:
                    group[score.metric].add(score, cluster)
        if "stable" in data:
            self._voted[score.metric] += 1
            self._flaky[score.metric] += not data["stable"]

    def entry(self, judges: Sequence[JudgeInfo] = ()) -> Entry:
        """Return the entry of the report. It has all judged metrics if there is a judge, and none otherwise."""
        is_judged = any(name in self._metrics for name in JUDGED)
        names = [*(JUDGED if is_judged else ()), *(name for name in LEXICAL if name in self._metrics)]
        # Counts that are usually 0 are left out when they are 0.
        always = ("samples", "sessions", "questions")
        slice_metrics = _JUDGED_SLICE if is_judged else _LEXICAL_SLICE
        return Entry(
            name=self._name,
            subject=self._name,
            alias=self._alias,
            reference=self._reference,
            metrics=[self._metrics[name].metric() for name in names],
            counts={name: count for name, count in self.counts.items() if count or name in always},
            slices=[
                *_slices("question type", self._types, slice_metrics),
                *_slices("difficulty", self._difficulties, slice_metrics),
            ],
            tables=[*purpose_tables(self.by_purpose()), *self._votes_table()],
            examples=self._failure_examples(),
            judges=list(judges),
            answered=answered_questions([self]),
            errors=self.errors.all(),
            invalid_verdicts=len(self._invalid_verdicts) if is_judged else None,
        )

    def by_purpose(self) -> dict[str, PurposeNumbers]:
        """Return calls, tokens, cost and seconds of building, searching, answering and judging."""
        return purpose_numbers(self._usage, self._seconds)

    def _votes_table(self) -> list[Table]:
        """Return a table of how often the votes of the judge disagree; no table without --votes."""
        rows: list[list[Cell]] = []
        for name, count in self._voted.items():
            rows.append([(JUDGED | LEXICAL).get(name, name), count, self._flaky[name]])
        if not rows:
            return []
        return [Table(name="votes", columns=["score", "verdicts", "votes disagree"], rows=rows)]

    def _failure_examples(self) -> list[Examples]:
        if not self._failures:
            return []
        total, examples = len(self._failures), self._failures[:_MOST_FAILURES]
        return [Examples(title="failed samples", total=total, shown=examples)]


def answered_questions(tallies: Collection[MemoryEvalTally]) -> AnswerCount:
    """Return how many questions of all memories have an answer that is no error."""
    asked = sum(tally.counts["questions"] for tally in tallies)
    failed = sum(tally.counts["errors"] for tally in tallies)
    # What a memory finds is no measure of a memory whose every search raised.
    searched = asked - sum(tally.counts["failed_searches"] for tally in tallies)
    apart = _OF_MEMORIES if searched else tuple(name for name in _OF_MEMORIES if name != RETRIEVED)
    lacks = "an answer" if searched or not asked else SEARCH_RESULT
    return AnswerCount(asked - failed, asked, "question", apart, lacks)


def _slices(by: str, tallies: Mapping[str, DimensionTallies], names: Sequence[str]) -> list[Slice]:
    """Return the metrics of each group of questions. Questions without a group have the empty name."""
    slices = []
    for group, metrics in sorted(tallies.items()):
        group_metrics = [metrics[name].metric() for name in names if name in metrics]
        slices.append(Slice(by=by, name=group, metrics=group_metrics))
    return slices
