"""`assay power`: how many cases a comparison needs, from numbers that a user gives or from a run.

    plan = plan_power(PowerQuestion(baseline=0.72, effect=0.03))
    plan.answers[0].cases

`assay power --json` prints these structs, so their field names are part of a format.
"""

from __future__ import annotations

import math

from msgspec import Struct, field

from assay.core.errors import UsageError
from assay.core.report import Report
from assay.journal.integrity import intact_index
from assay.scoring.power import Design, cases_needed, power_of, smallest_effect
from assay.store.metric_names import find_metrics, full_name
from assay.store.runs import finished_run, split_subject

# Intervals by these methods belong to means of values from 0 to 1.
_SHARES = ("wilson", "logit t", "clustered logit t")


class PowerQuestion(Struct, kw_only=True, frozen=True):
    """What a user asks. Two of `effect`, `cases` and `power` are given; the third is the answer.

    `baseline`, `cluster_size` and `icc` (the correlation within a cluster) come from the run if there is one.
    """

    baseline: float | None = None
    effect: float | None = None
    cases: int | None = None
    power: float | None = None
    alpha: float = 0.05
    correlation: float = 0.5
    cluster_size: float = 1.0
    icc: float = 0.0
    run: str = ""
    metric: str = ""
    unpaired: bool = False


class PowerAnswer(Struct, kw_only=True):
    """The answer for one kind of comparison: paired on the same cases, or unpaired with other cases in each run.

    `cases` and `clusters` are those of each run. `effect` is None if no effect can be found with so few cases.
    """

    comparison: str
    cases: int
    clusters: int | None
    effect: float | None
    power: float


class PowerPlan(Struct, kw_only=True):
    """The answers with all assumptions. `schema` is the version of the JSON document."""

    schema: int = 1
    baseline: float
    alpha: float
    correlation: float
    design_effect: float
    cluster_size: float
    run: str = ""
    metric: str = ""
    unit: str = "case"
    """What `cases` counts: `question` if the metric of the run counts questions."""
    answers: list[PowerAnswer] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def plan_power(question: PowerQuestion) -> PowerPlan:
    """Answer a question about the size of a comparison. Raises UsageError if it has no answer."""
    if question.effect is None and question.cases is None:
        raise UsageError("name the effect to find, such as --effect 0.03, or the number of cases, such as --cases 500")
    if None not in (question.effect, question.cases, question.power):
        raise UsageError("give two of --effect, --cases and --power; the third is the answer")
    if question.effect == 0:
        raise UsageError("an effect of 0 cannot be found. Name the smallest difference that matters to you")
    plan = PowerPlan(
        baseline=question.baseline or 0.0,
        alpha=question.alpha,
        correlation=question.correlation,
        design_effect=1 + (question.cluster_size - 1) * question.icc,
        cluster_size=question.cluster_size,
    )
    variance = None
    if question.run:
        variance = _read_run(question, plan)
    elif question.baseline is None:
        raise UsageError("name the value to compare with: --baseline 0.72, or --run RUN to take it from a run")
    elif not 0 < question.baseline < 1:
        raise UsageError(f"--baseline {question.baseline:g} is not between 0 and 1. For other numbers, use --run RUN")
    if question.effect is not None and variance is None and not 0 <= plan.baseline + question.effect <= 1:
        raise UsageError(
            f"{plan.baseline:g} with an effect of {question.effect:+g} is {plan.baseline + question.effect:g}, "
            "which is not between 0 and 1"
        )
    for is_paired in (False,) if question.unpaired else (True, False):
        design = Design(
            baseline=plan.baseline,
            paired=is_paired,
            correlation=question.correlation,
            power=0.8 if question.power is None else question.power,
            alpha=question.alpha,
            variance=variance,
            design_effect=plan.design_effect,
            cluster_size=plan.cluster_size,
        )
        plan.answers.append(_answer(design, question))
    return plan


def _answer(design: Design, question: PowerQuestion) -> PowerAnswer:
    effect, power = question.effect, design.power
    if question.cases is None:
        assert effect is not None
        cases = cases_needed(design, effect)
    else:
        cases = question.cases
        if effect is None:
            effect = smallest_effect(design, cases)
        else:
            power = power_of(design, effect, cases)
    clusters = math.ceil(cases / design.cluster_size - 1e-9) if design.cluster_size > 1 else None
    comparison = "paired" if design.paired else "unpaired"
    return PowerAnswer(comparison=comparison, cases=cases, clusters=clusters, effect=effect, power=power)


def _read_run(question: PowerQuestion, plan: PowerPlan) -> float | None:
    """Take the baseline, the clusters and the variance from a run. Returns the variance of a number that is no share.

    A share's variance follows from its mean. What its standard error adds to that, because of clusters, or leaves out,
    because of grades between 0 and 1, is its design effect.
    """
    if question.baseline is not None or question.icc or question.cluster_size > 1:
        raise UsageError("--run has the value and its clusters: leave out --baseline, --clusters-of and --icc")
    name, subject = split_subject(question.run)
    run = finished_run(name)
    intact_index(run.folder, run.summary)
    assert run.summary is not None
    report = run.summary.report or Report()
    wanted = " ".join(question.metric.split())
    if not wanted:
        mine = (
            metric.name
            for entry, metric in report.metrics()
            if (subject in (entry.subject, entry.name) if subject else not entry.reference)
        )
        wanted = next(mine, "")
    fits = find_metrics(wanted, report, subject, run.folder)
    entry, metric = fits[0]
    wanted = full_name(entry, metric, report)
    if question.metric and len(fits) > 1:
        others = ", ".join(full_name(*fit, report) for fit in fits[1:])
        plan.notes.append(f"{question.metric} also fits {others}. Pass --metric with one of these names")
    value, n = metric.value, metric.denominator
    plan.run, plan.metric, plan.unit = run.folder.name, wanted, metric.unit
    if value is None or (metric.stderr is None and metric.interval_method not in _SHARES):
        raise UsageError(f"{question.run}: {wanted} has no standard error, so nothing is known about its variance")
    plan.baseline = value
    if metric.clusters is not None and metric.clusters < n:
        plan.cluster_size = n / metric.clusters
    if metric.few_clusters:
        plan.notes.append(f"the variance of {wanted} is uncertain: {metric.warning}")
    if metric.interval_method not in _SHARES:
        assert metric.stderr is not None
        return metric.stderr**2 * n
    if not 0 < value < 1:
        raise UsageError(
            f"{question.run}: {wanted} is {value:g}, which says nothing about its variance. Use --baseline"
        )
    if metric.stderr is not None and plan.cluster_size > 1:
        # n - 1, because the standard error has Bessel's correction. Clusters never reduce the cases that are needed.
        plan.design_effect = max(1.0, metric.stderr**2 * (n - 1) / (value * (1 - value)))
    return None
