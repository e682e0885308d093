"""Report: the numbers of a run, in one type for all suites.

A suite's `finish` returns a Report. `summary.json` stores it, and `runs`, `show` and `compare` read it. Result files
in the formats of other tools are not generated from it, because those formats have numbers of their own.

    Report(entries=[
        Entry(name="gpt-5", metrics=[Metric(name="exact_match", value=0.5, numerator=2, denominator=4)]),
    ])

The value of a metric that was not measured is None, never 0, and `reason` says why.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from msgspec import UNSET, Struct, UnsetType, field

from assay.core.error_counts import ErrorCount
from assay.core.judges import JudgeInfo


class Interval(NamedTuple):
    """A 95 % confidence interval."""

    low: float
    high: float


# `Metric.aggregation` of a share of all units of all cases. Comparisons pair cases, so they have the mean of cases.
POOLED = "pooled"


class Metric(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One number with its denominator and interval.

    `numerator` may be a fraction (a sum of shares). It is None if the number is not a ratio, such as a perplexity.
    `left_out` counts the units that are not in the denominator, by reason.
    """

    name: str
    value: float | None
    denominator: int
    numerator: float | None = None
    filter: str = ""
    """Name of the filter chain that extracted the answers, if a suite has several."""
    label: str = ""
    """The name to print, if it differs from `name`."""
    unit: str = "case"
    """What the denominator counts."""
    table: str = ""
    """Name of the entry's table that shows the metric. The main table then leaves it out, so that it stays readable."""
    aggregation: str = "mean"
    """How the values of cases become the number. A better number may mean smaller values, as for perplexity."""
    higher_is_better: bool | None = True
    left_out: dict[str, int] = field(default_factory=dict)
    unasked: int = 0
    """How many units of the denominator have a value without the judge: an empty answer, an empty memory."""
    stderr: float | None = None
    interval: Interval | None = None
    """Bounds of the 95 % interval."""
    interval_method: str = ""
    clusters: int | None = None
    reason: str = ""
    """Why there is no value."""
    warning: str = ""
    """Why the value needs care, for example an interval from only three clusters."""
    few_clusters: bool = False
    """True if the interval rests on too few clusters to decide anything. `warning` says so too."""
    beside: dict[str, Metric] = field(default_factory=dict)
    """Variants of the metric, by name: pooled instead of averaged, or over all cases."""

    @property
    def title(self) -> str:
        """The name to print."""
        return self.label or self.name

    def __str__(self) -> str:
        """`exact_match 0.750 (0.30–0.95) 3/4`, then the cases left out. A dash is a value that was not measured."""
        name = f"{self.title},{self.filter}" if self.filter else self.title
        value = "–" if self.value is None else f"{self.value:.3f}"
        if self.interval is not None:
            value += f" ({self.interval[0]:.2f}–{self.interval[1]:.2f})"
        if self.numerator is not None:
            value += f" {self.numerator:.1f}".removesuffix(".0") + f"/{self.denominator}"
        else:
            value += f" n={self.denominator}"
        left_out = ", ".join(f"{count:,} {why}" for why, count in self.left_out.items())
        return f"{name} {value}, left out: {left_out}" if left_out else f"{name} {value}"

    def __repr__(self) -> str:
        # Notebooks and pytest show it. All fields in one line would hide the number.
        return f"<Metric {self}>"


# The name to print for a slice of cases that have no tag, category or field.
NO_GROUP = "(none)"


class Slice(Struct, kw_only=True, omit_defaults=True):
    """Metrics of the cases that share a tag, category, data set or field: `by="tag", name="maths"`."""

    by: str
    name: str
    label: str = ""
    """The name to print, if it differs from `name`."""
    metrics: list[Metric] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The name to print."""
        return self.label or self.name

    def __str__(self) -> str:
        """`maths: exact_match 0.750 (0.30–0.95) 3/4; near 1.000 (0.51–1.00) 4/4`."""
        return f"{self.title}: {'; '.join(map(str, self.metrics))}"

    def __repr__(self) -> str:
        return f"<Slice {self}>"


Cell = str | int | float | Metric | None


class Table(Struct, kw_only=True, omit_defaults=True):
    """Further numbers: steps, operators, seconds, tokens, error kinds, a confusion matrix."""

    name: str
    columns: list[str]
    rows: list[list[Cell]]
    title: str = ""
    note: str = ""
    """A line printed below the table."""
    names: int = 1
    """How many of the first columns name the row. A table wider than the terminal is split, and each part repeats
    these columns."""


class Point(Struct, frozen=True, omit_defaults=True):
    """One point of a curve. If it stands for a range of x values, `span` has both ends, and `x` is their mean."""

    x: float
    metric: Metric
    span: tuple[float, float] | None = None

    @property
    def place(self) -> str:
        """The x value to print, or the range: `20–49`."""
        if self.span is None:
            return f"{self.x:,.0f}"
        low, high = self.span
        return f"{low:,.0f}–{high:,.0f}" if low != high else f"{low:,.0f}"


class Curve(Struct, kw_only=True, omit_defaults=True):
    """A metric along an axis: pass@k over repeats, recall over the tests of a conversation."""

    name: str
    x: str
    points: list[Point]
    title: str = ""


class Difference(Struct, kw_only=True, omit_defaults=True):
    """One place where an answer differs from its expectation.

    A missing value is UNSET, because None stands for JSON's null.
    """

    path: str = ""
    expected: Any | UnsetType = UNSET
    actual: Any | UnsetType = UNSET
    why: str = ""


class Example(Struct, kw_only=True, omit_defaults=True):
    """One case to list in the report, such as a failed one."""

    label: str
    index: int | None = None
    """The case's index in the run. None in a report about files without a run."""
    part: str = ""
    verdict: str = ""
    reason: str = ""
    differences: list[Difference] = field(default_factory=list)


