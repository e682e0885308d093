"""Counts the results of rows and builds the report: by profile, tag, difficulty, field, operator and error.

tally = HopTally(contract.outputs)
tally.add(result, verdict)                 # once per row, of a run or of a result file
report = tally.report()
"""

from __future__ import annotations

import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import combinations
from typing import Any

import msgspec
from msgspec import Struct

from assay.core.report import (
    AnswerCount,
    Entry,
    Example,
    Examples,
    Metric,
    PairedMetric,
    PairedSubjects,
    Report,
    Slice,
    Table,
)
from assay.core.types import End, Record, Usage
from assay.files.excerpt import cut_end
from assay.scoring.metric_builders import proportion_metric
from assay.scoring.statistics import percentiles
from assay.suites.hop.contract import OutputField
from assay.suites.hop.rows import DIFFICULTIES, UNTAGGED, HopRow
from assay.suites.hop.scorer import METRIC, OUTSIDE, RowVerdict, audit_case, result_text

NO_PROFILE = "(none)"
_COMPLETION = "completion"
_MAX_EXAMPLES = 50  # rows per profile that a report keeps
_MAX_ERROR_KINDS = 20
_MAX_QUOTE = 200  # characters of a result in an example


# The place in the user's code at the end of an error message, such as `(hop.py:7: raise KeyError(name))`. The line
# itself is missing if the file cannot be read any more.
_ERROR_PLACE = re.compile(r" \([^()\s]+:\d+(: .*)?\)$", re.DOTALL)
# Characters of an error in the table of errors.
_MAX_KIND = 80


class RowResult(Struct, frozen=True, kw_only=True):
    """One result row, of a run or of a file. `ok` is False for an error.

    `outcome` is the status that the function returned, such as UNCERTAIN.
    """

    profile: str = NO_PROFILE
    tag: str = UNTAGGED
    difficulty: str = ""
    id: Any = None
    index: int | None = None
    """The number of the case in the run, or None for a row of a file."""
    ok: bool = True
    outcome: str = "OK"
    error: str = ""
    raw: str = ""
    """The result, if it is not JSON."""
    text: str | None = None
    """The result as it is written to files."""
    seconds: float | None = None
    usage: Usage | None = None
    calls: int = 0
    retries: int = 0
    steps: list[dict[str, Any]] = []


def case_result(end: End | None, records: list[Record], row: HopRow, profile: str, index: int | None) -> RowResult:
    """Return the result of a case of a run, for the report and for result files. `end` is None if it did not run."""
    text = result_text(records)
    audit = audit_case(end, text)
    steps = [record.data for record in records if record.kind == "step"]
    failed = audit.failed
    return RowResult(
        profile=profile,
        tag=row.tag,
        difficulty=row.difficulty or "",
        id=row.id,
        index=index,
        ok=not failed,
        outcome=audit.outcome or "OK",
        error=audit.error or "",
        raw=audit.raw or "",
        text=None if failed else text,
        seconds=end.seconds if end else None,
        usage=end.usage if end else None,
        calls=end.calls if end else 0,
        retries=sum(map(retry_count, steps)) if steps else 0,
        steps=steps,
    )


def retry_count(step: Mapping[str, Any]) -> int:
    """Return the `retry_count` of a step or of `hop_stats`. Files of other tools may have any value there."""
    count = step.get("retry_count")
    return count if type(count) is int else 0


class HopTally:
    """Collects rows, in any order, by profile."""

    def __init__(self, fields: Mapping[str, OutputField]) -> None:
        self._fields = fields
        self.profiles: dict[str, ProfileAnalysis] = {}

    def add(self, result: RowResult, verdict: RowVerdict) -> None:
        """Add a row to its profile."""
        if result.profile not in self.profiles:
            self.profiles[result.profile] = ProfileAnalysis(self._fields)
        self.profiles[result.profile].add(result, verdict)

    def report(self) -> Report:
        """Return the report with one entry per profile, in order of appearance."""
        entries = [tally.entry(name) for name, tally in self.profiles.items()]
        total = sum(entry.counts["total"] for entry in entries)
        errors = sum(entry.counts["errors"] for entry in entries)
        return Report(entries=entries, entry_word="profile", answered=_answered(total, errors))

    def differences(self) -> list[PairedSubjects]:
        """Compare each profile with each earlier one on the rows they share.

        For result files only. For a run the same comparison is made from its journal.
        """
        pairs = []
        for base, new in combinations(self.profiles, 2):
            row = _paired_row(self.profiles[base].right_by_id, self.profiles[new].right_by_id)
            if row is not None:
                pairs.append(PairedSubjects(base=base, new=new, row=row))
        return pairs


