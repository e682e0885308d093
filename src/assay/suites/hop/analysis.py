"""What came of a batch, by profile, tag and difficulty: rates, bands, time, operators, what differs."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from assay.scoring.statistics import percentiles, wilson
from assay.suites.hop.comparing import OUTSIDE, Verdict
from assay.suites.hop.contract import OutputField
from assay.suites.hop.row import DIFFICULTIES, UNTAGGED

NO_PROFILE = "(none)"
_RATES = ("correct_of_all", "correct_of_completed", "completion")
_MOST_DIFFERING = 50
_SHOWN = 200


class Seen(Struct, frozen=True, kw_only=True):
    """One result row, whoever wrote it. `ok` is whether the call worked, `outcome` what the function said."""

    profile: str = NO_PROFILE
    tag: str = UNTAGGED
    difficulty: str = ""
    id: Any = None
    ok: bool = True
    outcome: str = "OK"
    error: str = ""
    said: str = ""
    """The text that stands in place of a result."""
    text: str | None = None
    """The result as files hold it."""
    seconds: float | None = None
    retries: int = 0
    path: list[dict[str, Any]] = []


def retries_of(step: Mapping[str, Any]) -> int:
    """The retries that a step or the statistics of a row tell; files of others may hold anything there."""
    told = step.get("retry_count")
    return told if type(told) is int else 0


class Counts:
    """Rows of one group."""

    def __init__(self) -> None:
        self.total = self.errors = self.completed = self.expecting = self.correct = 0
        self.judged = self.correct_completed = 0

    def add(self, seen: Seen, correct: bool | None) -> None:
        """Completed are those whose call worked and whose result was verified."""
        completed = seen.ok and seen.outcome == "OK"
        self.total += 1
        self.errors += not seen.ok
        self.completed += completed
        if correct is not None:
            self.expecting += 1
            self.correct += correct
            self.judged += completed
            self.correct_completed += completed and correct

    def summary(self) -> dict[str, Any]:
        """Every ratio with numerator and denominator."""
        return {
            "total": self.total,
            "errors": self.errors,
            "completed": self.completed,
            "completion": _rate(self.completed, self.total),
            "correct_of_completed": _rate(self.correct_completed, self.judged),
            "correct_of_all": _rate(self.correct, self.expecting),
        }


def _rate(numerator: int, n: int) -> dict[str, Any]:
    return {
        "value": numerator / n if n else None,
        "numerator": numerator,
        "n": n,
        "interval": wilson(numerator, n),
    }


class Bands:
    """The confusion matrix of one banded field: rows what was expected, columns what came."""

    def __init__(self, names: list[str]) -> None:
        self._names = [*names, OUTSIDE]
        self._counts: Counter[tuple[str, str]] = Counter()

    def add(self, pair: tuple[str, str]) -> None:
        """One row's bands."""
        self._counts[pair] += 1

    def summary(self) -> dict[str, Any]:
        """The matrix, how often the band was right, and how often it was at the other end."""
        total = self._counts.total()
        first, last = self._names[0], self._names[-2]
        crossed = self._counts[first, last] + self._counts[last, first] if first != last else 0
        right = sum(self._counts[name, name] for name in self._names[:-1])
        outside = any(OUTSIDE in pair for pair in self._counts)
        shown = self._names if outside else self._names[:-1]
        matrix = {row: {column: self._counts[row, column] for column in shown} for row in shown}
        return {"matrix": matrix, "accuracy": _rate(right, total), "cross_band": _rate(crossed, total)}


