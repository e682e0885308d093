"""Decides whether a run meets its requirements: pass, fail or inconclusive.

    result = gate("results", ["exact_match >= 0.8"], Drop(base="results-main", most=0.02))
    result.verdict, result.decisions[0].reason

A requirement is decided by the 95 % interval of its number. An interval that contains the threshold decides nothing:
the verdict is "inconclusive", and the reason says about how many cases would decide. An interval from too few clusters
decides nothing either. `point=True` decides by the value alone. Against another run, pairs that are all equal pass.

`assay gate --json` prints these structs, so their field names are part of a format.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

from msgspec import Struct, field

from assay.core.errors import UsageError, unknown
from assay.core.judges import JudgeInfo
from assay.core.no_answer import has_no_answer
from assay.core.registry import short
from assay.core.report import CaseCounts, Entry, Interval, Metric, PairedMetric, Report
from assay.journal.integrity import intact_index
from assay.store.comparison import Comparison, compare
from assay.store.comparison.paired_metrics import IN_BOTH, is_sum_row
from assay.store.judges import kappa_problem, with_calibration
from assay.store.metric_names import find_metrics, full_name
from assay.store.runs import RunState, finished_run, split_subject

Verdict = Literal["pass", "fail", "inconclusive"]
EXIT_CODES: dict[Verdict, int] = {"pass": 0, "fail": 1, "inconclusive": 4}

# An inconclusive gate does not ask for more cases than this.
_MOST_CASES = 10_000_000
_REQUIREMENT = re.compile(r"(?P<name>.*?)\s*(?P<operator>>=|<=|>|<)\s*(?P<threshold>\S+)")
_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    ">": operator.gt,
    "<=": operator.le,
    "<": operator.lt,
}


class Requirement(NamedTuple):
    """`set metric,filter@subject >= 0.8`. The name may leave out all but the metric."""

    name: str
    operator: str
    threshold: float

    @classmethod
    def parse(cls, text: str) -> Requirement:
        """Read a requirement. Raises UsageError if it has no name, no operator or no finite number."""
        match = _REQUIREMENT.fullmatch(text.strip())
        try:
            threshold = float(match["threshold"]) if match else math.nan
        except ValueError:
            threshold = math.nan
        if match and match["name"].endswith("=") and not match["operator"].endswith("="):
            meant = f"{match['name'].rstrip('= ')} {match['operator']}= {match['threshold']}"
            raise UsageError(f"cannot read the requirement {text!r}. Did you mean {meant!r}?")
        if match is None or not match["name"] or not math.isfinite(threshold):
            raise UsageError(
                f"cannot read the requirement {text!r}. Write a metric, one of >= > <= < and a number, "
                "such as 'exact_match >= 0.8' or 'gsm8k exact_match,strict@concise >= 0.8'"
            )
        return cls(" ".join(match["name"].split()), match["operator"], threshold)


class Drop(NamedTuple):
    """The largest drop that is allowed against another run. Without `metrics`, the run's first metric counts."""

    base: str
    most: float
    metrics: Sequence[str] = ()


class Decision(Struct, kw_only=True):
    """One requirement with the number that decides it.

    For a drop, `value` and `interval` are those of the paired difference, and `base` and `new` the two means.
    """

    requirement: str
    verdict: Verdict
    reason: str
    value: float | None
    interval: Interval | None
    interval_method: str
    numerator: float | None
    denominator: int
    unit: str
    left_out: dict[str, int] = field(default_factory=dict)
    cases_needed: int | None = None
    """For an inconclusive interval: about how many cases would decide, if the value stays the same."""
    base: float | None = None
    new: float | None = None
    metric: str = ""
    """The name of the metric, without its set, filter and subject."""


class GateResult(Struct, kw_only=True):
    """The decisions about a run. `schema` is the version of the JSON document."""

    schema: int = 1
    verdict: Verdict
    run: str
    folder: str
    suite: str
    model: str
    state: str
    cases: int
    point: bool
    """True if values decided instead of intervals."""
    against: str = ""
    """The folder of the run that drops are measured against."""
    decisions: list[Decision] = field(default_factory=list)
    judges: list[JudgeInfo] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """0 for pass, 1 for fail, 4 for inconclusive."""
        return EXIT_CODES[self.verdict]

    def __str__(self) -> str:
        """`pass: exact_match >= 0.8: the interval lies at or above 0.8`, a line for each requirement."""
        return "\n".join(f"{each.verdict}: {each.requirement}: {each.reason}" for each in self.decisions)