class RowCounts:
    """Counts the rows of one group: a profile, a tag or a difficulty."""

    def __init__(self) -> None:
        self.total = self.errors = self.completed = 0
        self.expecting = self.correct = 0
        self.completed_expecting = self.completed_correct = 0

    def add(self, count: int, *, ok: bool, completed: bool, correct: bool | None) -> None:
        """Add `count` equal rows. A row is completed if it has no error and its outcome is OK."""
        self.total += count
        self.errors += count * (not ok)
        self.completed += count * completed
        if correct is not None:
            self.expecting += count
            self.correct += count * correct
            self.completed_expecting += count * completed
            self.completed_correct += count * (completed and correct)

    def counts(self) -> dict[str, int]:
        """Return the number of rows and of errors."""
        return {"total": self.total, "errors": self.errors}

    def metrics(self) -> list[Metric]:
        """Return the metrics, the headline first. An error counts as wrong, and as not completed."""
        return [
            _rate("correct_of_all", "right of all", self.correct, self.expecting),
            _rate("correct_of_completed", "right of completed", self.completed_correct, self.completed_expecting),
            _rate(_COMPLETION, "completed", self.completed, self.total),
        ]


def error_kind(error: str) -> str:
    """Return an error without its details, so that similar errors are counted together: `[KeyError] 'gone'`."""
    without_place = _ERROR_PLACE.sub("", error)
    kind = without_place.partition(":")[0]
    return kind if len(kind) <= _MAX_KIND else cut_end(kind, _MAX_KIND - 1)


def _answered(total: int, errors: int) -> AnswerCount:
    # How many rows were completed is known without an answer.
    return AnswerCount(total - errors, total, "row", apart=(_COMPLETION,))


def _rate(name: str, label: str, numerator: int, denominator: int) -> Metric:
    return proportion_metric(name, numerator, denominator, label=label, unit="row")


class BandCounts:
    """The confusion matrix of a field with bands. Rows are the expected bands, columns the actual bands."""

    def __init__(self, names: list[str]) -> None:
        self._names = [*names, OUTSIDE]
        self._counts: Counter[tuple[str, str]] = Counter()

    def add(self, pair: tuple[str, str]) -> None:
        """Add the (expected, actual) bands of a row."""
        self._counts[pair] += 1

    def metrics(self) -> list[Metric]:
        """Return the share of rows in the right band, and of rows in the band at the opposite end."""
        total = self._counts.total()
        first, last = self._names[0], self._names[-2]
        crossed = self._counts[first, last] + self._counts[last, first] if first != last else 0
        right = sum(self._counts[name, name] for name in self._names[:-1])
        other_end = _rate("cross_band", "other end", crossed, total)
        return [
            _rate("band_accuracy", "same band", right, total),
            msgspec.structs.replace(other_end, higher_is_better=False),
        ]

    def table(self, field: str) -> Table:
        """Return the matrix. It has a row and a column for values outside all bands only if there are any."""
        outside = any(OUTSIDE in pair for pair in self._counts)
        names = self._names if outside else self._names[:-1]
        return Table(
            name=f"bands {field}",
            title=f"bands of {field} (rows expected, columns found)",
            columns=["", *names],
            rows=[[row, *(self._counts[row, column] for column in names)] for row in names],
        )