class Examples(Struct, kw_only=True, omit_defaults=True):
    """Cases to list in the report: how many there are, and the first of them."""

    title: str
    total: int
    shown: list[Example]


class AnswerCount(Struct, frozen=True, omit_defaults=True):
    """How many of the tests, rows or questions of a run have an answer that is no error."""

    count: int
    total: int
    unit: str = "case"
    apart: tuple[str, ...] = ()
    """Metrics that need no answer, such as the recall of a memory. They are measured without any answer too."""
    lacks: str = "an answer"
    """What each of them lacks if none has an answer, such as `a search result`."""
    verdict: str = ""
    """The suite's own word for those without an answer, such as `errored`; empty if it has none."""

    @property
    def none_answered(self) -> str:
        """The sentence for a count of 0: `no question has an answer`."""
        return f"no {self.unit} has {self.lacks}"

    @property
    def left_out_as(self) -> str:
        """The reason for which a metric leaves them out: `no answer`."""
        return self.verdict or f"no {self.lacks.partition(' ')[2]}"


class Entry(Struct, kw_only=True, omit_defaults=True):
    """One row group of the result table: a subject (model, variant, profile, memory), a task, or a group of tasks."""

    name: str
    subject: str = ""
    """The subject whose cases the entry is about, as in `Suite.subjects`. Empty means all subjects, unless `name` is
    one of several subjects."""
    set: str = ""
    """The task or data set, if a run has several."""
    alias: str = ""
    """The name to print, if it differs from `name`."""
    members: list[str] = field(default_factory=list)
    """For a group: the names of its entries."""
    reference: bool = False
    """True for an upper bound such as an oracle, which is not compared with the others."""
    metrics: list[Metric] = field(default_factory=list)
    """The first metric is the one that `assay runs` prints."""
    counts: dict[str, int] = field(default_factory=dict)
    slices: list[Slice] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)
    examples: list[Examples] = field(default_factory=list)
    judges: list[JudgeInfo] = field(default_factory=list)
    answered: AnswerCount | None = None
    """How many answers these numbers stand on. Without it, a run without any answer has no numbers."""
    errors: list[ErrorCount] = field(default_factory=list)
    """The most frequent errors of these cases, the most frequent one first. Only if there is no score."""
    invalid_verdicts: int | None = None
    """Verdicts of the judge that cannot be used, where several metrics are computed from one; else None."""
    notes: list[str] = field(default_factory=list)
    """Sentences to print below these numbers."""

    @property
    def title(self) -> str:
        """The name to print."""
        return self.alias or self.name

    def metric(self, name: str, filter_: str | None = None) -> Metric | None:
        """Return the first metric with this name, and with this filter if one is passed; else None."""
        for metric in self.metrics:
            if metric.name == name and filter_ in (None, metric.filter):
                return metric
        return None