def gate(
    name: str,
    requirements: Sequence[str] = (),
    drop: Drop | None = None,
    *,
    point: bool = False,
    allow_missing: bool = False,
    min_kappa: float | None = None,
) -> GateResult:
    """Decide about a run. `name` is RUN or RUN@SUBJECT.

    A requirement holds for every metric that its name fits. Fail beats inconclusive beats pass. An incomplete run is
    inconclusive unless `allow_missing`. Raises UsageError for an unfinished run, an unknown metric, and a judge
    below `min_kappa`.
    """
    if not requirements and drop is None:
        raise UsageError("name a requirement: --require 'METRIC >= NUMBER', or --against BASE with --max-drop NUMBER")
    run_name, subject = split_subject(name)
    run = finished_run(run_name)
    # The summary may be intact while lines that it was computed from are not.
    intact_index(run.folder, run.summary)
    assert run.summary is not None
    report = run.summary.report or Report()
    judged: list[JudgedDecision] = []
    for text in requirements:
        requirement = Requirement.parse(text)
        for entry, metric in find_metrics(requirement.name, report, subject, run.folder):
            decision = decide_level(requirement, full_name(entry, metric, report), metric, point=point)
            judged.append(JudgedDecision(decision, _judges_of(entry, metric)))
    against, notes = "", [missing_note(run)]
    is_shard = run.info.shard is not None
    if drop is not None:
        base = finished_run(split_subject(drop.base)[0])
        against = str(base.folder)
        if base.folder != run.folder:
            notes.append(missing_note(base))
            is_shard = is_shard or base.info.shard is not None
        result = compare([drop.base, name], flips=0)
        for comparison in result.comparisons:
            judged += _decide_drops(drop, comparison, report, point=point, several=len(result.comparisons) > 1)
    cases = CaseCounts(run.summary.total, run.summary.ok)
    if answered := has_no_answer(report, cases):
        # Errors count as wrong, so two runs without an answer would differ by nothing.
        for decision, _ in judged:
            if decision.metric not in answered.apart:
                decision.verdict, decision.cases_needed = "inconclusive", None
                decision.reason = f"not measured: {answered.none_answered}"
    decisions = [decision for decision, _ in judged]
    notes = [note for note in notes if note]
    remedy = "Decide about the merged run: assay merge" if is_shard else "Repeat the run's command to ask again"
    if notes and not allow_missing:
        for decision in decisions:
            decision.verdict, decision.cases_needed = "inconclusive", None
            decision.reason = f"{'; '.join(notes)}. {remedy}, or pass --allow-missing"
    if drop is not None:
        notes += [note for comparison in result.comparisons for note in comparison.notes]
    judges = list({judge.id: with_calibration(judge) for _, some in judged for judge in some}.values())
    if min_kappa is not None:
        _require_kappa(judges, min_kappa)
    verdicts = {decision.verdict for decision in decisions}
    verdict: Verdict = "pass"
    if verdicts != {"pass"}:
        verdict = "fail" if "fail" in verdicts else "inconclusive"
    return GateResult(
        verdict=verdict,
        run=run.folder.name,
        folder=str(run.folder),
        suite=short(run.info.suite),
        model=str(run.info.spec.get("model", "")),
        state=run.state,
        cases=run.summary.total,
        point=point,
        against=against,
        decisions=decisions,
        judges=judges,
        notes=notes,
    )


class JudgedDecision(NamedTuple):
    """A decision, and the judges behind its number."""

    decision: Decision
    judges: list[JudgeInfo]


def _decide_drops(
    drop: Drop, comparison: Comparison, report: Report, *, point: bool, several: bool
) -> Iterator[JudgedDecision]:
    """Decide about a comparison. With several comparisons, the names of the metrics have the subject."""
    judges = [*comparison.base.judges, *comparison.new.judges]
    for row in _find_rows(drop.metrics, comparison, report):
        name = f"{row.name}@{comparison.new.subject}" if several else row.name
        decision = decide_drop(drop.most, name, row, point=point, is_whole=_is_whole(comparison, row))
        yield JudgedDecision(decision, [judge for judge in judges if row.metric in judge.metrics])


def _is_whole(comparison: Comparison, row: PairedMetric) -> bool:
    """Return whether the pairs of a row are all cases of both sides, except those that count on neither side."""
    if comparison.only_base.count or comparison.only_new.count:
        return False
    return all(reason.endswith(IN_BOTH) for reason in row.left_out)


