"""Report: the one type for the numbers of a run.

A suite's `finish` returns a Report. `summary.json` stores it, the terminal and the pages print it, `runs`, `show`,
`compare` and SQL read it. A format's own files are never made from it: their bytes are a contract of their own.

    Report(entries=[
        Entry(name="gpt-5", metrics=[Metric(name="exact_match", value=0.5, numerator=2, denominator=4)]),
    ])

A value that was not measured is None, with the reason beside it. It is never 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import UNSET, Struct, UnsetType, field

from assay.core.judges import JudgeInfo


class Metric(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One number with what it rests on.

    `numerator` may be a fraction (a mean of shares) and is None where a number is no ratio, such as a perplexity.
    `left_out` counts the units that are not in the denominator, by reason.
    """

    name: str
    value: float | None
    denominator: int
    numerator: float | None = None
    filter: str = ""
    """Name of the filter chain that read the answers, where a suite has several."""
    label: str = ""
    """The name for people, where it is not `name`."""
    unit: str = "case"
    aggregation: str = "mean"
    """How cases become the number. The direction of a case's value and of the number may differ (perplexity)."""
    higher_is_better: bool | None = True
    left_out: dict[str, int] = field(default_factory=dict)
    stderr: float | None = None
    interval: tuple[float, float] | None = None
    """Bounds of the 95 % interval."""
    interval_method: str = ""
    clusters: int | None = None
    reason: str = ""
    """Why there is no value."""
    warning: str = ""
    """Why the value should be read with care, such as an interval that rests on three clusters."""
    beside: dict[str, Metric] = field(default_factory=dict)
    """The same measure counted otherwise, by name: pooled, over all cases."""

    @property
    def title(self) -> str:
        """The name for people."""
        return self.label or self.name


class Slice(Struct, kw_only=True, omit_defaults=True):
    """Numbers of the cases that share a tag, a category, a data set or a field: `by="tag", name="maths"`."""

    by: str
    name: str
    label: str = ""
    metrics: list[Metric] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The name for people."""
        return self.label or self.name


Cell = str | int | float | Metric | None


class Table(Struct, kw_only=True, omit_defaults=True):
    """Numbers that are no metric of the whole: steps, operators, seconds, tokens, error kinds, a confusion matrix."""

    name: str
    columns: list[str]
    rows: list[list[Cell]]
    title: str = ""
    note: str = ""
    """One line below the table."""
    names: int = 1
    """How many of the first columns name the row. A table that is too wide repeats them in each part."""


class Point(Struct, frozen=True, omit_defaults=True):
    """One point of a curve."""

    x: float
    metric: Metric


class Curve(Struct, kw_only=True, omit_defaults=True):
    """A metric along an axis: pass@k over repeats, recall over the tests of a conversation."""

    name: str
    x: str
    points: list[Point]
    title: str = ""


class Difference(Struct, kw_only=True, omit_defaults=True):
    """One place where an answer is not as expected. A side that is not there is unset; null is a value."""

    path: str = ""
    expected: Any | UnsetType = UNSET
    actual: Any | UnsetType = UNSET
    why: str = ""


class Example(Struct, kw_only=True, omit_defaults=True):
    """One case that is worth a look."""

    label: str
    index: int | None = None
    """The case's place in the run; None for files without a run."""
    part: str = ""
    verdict: str = ""
    reason: str = ""
    differences: list[Difference] = field(default_factory=list)


class Examples(Struct, kw_only=True, omit_defaults=True):
    """Cases worth a look: how many there are, and those that are shown."""

    title: str
    total: int
    shown: list[Example]


class Entry(Struct, kw_only=True, omit_defaults=True):
    """One head of the result table: a subject (model, variant, profile, memory), a task, or a group of tasks."""

    name: str
    subject: str = ""
    set: str = ""
    """The task or data set, where a run has several."""
    alias: str = ""
    """The name for people, where it is not `name`."""
    members: list[str] = field(default_factory=list)
    """Names of the entries of a group."""
    reference: bool = False
    """A yardstick, such as an oracle, that takes part in no comparison."""
    metrics: list[Metric] = field(default_factory=list)
    """The first one is the headline."""
    counts: dict[str, int] = field(default_factory=dict)
    slices: list[Slice] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)
    examples: list[Examples] = field(default_factory=list)
    judges: list[JudgeInfo] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Sentences that belong to these numbers, shown below them."""

    @property
    def title(self) -> str:
        """The name for people."""
        return self.alias or self.name

    def metric(self, name: str, filter_: str | None = None) -> Metric | None:
        """The first metric of that name, and of that filter if one is named."""
        for metric in self.metrics:
            if metric.name == name and filter_ in (None, metric.filter):
                return metric
        return None


class PairedRow(Struct, kw_only=True):
    """One number of two sides, over the cases that both have a value for.

    An empty `set` stands for all sets. `wins` and `losses` are the new side's, whichever way is better.
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
    interval: tuple[float, float] | None = None
    interval_method: str = ""
    wins: int = 0
    losses: int = 0
    ties: int = 0
    right_wrong: bool = False
    p: float | None = None
    verdict: str = "unclear"
    left_out: dict[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """`set metric,part`, as far as there are any."""
        return f"{self.set} {self.metric}{',' if self.part else ''}{self.part}".strip()


class PairedSubjects(Struct, kw_only=True):
    """The same number of two subjects.

    The pairs of a run are asked of its journal when they are shown; only `--analyse`, which has no journal, keeps
    them in its report.
    """

    base: str
    new: str
    row: PairedRow


class Report(Struct, kw_only=True, omit_defaults=True):
    """What came of a run."""

    entries: list[Entry] = field(default_factory=list)
    entry_word: str = "subject"
    """What an entry is in this suite: task, variant, profile, memory."""
    passed: bool | None = True
    """The suite's verdict for the exit code: False fails, None is undecided because a judge's word is missing."""
    notices: list[str] = field(default_factory=list)
    """Sentences that are shown once, when the run ends."""
    differences: list[PairedSubjects] = field(default_factory=list)

    def metrics(self) -> Iterator[tuple[Entry, Metric]]:
        """Every metric with its entry, in order."""
        for entry in self.entries:
            for metric in entry.metrics:
                yield entry, metric

    def judges(self, subject: str | None = None) -> list[JudgeInfo]:
        """The judges behind these numbers, each once with all metrics it decides; of one subject if it is named."""
        merged: dict[tuple[str, str], JudgeInfo] = {}
        for entry in self.entries:
            if subject is not None and subject not in (entry.subject, entry.name):
                continue
            for judge in entry.judges:
                before = merged.get((judge.id, judge.kind))
                merged[judge.id, judge.kind] = before.with_metrics(judge.metrics) if before else judge
        return list(merged.values())
