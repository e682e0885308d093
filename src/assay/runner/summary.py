"""The report and the summary of a run, completed in one place for runs of assay and for imported results.

    complete_report(report, cases)
    summary = make_summary(journal, cases, report, slots=4, score=…, scorers=[…], seconds=2.5)

A number that every report has, whichever suite or format it comes from, belongs into `complete_report`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from assay.core.error_counts import ErrorCount, ErrorCounts
from assay.core.no_answer import leave_out_unanswered
from assay.core.report import CaseCounts, Report
from assay.core.run_end import RunEnd, end_of_report, end_of_stopped, has_score
from assay.journal.journal import Journal
from assay.journal.run_files import Summary
from assay.journal.spending import CallCounts

# Errors that a report keeps, the most frequent ones.
_MAX_ERRORS = 10

ErrorsOf = Callable[[str, str], Sequence[ErrorCount]]


def complete_report(report: Report, cases: CaseCounts, errors_of: ErrorsOf | None = None) -> None:
    """Complete the report of a suite or of an imported file: its errors, and no number without an answer behind it.

    `errors_of` returns the errors of the cases of a set and a subject; "" stands for all. Without it, as in an imported
    run, the report keeps the errors that it has.
    """
    if errors_of is not None:
        # The errors of whole cases, which every run has, and those of tests and questions, which the suite adds.
        report.errors = ErrorCounts([*errors_of("", ""), *report.errors]).all()[:_MAX_ERRORS]
    leave_out_unanswered(report, cases)
    if errors_of is not None:
        for entry in report.entries:
            own = [error for name in report.sets_of(entry) for error in errors_of(name, entry.subject)]
            entry.errors = [] if has_score(entry) else ErrorCounts([*own, *entry.errors]).all()[:1]


def make_summary(
    journal: Journal,
    cases: CaseCounts,
    report: Report | None,
    *,
    slots: int,
    score: str,
    scorers: list[str],
    seconds: float,
    stopped: BaseException | None = None,
) -> Summary:
    """Return the summary of a run with a complete report, or of a run that the error `stopped` ended without one.

    `slots` is the number of positions that the journal has for cases; a shard uses some of them. The caller adds what
    only one kind of run has, such as result files.
    """
    state, end = "incomplete" if cases.unanswered else "finished", RunEnd(0)
    if stopped is not None:
        state, end = "stopped", end_of_stopped(stopped)
    elif report is not None:
        end = end_of_report(report, cases)
    counts = journal.counts(slots)
    failures, first_failures = journal.failures()
    summary = Summary(
        state=state,
        score=score,
        scorers=scorers,
        total=cases.total,
        ok=counts["ok"],
        subject_error=counts["subject_error"],
        infra_error=counts["infra_error"],
        exit_code=end.code,
        exit_reason=end.reason,
        seconds=seconds,
        spent=CallCounts(),
        this_start={},
        files=[],
        report=report,
        failures=failures,
        first_failures=first_failures,
    )
    return summary.with_spending(journal.index.spent)