class ProfileAnalysis:
    """All rows of one profile."""

    def __init__(self, fields: Mapping[str, OutputField]) -> None:
        self.all = Counts()
        self._tags: dict[str, Counts] = defaultdict(Counts)
        self._difficulties: dict[str, Counts] = defaultdict(Counts)
        self._bands = {name: Bands(list(field.bands)) for name, field in fields.items() if field.bands}
        self._near: dict[str, list[int]] = {}
        self._seconds = array("d")
        self._operators: dict[str, Counter[str]] = {}
        self._errors: Counter[str] = Counter()
        self._differing: list[dict[str, Any]] = []
        self._differs = 0

    def add(self, seen: Seen, verdict: Verdict) -> None:
        """One row."""
        correct = verdict.correct
        groups = [self.all, self._tags[seen.tag]]
        if seen.difficulty:
            groups.append(self._difficulties[seen.difficulty])
        for group in groups:
            group.add(seen, correct)
        for name, pair in verdict.bands.items():
            self._bands[name].add(pair)
        for name, within in verdict.near.items():
            near = self._near.setdefault(name, [0, 0])
            near[0] += within
            near[1] += 1
        if seen.seconds is not None:
            self._seconds.append(seen.seconds)
        self._operate(seen)
        if correct is False or not seen.ok:
            self._differ(seen, verdict)

    def _operate(self, seen: Seen) -> None:
        if not seen.ok:
            self._errors[seen.error.partition(":")[0][:80]] += 1
        for step in seen.path:
            counts = self._operators.setdefault(str(step.get("op")), Counter())
            counts["calls"] += 1
            counts["ok"] += step.get("status") == "OK"
            counts["retries"] += retries_of(step)

    def _differ(self, seen: Seen, verdict: Verdict) -> None:
        self._differs += 1
        if len(self._differing) < _MOST_DIFFERING:
            why = _why(seen, verdict) if seen.ok else []
            self._differing.append({"id": seen.id, "tag": seen.tag, "error": seen.error, "why": why})

    def _by_difficulty(self) -> list[str]:
        """The known ones from easy to hard, then what files of others call it."""
        known = [name for name in DIFFICULTIES if name in self._difficulties]
        return known + sorted(self._difficulties.keys() - set(known))

    def summary(self, profile: str) -> dict[str, Any]:
        """Everything, as JSON."""
        whole = self.all.summary()
        return {
            "alias": profile,
            "metrics": [_metric(name, whole[name]) for name in _RATES],
            **whole,
            "tags": {tag: counts.summary() for tag, counts in sorted(self._tags.items())},
            "difficulties": {name: self._difficulties[name].summary() for name in self._by_difficulty()},
            "bands": {name: bands.summary() for name, bands in self._bands.items()},
            "within_one": {name: _rate(*near) for name, near in self._near.items()},
            "seconds": percentiles(self._seconds),
            "operators": {name: dict(counts) for name, counts in self._operators.items()},
            "error_kinds": dict(self._errors.most_common(20)),
            "differing": {"count": self._differs, "shown": self._differing},
        }


def _why(seen: Seen, verdict: Verdict) -> list[str]:
    """What a function without a result said instead of one; else each field that differs."""
    if seen.outcome != "OK" and seen.said:
        return [f"{seen.outcome}: {seen.said[:_SHOWN]}"]
    return [f"{check.path}: {check.why}" for check in verdict.wrong]


def _metric(name: str, rate: dict[str, Any]) -> dict[str, Any]:
    about = {"filter": "", "metric": name, "aggregation": "mean", "stderr": None, "higher_is_better": True}
    return {**about, **rate}


class Analysis:
    """Rows of any order, by profile."""

    def __init__(self, fields: Mapping[str, OutputField]) -> None:
        self._fields = fields
        self.profiles: dict[str, ProfileAnalysis] = {}

    def add(self, seen: Seen, verdict: Verdict) -> None:
        """One row, to its profile."""
        if seen.profile not in self.profiles:
            self.profiles[seen.profile] = ProfileAnalysis(self._fields)
        self.profiles[seen.profile].add(seen, verdict)

    def summary(self) -> dict[str, Any]:
        """By profile, in the order in which they came."""
        return {name: analysis.summary(name) for name, analysis in self.profiles.items()}
