"""The report and the summary of a run, made from its journal: the same for runs of assay and for imported results."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from assay.core.error_counts import ErrorCount
from assay.core.errors import StopRun
from assay.core.report import CaseCounts, Entry, Metric, Report
from assay.core.types import ASK, End, Failure
from assay.journal.journal import Journal
from assay.journal.run_files import Summary
from assay.runner.summary import complete_report, make_summary

REFUSED = Failure("refusal", "I cannot answer that", "subject_error")
DOWN = Failure("connection", "no route", "infra_error")


def entry(name: str = "x", value: float | None = 0.5, denominator: int = 2) -> Entry:
    return Entry(name=name, subject=name, metrics=[Metric(name="exact", value=value, denominator=denominator)])


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    """The journal of four cases: two answers, a refusal, and an endpoint that is down."""
    journal = Journal(tmp_path, [], [])
    for index, failure in enumerate((None, REFUSED, None, DOWN)):
        status = failure.status if failure else "ok"
        journal.end_case(End(index, f"case-{index}", "", "x", ASK, 1, status, [], failure), [])
    yield journal
    journal.close()


def summary_of(
    journal: Journal,
    cases: CaseCounts,
    report: Report | None = None,
    stopped: BaseException | None = None,
    slots: int = 4,
) -> Summary:
    return make_summary(
        journal, cases, report, slots=slots, score="5f0c", scorers=["exact@1"], seconds=2.5, stopped=stopped
    )


def test_a_summary_counts_the_cases_of_the_journal_and_names_their_first_failures(journal: Journal) -> None:
    report = Report(entries=[entry()])
    summary = summary_of(journal, CaseCounts(4, 2), report)
    assert (summary.total, summary.ok, summary.subject_error, summary.infra_error) == (4, 2, 1, 1)
    assert summary.failures == {"refusal": 1, "connection": 1}
    assert summary.first_failures == {"refusal": "I cannot answer that", "connection": "no route"}
    assert (summary.score, summary.scorers, summary.seconds) == ("5f0c", ["exact@1"], 2.5)
    assert summary.report is report
    assert summary.spent.calls == 0


def test_cases_behind_the_last_slot_do_not_count(journal: Journal) -> None:
    summary = summary_of(journal, CaseCounts(2, 1), Report(), slots=2)
    assert (summary.ok, summary.subject_error, summary.infra_error) == (1, 1, 0)


def test_a_run_with_a_case_that_can_be_asked_again_is_incomplete(journal: Journal) -> None:
    """An imported run has no such case: nobody can ask its cases again."""
    incomplete = summary_of(journal, CaseCounts(4, 2, unanswered=1), Report(entries=[entry()]))
    assert (incomplete.state, incomplete.exit_code) == ("incomplete", 3)
    assert incomplete.exit_reason == "1 of 4 case has no answer or no score"
    imported = summary_of(journal, CaseCounts(4, 2), Report(entries=[entry()]))
    assert (imported.state, imported.exit_code, imported.exit_reason) == ("finished", 0, "")


@pytest.mark.parametrize(
    ("error", "code", "reason"),
    [
        (StopRun("the disk is full"), 3, "The run stopped: the disk is full"),
        (KeyboardInterrupt(), 130, "The run was interrupted"),
    ],
    ids=["error", "Ctrl-C"],
)
def test_a_run_that_was_stopped_says_why_and_has_no_report(
    journal: Journal, error: BaseException, code: int, reason: str
) -> None:
    summary = summary_of(journal, CaseCounts(4, 2, unanswered=1), stopped=error)
    assert (summary.state, summary.exit_code, summary.exit_reason) == ("stopped", code, reason)
    assert summary.report is None


def test_a_report_has_no_number_without_an_answer_behind_it() -> None:
    report = Report(entries=[entry(value=0.0)])
    complete_report(report, CaseCounts(2, 0))
    assert report.entries[0].metrics[0].value is None


def test_the_errors_of_cases_are_added_to_those_of_the_suite_and_the_ten_most_frequent_stay() -> None:
    many = [ErrorCount(f"error {number}", number) for number in range(1, 12)]
    report = Report(entries=[entry()], errors=[ErrorCount("error 3", 40)])
    complete_report(report, CaseCounts(2, 2), lambda _set, _subject: many)
    assert [error.count for error in report.errors] == [43, 11, 10, 9, 8, 7, 6, 5, 4, 2]


def test_an_entry_without_a_score_names_its_own_most_frequent_error() -> None:
    """It is asked for by set and subject. An entry that has a score names none."""
    asked = []

    def errors_of(set_: str, subject: str) -> list[ErrorCount]:
        asked.append((set_, subject))
        return [ErrorCount(f"error of {subject or 'all'}", 2), ErrorCount("another", 1)]

    failed = Entry(name="y", subject="y", set="s", metrics=[Metric(name="exact", value=None, denominator=0)])
    report = Report(entries=[entry(), failed])
    complete_report(report, CaseCounts(4, 2), errors_of)
    assert [each.errors for each in report.entries] == [[], [ErrorCount("error of y", 2)]]
    assert asked == [("", ""), ("", "x"), ("s", "y")]


def test_a_report_whose_cases_are_not_counted_keeps_the_errors_that_it_has() -> None:
    """Those of an imported file, which may be more than ten."""
    errors = [ErrorCount(f"error {number}", 1) for number in range(12)]
    failed = entry(value=None, denominator=0)
    failed.errors = errors[:2]
    report = Report(entries=[failed], errors=errors)
    complete_report(report, CaseCounts(2, 1))
    assert report.errors == errors
    assert report.entries[0].errors == errors[:2]
