"""The sentence with which a run ends."""

from __future__ import annotations

import pytest

from assay.core.error_counts import ErrorCount
from assay.core.report import CaseCounts, Report
from assay.core.run_end import end_of_report


@pytest.mark.parametrize(
    ("errors", "end"),
    [
        ([ErrorCount("boom", 3)], ": boom"),
        ([ErrorCount("boom", 2), ErrorCount("bang", 1)], ", most often boom (2 times)"),
        ([ErrorCount("boom", 1), ErrorCount("bang", 1)], ", such as boom"),
    ],
)
def test_the_most_frequent_error_is_named_as_such_only_if_it_is(errors: list[ErrorCount], end: str) -> None:
    report = Report(errors=errors)
    assert end_of_report(report, CaseCounts(3, 0)).reason == f"No case has an answer, all 3 failed{end}"