def missing_note(run: RunState) -> str:
    """Return how many cases of a run have no answer or no score, or that other shards have cases; else ""."""
    summary = run.summary
    assert summary is not None
    if run.info.shard is not None:
        return f"{run.folder.name} is shard {run.info.shard} of its run, not the whole run"
    if run.state != "incomplete":
        return ""
    missing = summary.total - summary.ok - summary.subject_error
    what = f"{missing:,} of {summary.total:,} cases have no answer" if missing else ""
    unscored = f"{summary.unscored:,} cases have no score of the judge" if summary.unscored else ""
    return f"{run.folder.name} is incomplete: " + (", ".join(filter(None, (what, unscored))) or "cases are missing")


# Decisions


def decide_level(requirement: Requirement, name: str, metric: Metric, *, point: bool) -> Decision:
    """Compare a metric with a threshold."""
    sign, threshold = requirement.operator, requirement.threshold
    decision = Decision(
        requirement=f"{name} {sign} {threshold:g}",
        verdict="inconclusive",
        reason="",
        value=metric.value,
        interval=metric.interval,
        interval_method=metric.interval_method,
        numerator=metric.numerator,
        denominator=metric.denominator,
        unit=metric.unit,
        left_out=metric.left_out,
        metric=metric.name,
    )
    if metric.value is None or not math.isfinite(metric.value):
        decision.reason = f"not measured{f': {metric.reason}' if metric.reason else ''}"
        return decision
    holds = _OPERATORS[sign]
    if point:
        decision.verdict = "pass" if holds(metric.value, threshold) else "fail"
        decision.reason = f"the value alone decides (--point): {metric.value:.4g} is {_side(metric.value, threshold)}"
        return decision
    problem = _interval_problem(metric.interval, metric.warning if metric.few_clusters else "")
    if metric.interval is None or problem:
        decision.reason = problem
        if metric.warning and not metric.few_clusters:
            decision.reason += f"; {metric.warning}"
        return decision
    low, high = holds(metric.interval.low, threshold), holds(metric.interval.high, threshold)
    if low and high:
        decision.verdict = "pass"
        decision.reason = f"the whole interval is {sign} {threshold:g}"
    elif not low and not high:
        decision.verdict = "fail"
        decision.reason = f"no value of the interval is {sign} {threshold:g}"
    else:
        decision.reason = f"the interval contains {threshold:g}"
        _add_cases_needed(decision, threshold, metric.clusters)
    return decision


def _side(value: float, threshold: float) -> str:
    if value == threshold:
        return f"equal to {threshold:g}"
    return f"{'above' if value > threshold else 'below'} {threshold:g}"


def decide_drop(most: float, name: str, row: PairedMetric, *, point: bool, is_whole: bool) -> Decision:
    """Compare a paired difference with the largest drop that is allowed. If lower is better, a rise is the drop.

    `is_whole`: the pairs are all cases of both sides, so that equal pairs mean an unchanged system.
    """
    limit = -most if row.higher_is_better else most
    limit += 0.0  # turns -0.0 into 0.0, which prints without a sign
    word = "above" if row.higher_is_better else "below"
    decision = Decision(
        requirement=f"{name} {'drops' if row.higher_is_better else 'rises'} by at most {most:g}",
        verdict="inconclusive",
        reason="",
        value=row.difference,
        interval=row.interval,
        interval_method=row.interval_method,
        numerator=None,
        denominator=row.n,
        unit="pair",
        left_out=row.left_out,
        base=row.base,
        new=row.new,
        metric=row.metric,
    )
    if row.difference is None or not math.isfinite(row.difference):
        decision.reason = "not measured: no pair has two values"
        return decision
    sign = 1 if row.higher_is_better else -1
    if point:
        decision.verdict = "pass" if sign * row.difference >= -most else "fail"
        decision.reason = f"the value alone decides (--point): {row.difference:+.4g} against {limit:+g}"
        return decision
    if row.ties == row.n and most >= 0 and is_whole:
        # An unchanged system has to pass, however few its cases and clusters are. The interval is about other cases.
        decision.verdict = "pass"
        decision.reason = f"no pair differs, and all cases are pairs: {row.n:,}"
        return decision
    problem = _interval_problem(row.interval, row.few_clusters)
    if row.interval is None or problem:
        decision.reason = problem
        return decision
    worst, best = sorted(sign * bound for bound in row.interval)
    if worst > -most:
        decision.verdict = "pass"
        decision.reason = f"the whole interval is {word} {limit:+g}"
    elif best < -most:
        decision.verdict = "fail"
        decision.reason = f"no value of the interval is {word} {limit:+g}"
    else:
        decision.reason = f"the interval contains {limit:+g}"
        _add_cases_needed(decision, limit, row.clusters)
    return decision


