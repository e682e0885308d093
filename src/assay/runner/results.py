"""The run that Python code gets back: its numbers, its cases, and a check that it went well.

    run = assay.evaluate(rows, answer=function, score=["exact_match"], target="answer")
    run["exact_match"].value, run["exact_match"].interval, run["exact_match"].denominator
    for case in run.cases(failed=True):
        case.inputs, case.answer, case.scores, case.error
    run.check()

`assay.run`, `assay.load` and `assay.runner.rescore` return the same Run for every suite.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from assay.core.errors import CheckFailed, UsageError, unknown
from assay.core.judges import JudgeInfo
from assay.core.report import Metric, Report
from assay.core.suite_pages import StoredCase
from assay.core.types import Call, Failure, Record, Score
from assay.journal.earlier import EarlierScoring, earlier_scorings
from assay.journal.run_files import RunInfo, Summary
from assay.journal.spending import CallCounts
from assay.store.cases import RunCases
from assay.store.runs import find_run, state_of

# Failed cases that `check` names: enough to see the pattern.
_NAMED = 5
# A frame is wanted as a whole, however long it takes. Ctrl-C stops it.
_FRAME_SECONDS = 86_400.0


class Run(Struct, frozen=True):
    """A run: its folder, its results, and the exit code of its command."""

    folder: Path
    info: RunInfo
    summary: Summary
    exit_code: int
    reason: str = ""
    """Why the run stopped before its end."""
    asked: bool = True
    """False if the run was finished before this start, so that this start called no model."""

    @property
    def report(self) -> Report | None:
        """The report with all numbers. It is None until the run is finished."""
        return self.summary.report

    @property
    def files(self) -> list[Path]:
        """The result files in the suite's format, such as `samples_*.jsonl` or `results.csv`."""
        return [Path(name) for name in self.summary.files]

    @property
    def judges(self) -> list[JudgeInfo]:
        """The judges that gave the scores, each with its calibration or None. Empty for a run without a judge."""
        return [] if self.report is None else self.report.judges()

    @property
    def cost(self) -> float | None:
        """The price of all calls of all starts in US dollars, judges included. None if no call has a price."""
        return self.summary.cost

    @property
    def earlier(self) -> list[EarlierScoring]:
        """The scorings before this one, the oldest first, each with its folder and its summary."""
        return earlier_scorings(self.folder, self.summary.score)

    # Numbers

    def __getitem__(self, name: str) -> Metric:
        """Return the metric with this name. Raises UsageError if several have it; `metric` can select one of them."""
        return self.metric(name)

    def __contains__(self, name: object) -> bool:
        """Whether the run has a metric of this name."""
        return self.report is not None and any(metric.name == name for _, metric in self.report.metrics())

    # Without this, Python would iterate by asking for the metrics 0, 1, 2.
    __iter__ = None

    def metric(
        self,
        name: str,
        *,
        subject: str | None = None,
        set: str | None = None,  # noqa: A002 - the names of the report
        filter: str | None = None,  # noqa: A002
    ) -> Metric:
        """Return the metric with this name. `subject`, `set` (data set or task) and `filter` select one of several.

        Raises UsageError if no metric or more than one matches.
        """
        if self.report is None:
            raise UsageError(f"{name!r} was not measured: the run {self.summary.state} before its end; {self.reason}")
        matches = [
            (entry, metric)
            for entry, metric in self.report.metrics()
            if metric.name == name
            and subject in (None, entry.subject, entry.name)
            and set in (None, entry.set, entry.name)
            and filter in (None, metric.filter)
        ]
        if len(matches) == 1:
            return matches[0][1]
        if not matches:
            names = sorted({metric.name for _, metric in self.report.metrics()})
            if name in names:
                raise UsageError(
                    f"no metric {name!r} has {_words(subject, set, filter)}; there are:\n{self._ways(name)}"
                )
            if not names:
                raise UsageError(f"there is no metric named {name!r}: the run has no scorers. Pass score=")
            raise UsageError(unknown("metric", name, names))
        raise UsageError(f"{name!r} is the name of {len(matches)} metrics; say which one:\n{self._ways(name)}")

    def _ways(self, name: str) -> str:
        """Return one line per metric with this name: the call of `metric` that selects it."""
        assert self.report is not None
        lines = []
        for entry, metric in self.report.metrics():
            if metric.name == name:
                set_name = entry.set or ("" if entry.subject else entry.name)
                words = _words(entry.subject or None, set_name or None, metric.filter or None)
                lines.append(f"  run.metric({name!r}, {words})")
        return "\n".join(lines)

    # Cases

    def cases(
        self, *, failed: bool | None = None, tag: str | None = None, subject: str | None = None
    ) -> Iterator[RunCase]:
        """Yield the cases that have ended, in data order.

        `failed=True` yields those without an answer or with a score that is 0 or invalid, `failed=False` the others.
        Raises UsageError at the end of the iteration if no case of a finished run has this tag or subject.
        """
        reader = RunCases(self.folder)
        tags: set[str] = set()
        subjects: set[str] = set()
        for case in reader:
            tags.update(case.end.tags)
            subjects.add(case.end.subject)
            if failed is not None and case.failed is not failed:
                continue
            if tag is not None and tag not in case.end.tags:
                continue
            if subject is not None and case.end.subject != subject:
                continue
            yield RunCase(case, reader)
        if self.summary.state != "finished" or not subjects:
            return
        if tag is not None and tag not in tags:
            raise UsageError(unknown("tag", tag, sorted(tags)))
        if subject is not None and subject not in subjects:
            raise UsageError(unknown("subject", subject, sorted(subjects)))

    def frame(self, view: str, *, as_: Literal["arrow", "pandas", "polars"] = "arrow") -> Any:
        """Return a view of `assay sql` for this run, such as "scores" or "calls", as a table for analysis.

        The table is a `pyarrow.Table`, or a DataFrame of pandas or polars. It has the columns that docs/sql.md lists.
        Needs the extra `frames`, and pandas or polars for their frames; raises MissingExtra without them.
        """
        from assay.store.sql import (
            RunDatabase,
        )  # imported here because DuckDB takes longer to import than the rest

        with RunDatabase([self.folder], _warn, _FRAME_SECONDS) as database:
            return database.frame(view, as_)

    def check(self, max_errors: int = 0) -> Run:
        """Return this run. Raises CheckFailed if it stopped, measured nothing, or has more than `max_errors` errors.

        A case without an answer or with an invalid score is an error. A wrong answer is not.
        """
        __tracebackhide__ = True  # pytest shows the line that called `check`
        if self.exit_code:
            raise CheckFailed(f"{self.folder}: {self._why_not_fine()}")
        errors = [case for case in self.cases(failed=True) if case.error_message]
        if len(errors) > max_errors:
            lines = [f"  case {case.label} of {case.subject}: {case.error_message}" for case in errors[:_NAMED]]
            more = f"\n  and {len(errors) - _NAMED:,} more" if len(errors) > _NAMED else ""
            counted = f"{len(errors):,} of {self.summary.total:,} cases have an error"
            raise CheckFailed(f"{self.folder}: {counted}\n" + "\n".join(lines) + more)
        return self

    def _why_not_fine(self) -> str:
        summary = self.summary
        if self.reason:
            return f"the run stopped: {self.reason}"
        unanswered = summary.total - summary.ok - summary.subject_error
        if unanswered:
            kinds = ", ".join(f"{count:,} x {kind}" for kind, count in summary.failures.items())
            return f"{unanswered:,} of {summary.total:,} cases have no answer ({kinds}); the same call asks them again"
        return summary.exit_reason or f"the run did not pass, exit code {self.exit_code}"

    # For people

    def __repr__(self) -> str:
        return f"<Run {self.info.suite} {self.summary.state}: {self._headline()} · {self.folder}>"

    def __str__(self) -> str:
        """Return one line per metric, then the number of cases, the state and the folder, and why the run failed."""
        lines = []
        for entry, metric in self.report.metrics() if self.report else ():
            lines.append(f"{entry.title}  {metric}")
        done = self.summary.ok + self.summary.subject_error
        state = f"{self.summary.state}: {self.reason}" if self.reason else self.summary.state
        lines.append(f"{done:,} of {self.summary.total:,} cases · {state} · {self.folder}")
        if self.summary.exit_reason and not self.reason:
            lines.append(self.summary.end_sentence)
        return "\n".join(lines)

    def _headline(self) -> str:
        numbers = (
            [] if self.report is None else [metric for entry in self.report.entries for metric in entry.metrics[:1]]
        )
        return "; ".join(map(str, numbers)) or "no numbers"