class ProfileAnalysis:
    """Counts all rows of one profile."""

    def __init__(self, fields: Mapping[str, OutputField]) -> None:
        # By tag, difficulty, whether the row is ok, whether it is completed, and whether it is correct.
        self._rows: Counter[tuple[str, str, bool, bool, bool | None]] = Counter()
        self._bands = {name: BandCounts(list(field.bands)) for name, field in fields.items() if field.bands}
        self._near: dict[str, list[int]] = {}  # by field: rows within 1 of the expected number, and all rows
        self._seconds = array("d")
        self._calls = 0
        self._usage: Usage | None = None  # stays None if no endpoint reports tokens
        self._operators: dict[str, Counter[str]] = {}
        self._errors: Counter[str] = Counter()
        self._examples: list[Example] = []
        self._differing = 0
        self.right_by_id: dict[bytes, bool] = {}
        """Rows of a file by id, True if correct. If a row occurs twice, the last one counts."""

    def add(self, result: RowResult, verdict: RowVerdict) -> None:
        """Add a row."""
        correct = verdict.correct
        completed = result.ok and result.outcome == "OK"
        self._rows[result.tag, result.difficulty, result.ok, completed, correct] += 1
        for name, pair in verdict.bands.items():
            self._bands[name].add(pair)
        for name, within in verdict.near.items():
            near = self._near.setdefault(name, [0, 0])
            near[0] += within
            near[1] += 1
        if result.seconds is not None:
            self._seconds.append(result.seconds)
        self._calls += result.calls
        if result.usage is not None:
            before = self._usage or Usage()
            self._usage = Usage(before.input + result.usage.input, before.output + result.usage.output)
        if not result.ok:
            self._errors[error_kind(result.error)] += 1
        for step in result.steps:
            counts = self._operators.setdefault(str(step.get("op")), Counter())
            counts["calls"] += 1
            counts["ok"] += step.get("status") == "OK"
            counts["retries"] += retry_count(step)
        if correct is False or not result.ok:
            self._differing += 1
            if len(self._examples) < _MAX_EXAMPLES:
                self._examples.append(_example(result, verdict))
        # Only rows of files. The profiles of a run are paired from its journal.
        if correct is not None and result.id is not None and result.index is None:
            self.right_by_id[msgspec.json.encode(result.id)] = correct

    def entry(self, profile: str) -> Entry:
        """Return the report's entry for this profile."""
        rows = "1 row differs" if self._differing == 1 else f"{self._differing:,} rows differ"
        all_rows = RowCounts()
        tags: dict[str, RowCounts] = defaultdict(RowCounts)
        difficulties: dict[str, RowCounts] = defaultdict(RowCounts)
        for (tag, difficulty, ok, completed, correct), count in self._rows.items():
            for group in (all_rows, tags[tag], difficulties[difficulty]):
                group.add(count, ok=ok, completed=completed, correct=correct)
        difficulties.pop("", None)  # rows without a difficulty
        return Entry(
            name=profile,
            subject=profile,
            metrics=all_rows.metrics(),
            counts=all_rows.counts(),
            slices=self._slices(tags, difficulties),
            tables=self._tables(),
            examples=[Examples(title=f"{rows} or failed", total=self._differing, shown=self._examples)],
            answered=_answered(all_rows.total, all_rows.errors),
        )

    def _slices(self, tags: dict[str, RowCounts], difficulties: dict[str, RowCounts]) -> list[Slice]:
        slices = [
            Slice(by="tag", name=tag, metrics=counts.metrics(), counts=counts.counts())
            for tag, counts in sorted(tags.items())
        ]
        # From easy to hard, then other values, which only files of other tools have.
        standard = [name for name in DIFFICULTIES if name in difficulties]
        for name in standard + sorted(difficulties.keys() - set(standard)):
            counts = difficulties[name]
            slices.append(Slice(by="difficulty", name=name, metrics=counts.metrics(), counts=counts.counts()))
        for name in dict.fromkeys((*self._bands, *self._near)):
            metrics = self._bands[name].metrics() if name in self._bands else []
            if name in self._near:
                metrics.append(_rate("within_one", "within one", *self._near[name]))
            slices.append(Slice(by="field", name=name, metrics=metrics))
        return slices

    def _tables(self) -> list[Table]:
        tables = [bands.table(name) for name, bands in self._bands.items()]
        seconds = percentiles(self._seconds)
        if seconds["n"]:
            tables.append(
                Table(
                    name="seconds",
                    columns=["rows", "p50 s", "p95 s"],
                    rows=[[seconds["n"], seconds["p50"], seconds["p95"]]],
                    names=0,
                )
            )
        if self._calls:
            tables.append(
                Table(
                    name="tokens",
                    columns=["calls", "tokens in", "tokens out"],
                    rows=[
                        [
                            self._calls,
                            self._usage.input if self._usage else None,
                            self._usage.output if self._usage else None,
                        ]
                    ],
                    names=0,
                )
            )
        if self._operators:
            tables.append(
                Table(
                    name="operators",
                    columns=["operator", "calls", "ok", "retries"],
                    rows=[
                        [name, counts["calls"], counts["ok"], counts["retries"]]
                        for name, counts in self._operators.items()
                    ],
                )
            )
        if self._errors:
            kinds = self._errors.most_common(_MAX_ERROR_KINDS)
            tables.append(
                Table(
                    name="errors",
                    columns=["error", "rows"],
                    rows=[[kind, count] for kind, count in kinds],
                )
            )
        return tables


def _example(result: RowResult, verdict: RowVerdict) -> Example:
    """Return a row for the report: with its error, with a result that is not JSON, or with the failed checks."""
    label = f"{'(no id)' if result.id is None else result.id} #{result.tag}"
    if not result.ok:
        reason, kind = result.error, "error"
    elif result.outcome != "OK" and result.raw:
        reason, kind = f"{result.outcome}: {cut_end(result.raw, _MAX_QUOTE)}", "no result"
    else:
        reason, kind = "; ".join(f"{check.path}: {check.why}" for check in verdict.wrong), "wrong"
    return Example(label=label, index=result.index, part=kind, reason=reason)


def _paired_row(base: dict[bytes, bool], new: dict[bytes, bool]) -> PairedMetric | None:
    """Compare two profiles on the rows they share, as `assay compare` does. Returns None if they share none."""
    import numpy as np

    from assay.scoring.paired import fill_metric, paired

    shared = [key for key in base if key in new]
    if not shared:
        return None
    sides = [np.array([side[key] for key in shared], dtype=float) for side in (base, new)]
    row = PairedMetric(set="", metric=METRIC, part="", higher_is_better=True, n=0)
    fill_metric(row, paired(sides[0], sides[1], np.arange(len(shared))))
    return row