def _interval_problem(interval: Interval | None, few_clusters: str) -> str:
    """Return why an interval decides nothing, or ""."""
    problem = few_clusters
    if not problem and (interval is None or not all(map(math.isfinite, interval))):
        problem = "there is no interval"
    return f"{problem}; --point decides by the value alone" if problem else ""


def _add_cases_needed(decision: Decision, threshold: float, clusters: int | None) -> None:
    """Add to a decision about how many cases would decide, if the value stays the same.

    The length of an interval falls with the square root of the number of cases. With the value at the threshold, no
    number of cases is enough.
    """
    value, interval = decision.value, decision.interval
    assert value is not None
    assert interval is not None
    distance = abs(value - threshold)
    reach = value - interval.low if value > threshold else interval.high - value
    factor = (reach / distance) ** 2 if distance else math.inf
    if factor * decision.denominator > _MOST_CASES:
        decision.reason += f", and the value is too close to it for any number of {decision.unit}s"
        return
    # Rounded up to two digits: the value of another run will not be exactly the same.
    cases = math.ceil(factor * decision.denominator - 1e-6)
    unit = 10 ** max(0, len(str(cases)) - 2)
    decision.cases_needed = max(decision.denominator + 1, -(-cases // unit) * unit)
    needed = f"about {decision.cases_needed:,} {decision.unit}s"
    if clusters and clusters < decision.denominator:
        needed += f" in {math.ceil(clusters * decision.cases_needed / decision.denominator):,} clusters"
    decision.reason += f"; if the value stays the same, {needed} would decide"


# Names


def _find_rows(names: Sequence[str], comparison: Comparison, report: Report) -> list[PairedMetric]:
    """Return the rows of a comparison that decide: those that `names` fit, else those of the report's first metrics.

    A metric without a set means its row over all sets, if there is one, else its rows of all sets.
    """
    rows = [*comparison.rows, *comparison.one_sided_rows]
    if not comparison.rows:
        raise UsageError(f"{comparison.new.folder}: no case has a score in both runs")
    if not names:
        first = {entry.metrics[0].name for entry in report.entries if entry.metrics}
        matches = [row for row in rows if row.metric in first] or rows
        return _sum_rows(matches)
    matches = []
    titles = {metric.title: metric.name for _, metric in report.metrics()}
    for name in names:
        wanted = " ".join(name.split())
        # The report may print a title in place of the name: `evidence` for evidence_recall.
        wanted = titles.get(wanted, wanted)
        fits = [row for row in rows if wanted in (row.metric, f"{row.metric},{row.part}")]
        fits = _sum_rows(fits) or [row for row in rows if wanted in (row.name, f"{row.set} {row.metric}")]
        if not fits:
            raise UsageError(unknown("metric", name, list(dict.fromkeys(row.name for row in rows))))
        matches += [row for row in fits if row not in matches]
    return matches


def _sum_rows(rows: list[PairedMetric]) -> list[PairedMetric]:
    """Return the rows over all sets, and the rows of the metrics that have none."""
    sums = {(row.metric, row.part) for row in rows if is_sum_row(row, rows)}
    return [row for row in rows if not row.set or (row.metric, row.part) not in sums]


# Judges


def _judges_of(entry: Entry, metric: Metric) -> list[JudgeInfo]:
    """Return the judges behind a metric.

    A judge names scores. A pipeline's scores are `passed`, its metric is `pass_rate`: a judge whose scores are no
    metric of the entry counts for all of them.
    """
    names = {each.name for each in entry.metrics}
    return [judge for judge in entry.judges if metric.name in judge.metrics or not names & {*judge.metrics}]


def _require_kappa(judges: Sequence[JudgeInfo], floor: float) -> None:
    """Raise UsageError if a judge has no calibration, or one with a kappa below `floor`."""
    refusals: dict[str, None] = {}
    for judge in judges:
        if why := kappa_problem(judge, judge.calibration, floor):
            refusals[f"{', '.join(judge.metrics)} cannot decide here: {why}; {judge.advice}"] = None
    if refusals:
        raise UsageError("\n".join(refusals))