def load(name: str | Path) -> Run:
    """Return an existing run by its folder or name. Sends no requests."""
    state = state_of(find_run(str(name)))
    # A run that was killed has no summary. Exit code 3 is that of a run that can be continued.
    summary = state.summary or Summary(
        state=state.state,
        score="",
        scorers=[],
        total=state.info.total,
        ok=state.done,
        subject_error=0,
        infra_error=0,
        exit_code=3,
        seconds=0.0,
        spent=CallCounts(),
        this_start={},
        files=[],
    )
    return Run(state.folder, state.info, summary, summary.exit_code, asked=False)


def name_of(run: str | Path | Run) -> str:
    """Return the name of a run for functions that find a run by its name: the folder of a Run, else the text itself."""
    return str(run.folder if isinstance(run, Run) else run)


def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=4)


def _words(subject: str | None, set_name: str | None, filter_name: str | None) -> str:
    words = {"subject": subject, "set": set_name, "filter": filter_name}
    return ", ".join(f"{name}={value!r}" for name, value in words.items() if value is not None)


class RunCase:
    """One case of a run, read from its journal."""

    def __init__(self, case: StoredCase, reader: RunCases) -> None:
        self._case = case
        self._reader = reader
        end = case.end
        self.index: int = end.index
        self.key: str = end.case
        self.set: str = end.set
        self.subject: str = end.subject
        self.label: str = end.label or str(end.index)
        self.tags: tuple[str, ...] = end.tags
        self.status: str = end.status
        self.seconds: float = end.seconds
        self.error: Failure | None = end.failure
        """Why the case has no answer, with the traceback of the user's code."""

    @property
    def inputs(self) -> dict[str, Any] | None:
        """The columns of the row that are not gold. None for other suites than `assay.evaluate`; see `calls`."""
        row, gold = self._case.row, self._reader.gold_columns
        return None if row is None else {name: value for name, value in row.items() if name not in gold}

    @property
    def gold(self) -> dict[str, Any] | None:
        """The gold columns of the row. None for other suites than `assay.evaluate`."""
        row, gold = self._case.row, self._reader.gold_columns
        return None if row is None else {name: value for name, value in row.items() if name in gold}

    @property
    def answer(self) -> Any:
        """The answer, or the first one if the case has repeats. None if the case has no answer."""
        answers = self.answers
        return answers[0] if answers else None

    @property
    def answers(self) -> list[Any]:
        """All answers. For a suite without records of the kind `answer`, the data of the last record."""
        answers = [record.data for record in self.records if record.kind == "answer"]
        return answers or [record.data for record in self.records[-1:]]

    @property
    def records(self) -> list[Record]:
        """All records that the solver emitted for the case."""
        return self._case.records

    @property
    def scores(self) -> dict[str, Score]:
        """The scores by metric. If a score has a part, such as a filter, its key is `metric,part`."""
        scores = {}
        for score in self._case.scores:
            if not score.interim:
                scores[f"{score.metric},{score.part}" if score.part else score.metric] = score
        return scores

    @cached_property
    def calls(self) -> list[Call]:
        """All model calls of the case, each request with its reply. Read from `calls.jsonl` at the first use."""
        return self._reader.calls(self.index)

    def to_dict(self) -> dict[str, Any]:
        """Return the case as one flat row, for a table: `pandas.DataFrame(case.to_dict() for case in run.cases())`.

        Columns of the row come first, then `subject`, `answer`, the value of each score, and `error`. A name that the
        row has already gets a prefix: `case.answer`, `score.exact_match`.
        """
        row = dict(self._case.row or {"label": self.label})
        others: list[tuple[str, str, Any]] = [
            ("case", "subject", self.subject),
            ("case", "answer", self.answer),
        ]
        others += [("score", name, score.value) for name, score in self.scores.items()]
        others.append(("case", "error", self.error_message))
        for prefix, name, value in others:
            row[f"{prefix}.{name}" if name in row else name] = value
        return row

    @property
    def failed(self) -> bool:
        """Whether the case has no answer, or a score that is 0 or invalid."""
        return self._case.failed

    @property
    def error_message(self) -> str:
        """Why the case has no answer or no valid score; empty if it has both."""
        if self.error is not None:
            return f"{self.error.kind}: {self.error.message}"
        invalid = [score for score in self._case.scores if score.status == "invalid"]
        return f"{invalid[0].metric}: {invalid[0].reason}" if invalid else ""

    def __repr__(self) -> str:
        values = ", ".join(
            f"{name} {'–' if score.value is None else f'{score.value:g}'}" for name, score in self.scores.items()
        )
        return f"<RunCase {self.label} of {self.subject}: {self.status}{' · ' if values else ''}{values}>"
