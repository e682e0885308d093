"""How a run ends: its exit code and the sentence that says why, by one rule for all suites.

The first that applies:

| code | the run |
|---|---|
| 130 | was interrupted |
| 2 | has a case with bad data, of which no request can be made, and no case that could be continued |
| 3 | stopped, or some case got no answer from an endpoint; the same command continues |
| 1 | failed a check, or has no score: every answer is an error, or no score or verdict is valid |
| 4 | is undecided: some verdict of a judge is missing |
| 0 | measured what it was asked to measure, right or wrong. One task or memory of several may have no score |

Wrong use and bad input that is found before the first request (code 2) never get here: such a command does not start a
run.
"""

from __future__ import annotations

from typing import NamedTuple

from assay.core.report import CaseCounts, Entry, Metric, Report

# The exit code of a run that Ctrl-C or SIGTERM stopped, as shells have it.
INTERRUPTED = 130
STOPPED, FAILED, UNDECIDED, BAD_INPUT = 3, 1, 4, 2


class RunEnd(NamedTuple):
    """The exit code, and one sentence that says why it is not 0, or which part of a run with code 0 has no score."""

    code: int
    reason: str = ""


def end_of_stopped(error: BaseException) -> RunEnd:
    """Return the end of a run that an error or a signal stopped."""
    if isinstance(error, KeyboardInterrupt):
        return RunEnd(INTERRUPTED, "The run was interrupted")
    return RunEnd(STOPPED, f"The run stopped: {error}")


def end_of_report(report: Report, cases: CaseCounts) -> RunEnd:
    """Return the end of a run that has a report."""
    if cases.unanswered > cases.invalid:
        are = "case has" if cases.unanswered == 1 else "cases have"
        return RunEnd(STOPPED, f"{cases.unanswered:,} of {cases.total:,} {are} no answer or no score")
    if cases.invalid:
        first = "" if cases.invalid == 1 else ", the first"
        return RunEnd(
            BAD_INPUT,
            f"{cases.invalid:,} of {cases.total:,} cases cannot be asked because of bad data{first}: "
            f"{cases.why_invalid}",
        )
    answered = report.answers(cases)
    if answered.total and not answered.count:
        return RunEnd(
            FAILED,
            f"No {answered.unit} has {answered.lacks}, {_all(answered.total)} failed{_often(report, answered.total)}",
        )
    if cases.total and not cases.ok:
        return RunEnd(FAILED, f"No case has an answer, {_all(cases.total)} failed{_often(report, cases.total)}")
    if report.passed is False:
        return RunEnd(FAILED, report.why or "A check failed")
    metrics = [metric for _, metric in report.metrics()]
    if report.wants_scores and metrics and not any(metric.denominator for metric in metrics):
        return RunEnd(FAILED, f"No {answered.unit} has a score{_why_no_score(metrics)}{_often(report)}")
    if report.wants_scores and metrics and all(metric.value is None for metric in metrics):
        why = next((f": {metric.title}: {metric.reason}" for metric in metrics if metric.reason), "")
        return RunEnd(FAILED, f"No metric has a value{why}")
    judged = [metric for entry in report.entries for metric in _judged_metrics(entry)]
    invalid = sum(map(invalid_verdicts, report.entries))
    if invalid and not any(metric.denominator > metric.unasked for metric in judged):
        return RunEnd(FAILED, f"No verdict of the judge is valid: {_all(invalid)} are invalid{_often(report)}")
    if report.passed is None or invalid:
        missing = f"{invalid:,} {'verdict' if invalid == 1 else 'verdicts'} of the judge" if invalid else ""
        return RunEnd(UNDECIDED, report.why or f"Undecided: {missing or 'some verdict of the judge'} cannot be used")
    return RunEnd(0, _without_score(report))


def has_score(entry: Entry) -> bool:
    """Return whether any metric of an entry has a value that stands on an answer."""
    apart = entry.answered.apart if entry.answered and not entry.answered.count else ()
    return any(metric.value is not None and metric.name not in apart for metric in entry.metrics)


def _without_score(report: Report) -> str:
    """`t_pr has no score: ValueError: no at u.py:2`: the entries without any score beside others that have one."""
    entries = [entry for entry in report.entries if not entry.members]
    if not report.wants_scores or not any(map(has_score, entries)):
        return ""
    sentences = []
    for entry in entries:
        if has_score(entry):
            continue
        why = f": {entry.errors[0]}" if entry.errors else _why_no_score(entry.metrics)
        sentences.append(f"{entry.title} has no score{why}")
    return "; ".join(sentences)


def invalid_verdicts(entry: Entry) -> int:
    """Return how many verdicts of its judges an entry could not use."""
    if entry.invalid_verdicts is not None:
        return entry.invalid_verdicts
    return sum(metric.left_out.get("invalid", 0) for metric in _judged_metrics(entry))


def _judged_metrics(entry: Entry) -> list[Metric]:
    return [metric for judge in entry.judges for metric in entry.metrics if metric.name in judge.metrics]


def _all(count: int) -> str:
    return "the only one" if count == 1 else f"all {count:,}"


def _often(report: Report, total: int = 0) -> str:
    """`, most often KeyError: 'text' at Hop.py:14 (11 times)`; `: KeyError: …` if all `total` have this error.

    `, such as KeyError: …` if each error occurred once. Empty if no error is known.
    """
    if not report.errors:
        return ""
    error = report.errors[0]
    if error.count == total:
        return f": {error}"
    # The errors are in descending order of their counts.
    return f", such as {error}" if error.count == 1 else f", most often {error} ({error.count:,} times)"


def _why_no_score(metrics: list[Metric]) -> str:
    """`: 6 invalid, 2 not judged`, of the metric that leaves out most; without invalid scores, a metric's reason."""
    own_reasons = [metric.reason for metric in metrics if metric.reason]
    if own_reasons and not any("invalid" in metric.left_out for metric in metrics):
        return f": {own_reasons[0]}"
    most = max((metric.left_out for metric in metrics), key=lambda left_out: sum(left_out.values()), default={})
    reasons = ", ".join(f"{count:,} {why.replace('_', ' ')}" for why, count in most.items())
    return f": {reasons}" if reasons else ""
