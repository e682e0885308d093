"""Builds the report of an evaluation: for each subject its metrics, its metrics by tag, and its failed cases."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from assay.core.judges import JudgeInfo
from assay.core.report import AnswerCount, Curve, Difference, Entry, Example, Examples, Metric, Point, Slice
from assay.core.suite import CaseResult
from assay.core.types import Score
from assay.scoring import statistics
from assay.scoring.intervals import Bounds, statistic_interval
from assay.scoring.metric_builders import mean_metric, ratio_metric, undeclared_warning
from assay.suites.evaluate.scorers import NO_ANSWER, PAIRS, RIGHT_WRONG, MetricAbout
from assay.usercode.errors import raised_as

# Number of failed cases in the report. `run.cases(failed=True)` returns all of them.
_SHOWN = 10


class MetricValues:
    """The values of one metric in data order. `left_out` counts the cases without a value, by reason."""

    def __init__(self, name: str, about: MetricAbout) -> None:
        self.name = name
        self.about = about
        self.left_out: Counter[str] = Counter()
        self._numbers = array("d")
        self._pairs: list[Any] = []
        self._only_truths = True
        self.repeats: list[list[float]] = []

    def add(self, score: Score | None, why: str) -> None:
        """Add the score of a case. If `score` is None, `why` is the reason."""
        if score is None:
            self.left_out[why] += 1
        elif score.status != "scored":
            self.left_out[score.reason if score.reason == NO_ANSWER else score.status.replace("_", " ")] += 1
        elif score.value is None:
            self._pairs += score.data[PAIRS]
        else:
            self._numbers.append(score.value)
            self._only_truths &= isinstance(score.data, dict) and RIGHT_WRONG in score.data
            repeats = score.data.get("repeats") if isinstance(score.data, dict) else None
            if repeats and all(value in (0.0, 1.0) for value in repeats):
                self.repeats.append(repeats)

    def metric(self) -> Metric:
        """Return the metric with its denominator and interval."""
        left_out, right_wrong = dict(self.left_out), self.about.right_wrong
        if self._pairs:
            return self._corpus_metric(left_out)
        warning = ""
        if right_wrong is None and not self._only_truths and self.about.higher_is_better is not False:
            warning = undeclared_warning(self._numbers, "assay.scorer(function, right_wrong=True)")
        return mean_metric(
            self.name,
            self._numbers,
            right_wrong=self._only_truths if right_wrong is None else right_wrong,
            left_out=left_out,
            higher_is_better=self.about.higher_is_better,
            warning=warning,
        )

    def _corpus_metric(self, left_out: dict[str, int]) -> Metric:
        """Return a metric that is computed from all cases at once, such as BLEU."""
        aggregation, pairs = self.about.aggregation, self._pairs
        value, error, reason = None, None, ""
        try:
            value = statistics.AGGREGATIONS[aggregation](pairs)
            error = statistics.stderr(aggregation, pairs)
        except Exception as problem:  # noqa: BLE001 - an aggregation fails on values that it cannot take
            reason = f"{aggregation} raised {raised_as(problem)}"
        bounds = Bounds(None, "") if value is None else statistic_interval(value, error, len(pairs), is_share=False)
        return Metric(
            name=self.name,
            value=value,
            denominator=len(pairs),
            aggregation=aggregation,
            higher_is_better=self.about.higher_is_better,
            left_out=left_out,
            stderr=error,
            interval=bounds.interval,
            interval_method=bounds.method,
            reason=reason,
        )

    def pass_at_k(self) -> Curve | None:
        """Return pass@k, the probability that at least one of k answers is right, for every k.

        None unless every case has the same number of repeats, and each repeat scores 0 or 1.
        """
        counts = {len(repeats) for repeats in self.repeats}
        if len(counts) != 1 or len(self.repeats) < len(self._numbers):
            return None
        points = []
        for k in range(1, counts.pop() + 1):
            chances = [statistics.pass_at_k(len(values), int(sum(values)), k) for values in self.repeats]
            points.append(Point(float(k), ratio_metric(f"pass@{k}", sum(chances), len(chances))))
        return Curve(name=f"pass@k of {self.name}", x="k", points=points, title=f"{self.name}: pass@k")


class Tally:
    """Collects the scores of the cases of one subject, or of one tag."""

    def __init__(self, about: Mapping[str, MetricAbout]) -> None:
        self._about = about
        self.values: dict[str, MetricValues] = {name: MetricValues(name, about[name]) for name in about}
        self.counts = {"ok": 0, "subject_error": 0, "infra_error": 0, "unfinished": 0}

    def add(self, result: CaseResult[int], scorer_of: Mapping[str, str]) -> None:
        """Count one case. `scorer_of` maps the id of a scorer to its name."""
        status = result.end.status if result.end else "unfinished"
        self.counts[status] += 1
        by_name = {score.metric: score for score in result.scores}
        for score in result.scores:
            if score.metric not in self.values:
                about = self._about.get(scorer_of.get(score.scorer, ""), MetricAbout())
                self.values[score.metric] = MetricValues(score.metric, about)
                # A scorer that returns a dict may use a name for the first time here. Earlier cases lack it.
                before = sum(self.counts.values()) - 1
                if before:
                    self.values[score.metric].left_out["no such score"] += before
        why = {"ok": "no such score", "subject_error": NO_ANSWER}.get(status, status.replace("_", " "))
        for name, values in self.values.items():
            values.add(by_name.get(name), why)

    def metrics(self) -> list[Metric]:
        """Return all metrics in the order of the scorers.

        A scorer that always returns a dict has metrics named after the keys, and none under its own name.
        """
        metrics = [values.metric() for values in self.values.values()]
        measured = [
            metric for metric in metrics if metric.denominator or set(metric.left_out) - {"no such score", NO_ANSWER}
        ]
        return measured or metrics


def make_entry(
    subject: str,
    results: Iterable[CaseResult[int]],
    about: Mapping[str, MetricAbout],
    scorer_of: Mapping[str, str],
    judges: Sequence[JudgeInfo],
) -> Entry:
    """Build the report entry of one subject from the results of its cases."""
    whole = Tally(about)
    by_tag: dict[str, Tally] = {}
    failed: list[Example] = []
    total_failed = 0
    for result in results:
        whole.add(result, scorer_of)
        for tag in result.end.tags if result.end else ():
            by_tag.setdefault(tag, Tally(about)).add(result, scorer_of)
        example = _failed_example(result, whole)
        if example is not None:
            total_failed += 1
            if len(failed) < _SHOWN:
                failed.append(example)
    curves = [curve for values in whole.values.values() if (curve := values.pass_at_k()) is not None]
    return Entry(
        name=subject,
        subject=subject,
        metrics=whole.metrics(),
        counts=whole.counts,
        answered=AnswerCount(whole.counts["ok"], sum(whole.counts.values())),
        slices=[Slice(by="tag", name=tag, metrics=tally.metrics()) for tag, tally in by_tag.items()],
        curves=curves,
        examples=[Examples(title="failed cases", total=total_failed, shown=failed)] if failed else [],
        judges=list(judges),
    )


def _failed_example(result: CaseResult[int], tally: Tally) -> Example | None:
    """Return the case for the list of failed cases: it has no answer, or a score that is 0 or invalid.

    None for other cases. A score of 0 does not count where lower is better.
    """
    end = result.end
    if end is None:
        return None
    if end.failure is not None:
        return Example(
            label=end.label,
            index=result.index,
            verdict=end.status,
            reason=f"{end.failure.kind}: {end.failure.message}",
        )
    wrong = []
    for score in result.scores:
        lower_is_better = tally.values[score.metric].about.higher_is_better is False
        if score.status == "invalid" or (score.value == 0 and not lower_is_better):
            wrong.append(score)
    if not wrong:
        return None
    score = wrong[0]
    answer = result.records[0].data if result.records else None
    reason = score.reason.partition("\n")[0]
    verdict = f"{score.metric} {'invalid' if score.value is None else f'{score.value:g}'}"
    differences = []
    if score.expected is not None and score.expected != answer:
        differences = [Difference(expected=score.expected, actual=answer)]
    return Example(label=end.label, index=result.index, verdict=verdict, reason=reason, differences=differences)
