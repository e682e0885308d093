"""Has the answers of a conversation judged, each pair of a question and an answer once."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from assay.core.protocols import Context, Scorer, View
from assay.core.types import Case, Record, Score
from assay.scoring.panel import Panel, answer_data, answer_scorer_id, answer_value, judge_answer
from assay.scoring.questions import AnswerQuestion, Verdict
from assay.store.judges import about_judge
from assay.suites.memory_test.scorer import JUDGED, about, answers_of, is_interim, reference_of

VERSION = 1
"""Of what is shown to the judge."""
NOT_JUDGED = "not judged"


class _Asked(Struct, frozen=True):
    """An answer, and what is put before the judge about it."""

    record: Record
    matter: AnswerQuestion


class AnswerJudge(Scorer):
    """Scores of a question have the part TEST/QUESTION, as those of the words have."""

    def __init__(self, panel: Panel, gold: str) -> None:
        self.id = answer_scorer_id(panel, [gold, VERSION])
        self.about = about_judge(panel, [JUDGED])["judge"]
        self.roles = panel.role
        self._panel = panel

    async def score(self, view: View, ctx: Context) -> list[Score]:
        """A question is asked in every test, and its answer often stays: equal ones are judged once."""
        asked = _asked(view.case, view.records)
        matters = list(dict.fromkeys(one.matter for one in asked))
        said = dict(zip(matters, await ctx.map(lambda one: self._verdict(one, ctx), matters), strict=True))
        return [self._score(view.case, one, said[one.matter]) for one in asked]

    async def _verdict(self, matter: AnswerQuestion, ctx: Context) -> Verdict:
        return await judge_answer(self._panel, matter.question, [matter.reference], matter.response, ctx)

    def _score(self, case: Case, asked: _Asked, verdict: Verdict) -> Score:
        status, value = answer_value(verdict)
        data = {**about(case.gold, asked.record.data), **answer_data(verdict)}
        interim = is_interim(case.gold, asked.record.data)
        if not interim:  # comparisons show it; the tests before would only repeat it
            data["answer"] = asked.matter.response
        return Score(
            *case.head,
            self.id,
            JUDGED,
            part=asked.record.part,
            status=status,
            value=value,
            reason=verdict.reason,
            data=data,
            interim=interim,
        )

    def missing(self, case: Case, records: Sequence[Record]) -> list[Score]:
        """In place of scores where the judge could not be asked, so that they are counted as left out."""
        return [
            Score(
                *case.head,
                self.id,
                JUDGED,
                part=one.record.part,
                status="not_applicable",
                reason=NOT_JUDGED,
                data=about(case.gold, one.record.data),
                interim=is_interim(case.gold, one.record.data),
            )
            for one in _asked(case, records)
        ]


def _asked(case: Case, records: Sequence[Record]) -> list[_Asked]:
    """Answers to questions that have a reference. To abstain is scored by its own rule, without a judge."""
    found = []
    for record in answers_of(records):
        question = case.gold.questions[record.data["question"] - 1]
        reference = reference_of(question, case.gold.rules)
        if reference is not None and reference.strip():
            matter = AnswerQuestion(question.text, reference, record.data["answer"])
            found.append(_Asked(record, matter))
    return found
