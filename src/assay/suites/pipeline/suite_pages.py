"""The tests of a pipeline for people."""

from __future__ import annotations

from collections.abc import Sequence

from assay.core.case_details import CaseDetails
from assay.core.suite_pages import GradedAnswer, Section, StoredCase, SuitePages, as_text, graded_answers
from assay.suites.pipeline.page_details import test_details
from assay.suites.pipeline.result_files import JUDGE
from assay.suites.pipeline.show_sections import test_sections


class PipelinePages(SuitePages):
    """The tests of a pipeline for people."""

    def sections(self, case: StoredCase) -> Sequence[Section]:
        """Return the output of each step in the order in which the steps ended, then the checks of each test."""
        return test_sections(case)

    def details(self, case: StoredCase) -> CaseDetails:
        """Return the tests of a case with their steps and checks."""
        return test_details(case)

    def graded_answers(self, case: StoredCase) -> Sequence[GradedAnswer]:
        """Return the outputs of each test, and as the metric `judge` every text that a judge read with its rubric."""
        answers = graded_answers(case)
        for score in case.scores:
            for number, check in enumerate((score.data or {}).get("checks", [])):
                if check["kind"] == JUDGE:
                    answers.append(
                        GradedAnswer(
                            metric=JUDGE,
                            part=f"{score.part}/{number}",
                            rubric=as_text(check.get("expected", "")),
                            response=as_text(check.get("actual", "")),
                            category=score.tags[0] if score.tags else "",
                            cluster=score.part,
                            accepted=check["passed"],
                        )
                    )
        return answers
