"""A sample with its sessions and questions for people."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from assay.core.case_details import CaseDetails, HeldSession, QuestionDetail
from assay.core.suite_pages import GradedAnswer, RunOrigin, Section, StoredCase, SuitePages, graded_answers
from assay.core.types import Record
from assay.suites.memory.eval.page_details import held_sessions, sample_details, sample_question
from assay.suites.memory.eval.scorers import ANSWER, EVIDENCE, F1
from assay.suites.memory.eval.show_sections import question_sections, row_text, sample_sections
from assay.suites.memory.eval.tally import DIMENSIONS


class MemoryEvalPages(SuitePages):
    """A sample with its sessions and questions for people."""

    has_questions = True
    dimensions = tuple(DIMENSIONS)

    def graded_answers(self, case: StoredCase) -> Sequence[GradedAnswer]:
        """Return the answers with their evidence, which the judge reads too."""
        evidence = {
            score.part: tuple(score.data.get("evidence", ())) for score in case.scores if score.metric == EVIDENCE
        }
        return [
            replace(answer, evidence=evidence.get(answer.part, ()))
            for answer in graded_answers(case)
            if answer.metric in (ANSWER, F1)
        ]

    def sections(self, case: StoredCase) -> Sequence[Section]:
        """Return three tables: sessions with their changes, points with their labels, and questions."""
        return sample_sections(case)

    def question_sections(self, case: StoredCase, name: str, origin: RunOrigin) -> Sequence[Section]:
        """Return one question with its verdicts, and the retrieved items beside the evidence."""
        return question_sections(case, name)

    def answer_text(self, records: Sequence[Record]) -> str:
        """Return the answer to one question, or how many items one session changed."""
        return row_text(records)

    def details(self, case: StoredCase) -> CaseDetails:
        """Return the questions of a sample, and the verdicts on its sessions and points."""
        return sample_details(case)

    def question_detail(self, case: StoredCase, name: str, origin: RunOrigin) -> QuestionDetail | None:
        """Return one question with its scores, and the retrieved items beside the evidence."""
        return sample_question(case, name)

    def held_items(self, case: StoredCase) -> Sequence[HeldSession]:
        """Return the items of the memory after each session."""
        return held_sessions(case)
