"""A conversation with its tests for people."""

from __future__ import annotations

from collections.abc import Sequence

from assay.core.case_details import CaseDetails, CurveValue, QuestionDetail
from assay.core.suite_pages import RunOrigin, Section, StoredCase, SuitePages
from assay.core.types import Record
from assay.suites.memory.test.page_details import curve_values, question_life, question_lines
from assay.suites.memory.test.show_sections import conversation_sections, one_answer, question_sections


class MemoryTestPages(SuitePages):
    """A conversation with its tests for people."""

    has_questions = True

    def sections(self, case: StoredCase) -> Sequence[Section]:
        """Return two tables: the means of each test, and all questions of the last test."""
        return conversation_sections(case)

    def question_sections(self, case: StoredCase, name: str, origin: RunOrigin) -> Sequence[Section]:
        """Return one question in every test that asked it, with the retrieved items beside the evidence."""
        return question_sections(case, name, origin)

    def answer_text(self, records: Sequence[Record]) -> str:
        """Return the answer to one question, or the messages that were retrieved if no model answers."""
        return one_answer(records)

    def question_of(self, part: str) -> str:
        """Return the question of a part `test/question`."""
        return part.partition("/")[2]

    def details(self, case: StoredCase) -> CaseDetails:
        """Return every question with its headline score in each test."""
        return question_lines(case)

    def question_detail(self, case: StoredCase, name: str, origin: RunOrigin) -> QuestionDetail | None:
        return question_life(case, name, origin)

    def curve_values(self, case: StoredCase) -> Sequence[CurveValue]:
        """Return the scores of all tests with the categories of their questions."""
        return curve_values(case)
