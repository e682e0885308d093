"""Scores of the answers of a conversation, question by question: by words, by evidence, and by a judge.

Scores of a question have the part TEST/QUESTION. A question is asked in every test; all scores but those of the last
test are interim, so that each question counts once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from assay.core.protocols import Context, Scorer, View
from assay.core.types import Case, Record, Score
from assay.scoring.panel import Panel, answer_data, answer_scorer_id, answer_value, judge_answer
from assay.scoring.questions import AnswerQuestion, Verdict
from assay.scoring.text_overlap import abstains, exact_match, list_f1, recall, token_f1
from assay.solvers.memory.conversation import PACKET, AnswerRecord, read_answers
from assay.suites.memory_test.conversation import ConversationQuestion

JUDGED, F1, EXACT, RECALL, ABSTENTION = "judged", "f1", "exact_match", "evidence_recall", "abstention"
# Every metric with its name for people, in the order of tables. The first one that a run has is its headline.
METRICS = {
    JUDGED: "judged right",
    F1: "token F1",
    EXACT: "exact",
    RECALL: "evidence",
    ABSTENTION: "abstained",
}
# Rules of LoCoMo: compare part by part of a list; compare with the text before a `;`.
LIST_PARTS, FIRST_PART = "lists", "first"
# Version of what the judge is shown. Another version judges anew.
_JUDGE_VERSION = 1
NOT_JUDGED = "not judged"


class ConversationGold(Struct, frozen=True):
    """What scorers know of a conversation. `message_ids` are the messages that it really has."""

    questions: Sequence[ConversationQuestion]
    message_ids: frozenset[str]
    rules: Mapping[Any, str] = {}
    sample_id: str = ""
    tests: int = 0

    def question(self, answer: AnswerRecord) -> ConversationQuestion:
        """Return the question of an answer, whose index counts from 1."""
        return self.questions[answer.question - 1]

    def reference(self, question: ConversationQuestion) -> str | None:
        """Return the text an answer is compared with; None where the data has none, or abstaining is right."""
        if question.abstention or question.reference is None:
            return None
        reference = str(question.reference)
        if self.rules.get(question.category) == FIRST_PART:
            return reference.partition(";")[0]
        return reference


class WordScorer(Scorer):
    """Compares words with the reference, and the items found with the evidence."""

    def __init__(self, gold_fingerprint: str, *, answers: bool) -> None:
        self.id = f"memory@{gold_fingerprint}"
        self._answers = answers

    async def score(self, view: View, ctx: Context) -> list[Score]:
        """Score every answer by every metric that applies to it."""
        scores: list[Score] = []
        for record, answer in read_answers(view.records):
            for metric, value in self._values(answer, view.case.gold):
                scores.append(_score(view.case, self.id, metric, record, answer, value=value))
        return scores

    def _values(self, answer: AnswerRecord, gold: ConversationGold) -> list[tuple[str, float]]:
        question = gold.question(answer)
        values: list[tuple[str, float]] = []
        evidence = [place for place in question.places if place in gold.message_ids]
        share = recall(_places_found(answer), evidence)
        if share is not None:
            values.append((RECALL, share))
        if not self._answers:
            return values
        if question.abstention:
            values.append((ABSTENTION, float(abstains(answer.answer))))
            return values
        reference = gold.reference(question)
        if reference is not None:
            f1 = list_f1 if gold.rules.get(question.category) == LIST_PARTS else token_f1
            values.append((F1, f1(answer.answer, reference)))
            values.append((EXACT, exact_match(answer.answer, reference)))
        return values


def _places_found(answer: AnswerRecord) -> list[str]:
    """Return the messages behind the items found.

    An item that sums up more than a packet counts for none: it would find all evidence by holding everything.
    """
    places: list[str] = []
    for _, *sources in answer.hits:
        if len(sources) <= PACKET:
            places += sources
    return places


class ConversationJudge(Scorer):
    """Has answers judged. Each pair of a question and an answer is judged once, however many tests repeat it."""

    def __init__(self, panel: Panel, gold_fingerprint: str) -> None:
        self.id = answer_scorer_id(panel, [gold_fingerprint, _JUDGE_VERSION])
        self._panel = panel

    async def score(self, view: View, ctx: Context) -> list[Score]:
        """Judge every answer to a question with a reference."""
        judged = _judged_answers(view.case.gold, view.records)
        questions = list(dict.fromkeys(each.question for each in judged))

        async def ask(question: AnswerQuestion) -> Verdict:
            references = [question.reference]
            return await judge_answer(self._panel, question.question, references, question.response, ctx)

        verdicts = dict(zip(questions, await ctx.map(ask, questions), strict=True))
        return [self._score(view.case, each, verdicts[each.question]) for each in judged]

    def _score(self, case: Case, judged: _JudgedAnswer, verdict: Verdict) -> Score:
        status, value = answer_value(verdict)
        data = answer_data(verdict)
        if not is_interim(case.gold, judged.answer):  # comparisons show the answer of the last test
            data["answer"] = judged.question.response
        return _score(
            case,
            self.id,
            JUDGED,
            judged.record,
            judged.answer,
            value=value,
            status=status,
            reason=verdict.reason,
            data=data,
        )

    def missing(self, case: Case, records: Sequence[Record]) -> list[Score]:
        """Return scores without a value for a case whose judge could not be asked: they count as left out."""
        return [
            _score(
                case,
                self.id,
                JUDGED,
                each.record,
                each.answer,
                value=None,
                status="not_applicable",
                reason=NOT_JUDGED,
            )
            for each in _judged_answers(case.gold, records)
        ]


class _JudgedAnswer(Struct, frozen=True):
    """An answer, and what the judge is asked about it."""

    record: Record
    answer: AnswerRecord
    question: AnswerQuestion


def _judged_answers(gold: ConversationGold, records: Sequence[Record]) -> list[_JudgedAnswer]:
    """Return the answers to questions with a reference. Abstaining is scored by its own rule, without a judge."""
    judged: list[_JudgedAnswer] = []
    for record, answer in read_answers(records):
        question = gold.question(answer)
        reference = gold.reference(question)
        if reference is not None and reference.strip():
            matter = AnswerQuestion(question.text, reference, answer.answer)
            judged.append(_JudgedAnswer(record, answer, matter))
    return judged


def is_interim(gold: ConversationGold, answer: AnswerRecord) -> bool:
    """Whether the question is asked again in a later test."""
    return answer.test < gold.tests


def _score(
    case: Case,
    scorer: str,
    metric: str,
    record: Record,
    answer: AnswerRecord,
    *,
    value: float | None,
    data: Mapping[str, Any] | None = None,
    **more: Any,
) -> Score:
    """Build a score. `data` gets the category, and the conversation's id by which comparisons cluster."""
    gold: ConversationGold = case.gold
    question = gold.question(answer)
    interim = is_interim(gold, answer)
    return Score(
        *case.head,
        scorer,
        metric,
        part=record.part,
        value=value,
        data={"category": question.category, "id": gold.sample_id, **(data or {})},
        # Interim scores leave these out: the same question has them in its last test.
        expected=None if interim else gold.reference(question),
        label="" if interim else question.text,
        tags=() if interim or question.category is None else (str(question.category),),
        interim=interim,
        **more,
    )