class PairedMetric(Struct, kw_only=True):
    """One metric of two runs or subjects, over the cases for which both have a value.

    An empty `set` means all sets. `wins` counts the cases in which the new side is better, `losses` the cases in which
    it is worse.
    """

    set: str
    metric: str
    part: str
    higher_is_better: bool
    n: int
    clusters: int = 0
    base: float | None = None
    new: float | None = None
    difference: float | None = None
    stderr: float | None = None
    interval: Interval | None = None
    interval_method: str = ""
    wins: int = 0
    losses: int = 0
    ties: int = 0
    right_wrong: bool = False
    p: float | None = None
    """Of a test that both sides are equal; `p_method` is "mcnemar" or "permutation"."""
    p_method: str = ""
    p_adjusted: float | None = None
    """`p` adjusted for the rows that are read together, by Holm's method. It decides the verdict."""
    verdict: str = "unclear"
    detectable: float | None = None
    """The smallest difference that this many cases with this variance show with 80 % power."""
    correlation: float | None = None
    """Of the two sides' values. The higher it is, the narrower is the paired interval."""
    few_clusters: str = ""
    """Why the interval rests on too few clusters to decide anything, or ""."""
    left_out: dict[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """`set metric,part`, without the items that are empty."""
        return f"{self.set} {self.metric}{',' if self.part else ''}{self.part}".strip()

    def __str__(self) -> str:
        """`exact_match 0.250 → 0.750: +0.500 (-0.06 to 0.83), n=8, won 4, lost 0, p=0.12: unclear`."""
        if self.base is None or self.new is None or self.difference is None:
            reasons = ", ".join(f"{count:,} {why}" for why, count in self.left_out.items())
            return f"{self.name}: no pair has two values{f'; left out: {reasons}' if reasons else ''}"
        text = f"{self.name} {self.base:.3f} → {self.new:.3f}: {self.difference:+.3f}"
        if self.interval is not None:
            text += f" ({self.interval[0]:.2f} to {self.interval[1]:.2f})"
        text += f", n={self.n}, won {self.wins}, lost {self.losses}"
        if self.p is not None:
            text += f", p={self.p:.2g}"
        return f"{text}: {self.verdict}"


class PairedSubjects(Struct, kw_only=True):
    """One metric of two subjects of the same run.

    For a run these pairs are computed from its journal when the report is printed. Only `hop --analyse`, which has no
    journal, stores them in the report.
    """

    base: str
    new: str
    row: PairedMetric


class CaseCounts(Struct, frozen=True):
    """Cases of a run: all, those that ended well, and those without an answer of an endpoint or a judge.

    `invalid` of the unanswered ones have data of which no request can be made. Running them again does not help.
    """

    total: int
    ok: int
    unanswered: int = 0
    invalid: int = 0
    why_invalid: str = ""
    """What is wrong with the first invalid one."""


class Report(Struct, kw_only=True, omit_defaults=True):
    """The numbers of a run."""

    entries: list[Entry] = field(default_factory=list)
    entry_word: str = "subject"
    """The word for an entry in this suite: task, variant, profile, memory."""
    passed: bool | None = True
    """False if a check failed, None if a verdict is missing. `core/run_end.py` makes the exit code of it."""
    why: str = ""
    """A sentence about `passed`, if it is not True."""
    answered: AnswerCount | None = None
    """Set by a suite whose cases end well although their answers are errors. A run without any answer has failed."""
    wants_scores: bool = True
    """False if nothing in the data asks for a score, as in a testset without expectations."""
    errors: list[ErrorCount] = field(default_factory=list)
    """The most frequent errors of cases, the most frequent one first. Suites add those of parts of cases."""
    tables: list[Table] = field(default_factory=list)
    """Tables about all entries, such as score against cost. Tables of one entry are in `Entry.tables`."""
    notices: list[str] = field(default_factory=list)
    """Sentences to print on stderr, once for the whole report."""
    differences: list[PairedSubjects] = field(default_factory=list)

    def answers(self, cases: CaseCounts) -> AnswerCount:
        """Return how many answers the report stands on: as the suite counts them, else the cases that ended well."""
        return self.answered or AnswerCount(cases.ok, cases.total)

    def metrics(self) -> Iterator[tuple[Entry, Metric]]:
        """Yield every metric with its entry, in order."""
        for entry in self.entries:
            for metric in entry.metrics:
                yield entry, metric

    def sets_of(self, entry: Entry) -> list[str]:
        """Return the sets whose cases an entry is about: its own, or those of all members of a group."""
        if not entry.members:
            return [entry.set]
        members = [each for each in self.entries if each.name in entry.members and each is not entry]
        return list(dict.fromkeys(name for member in members for name in self.sets_of(member)))

    def judges(self, subject: str | None = None) -> list[JudgeInfo]:
        """Return the judges behind these numbers, or behind those of one subject.

        Each judge occurs once, with all metrics that it decides.
        """
        merged: dict[tuple[str, str], JudgeInfo] = {}
        for entry in self.entries:
            if subject is not None and subject not in (entry.subject, entry.name):
                continue
            for judge in entry.judges:
                before = merged.get((judge.id, judge.kind))
                merged[judge.id, judge.kind] = before.with_metrics(judge.metrics) if before else judge
        return list(merged.values())
