"""Collects a task's scores in data order, and makes its numbers of them, each with its denominator."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from assay.core.errors import AssayError
from assay.core.types import End, Record, Score
from assay.scoring.statistics import normal_interval, stderr, wilson
from assay.suites.task.metrics import Metric
from assay.suites.task.repeated import Curves
from assay.suites.task.samples import sample_value
from assay.suites.task.scorer import Scoring


class Tally:
    """All values of one filter and metric, in data order, and what was left out."""

    def __init__(self, part: str, metric: Metric) -> None:
        self.part = part
        self.metric = metric
        self.values: Any = array("d")
        self.left_out: Counter[str] = Counter()

    def add(self, score: Score) -> None:
        """One case's score."""
        if score.status != "scored":
            self.left_out[score.status] += 1
            return
        value = sample_value(score)
        if type(value) is not float and isinstance(self.values, array):
            self.values = self.values.tolist()
        self.values.append(value)

    def summary(self, draws: int, without: Counter[str]) -> dict[str, Any]:
        """The number with its denominator, what was left out and why, and an interval."""
        metric, count = self.metric, len(self.values)
        found: dict[str, Any] = {
            "filter": self.part,
            "metric": metric.name,
            "aggregation": metric.aggregation,
            "n": count,
        }
        if left_out := without + self.left_out:
            found["left_out"] = dict(left_out)
        if not count:
            return {**found, "value": None, "stderr": None, "interval": None}
        found["higher_is_better"] = metric.higher_is_better
        try:
            value, spread = metric.aggregate(self.values), stderr(metric.aggregation, self.values, draws)
        except AssayError:
            raise
        except Exception as error:  # noqa: BLE001 - on values it cannot take, after everything was asked
            reason = f"{metric.aggregation} raised {type(error).__name__}: {error}"
            return {**found, "value": None, "stderr": None, "interval": None, "reason": reason}
        return {**found, "value": value, "stderr": spread, **self._interval(value, spread)}

    def _interval(self, value: Any, error: float | None) -> dict[str, Any]:
        if self.metric.aggregation == "mean" and all(one in (0.0, 1.0) for one in self.values):
            right, count = self.values.count(1.0), len(self.values)
            return {
                "numerator": right,
                "interval": wilson(right, count),
                "interval_method": "wilson",
            }
        interval = normal_interval(value, error) if error is not None else None
        return {"interval": interval, "interval_method": "normal"}


class TaskTally:
    """Counts a task's cases and collects their scores, in data order."""

    def __init__(self, scoring: Scoring, judged: Tally | None = None) -> None:
        self._scoring = scoring
        self._judged = judged
        self._tallies = {
            chain.name: {metric.name: Tally(chain.name, metric) for metric in self._declared(scoring)}
            for chain in scoring.chains
        }
        self._curves = {chain.name: Curves() for chain in scoring.chains}
        self._counts = {"ok": 0, "subject_error": 0, "infra_error": 0, "unfinished": 0}
        self._without: Counter[str] = Counter()
        # Where Python gives the names of metrics, a document it fails on has none of them.
        self._learns = scoring.process is not None or any(metric.own for metric in scoring.metrics.values())
        self._nameless: dict[str, Counter[str]] = {chain.name: Counter() for chain in scoring.chains}

    def _declared(self, scoring: Scoring) -> list[Metric]:
        """Metrics that every scored document has; Python's are learned from what it returns."""
        known = scoring.process is None and scoring.output == "generate_until"
        return [metric for metric in scoring.metrics.values() if not metric.own] if known else []

    def add(
        self, found: tuple[End, list[Record], list[Score]] | None, verdicts: Sequence[Score] = ()
    ) -> None:
        """One case, as the reader gives it, and what a judge said of it."""
        status = found[0].status if found else "unfinished"
        self._counts[status] += 1
        if self._judged is not None:
            self._judge(self._judged, status, verdicts)
        if found is None or not found[2]:
            self._without["not scored" if status == "ok" else status] += 1
            return
        for score in self._named(found[2]) if self._learns else found[2]:
            self._tally(score).add(score)
            if score.data and "repeats" in score.data:
                self._curves[score.part].add(score.data["repeats"])

    def _judge(self, judged: Tally, status: str, verdicts: Sequence[Score]) -> None:
        for verdict in verdicts:
            judged.add(verdict)
        if not verdicts:
            judged.left_out["not judged" if status in ("ok", "subject_error") else status] += 1

    def _named(self, scores: list[Score]) -> Iterator[Score]:
        """The scores of filters that gave some; a filter without any is counted for all its metrics."""
        for part, group in groupby(scores, key=lambda score: score.part):
            own = list(group)
            if any(score.status == "scored" for score in own):
                yield from own
            else:
                self._nameless[part][own[0].status] += 1

    def _tally(self, score: Score) -> Tally:
        tallies = self._tallies[score.part]
        if score.metric not in tallies:
            of = (score.data or {}).get("of", "")
            tallies[score.metric] = Tally(score.part, self._scoring.metric(score.metric, of))
        return tallies[score.metric]

    def _all(self) -> Iterator[Tally]:
        """Every filter's; where no document was scored, the metrics that the task names stand empty."""
        for part, tallies in self._tallies.items():
            yield from tallies.values() or [
                Tally(part, metric) for metric in self._scoring.metrics.values() if self._nameless[part]
            ]

    def summary(self, task: Any, draws: int) -> dict[str, Any]:
        """Every filter and metric, with denominators."""
        found: dict[str, Any] = {
            "alias": task.values.get("task_alias") or task.name,
            "docs": task.original,
            "asked": self._counts["ok"] + self._counts["subject_error"],
            "counts": self._counts,
            "metrics": [
                tally.summary(draws, self._without + self._nameless[tally.part]) for tally in self._all()
            ],
        }
        if self._judged is not None:
            found["metrics"].append(self._judged.summary(draws, Counter()))
        curves = {name: curve for name, each in self._curves.items() if (curve := each.summary())}
        return found | ({"repeats": curves} if curves else {})
