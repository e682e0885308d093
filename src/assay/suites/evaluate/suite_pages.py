"""A row of `assay.evaluate` for people."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from assay.core.suite_pages import (
    GradedAnswer,
    Section,
    StoredCase,
    SuitePages,
    as_text,
    graded_answers,
    record_sections,
    score_sections,
)
from assay.suites.evaluate.rows import QUESTION_COLUMNS


class EvaluatePages(SuitePages):
    """A row of `assay.evaluate` for people."""

    def graded_answers(self, case: StoredCase) -> Sequence[GradedAnswer]:
        """Return the answers with the column of the row that has the question, and with the rubric if there is one."""
        row = case.row or {}
        question = next((as_text(row[name]) for name in QUESTION_COLUMNS if name in row), "")
        rubrics = {
            score.metric: str(score.data["rubric"])
            for score in case.scores
            if isinstance(score.data, dict) and "rubric" in score.data
        }
        return [
            replace(answer, question=question or answer.question, rubric=rubrics.get(answer.metric, ""))
            for answer in graded_answers(case)
        ]

    def sections(self, case: StoredCase) -> Sequence[Section]:
        """Return what `assay show RUN CASE` prints: the row, the answers and the scores."""
        row = []
        if case.row is not None:
            row = [
                Section(
                    heading="row",
                    text=msgspec.json.format(msgspec.json.encode(case.row)).decode(),
                    max_chars=4000,
                )
            ]
        return [*row, *record_sections(case), *score_sections(case)]
