"""A labelled answer for people."""

from __future__ import annotations

from collections.abc import Sequence

from assay.core.suite_pages import Section, StoredCase, SuitePages, score_sections


class CalibrationPages(SuitePages):
    """A labelled answer for people."""

    def sections(self, case: StoredCase) -> Sequence[Section]:
        """Return the answer that was judged, then the verdict, for `assay show`."""
        answers = [
            Section(heading="answer", text=str(record.data), max_chars=4000)
            for record in case.records
            if record.kind == "answer"
        ]
        return [*answers, *score_sections(case)]
