"""Scores the answers of a conversation: words against the reference, retrieved items against the evidence, a judge.

The `part` of a score is TEST/QUESTION, both numbers from 1. A question is asked again in every later test. Only the
scores of the last test count; earlier ones are marked `interim`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, to_builtins

from assay.core.protocols import Context, Scorer, ScorerInput
from assay.core.types import Case, Record, Score
from assay.scoring.judge import Judge, answer_data, answer_scorer_id, answer_value, judge_answer
from assay.scoring.questions import AnswerQuestion, Verdict
from assay.scoring.text_overlap import abstains, exact_match, list_f1, recall, token_f1
from assay.suites.memory.conversation import AnswerRecord, read_answers
from assay.suites.memory.test.conversation import ConversationQuestion, MessagePlace
from assay.suites.memory.test.retention import evidence_position
from assay.suites.memory.test.retrieval import (
    SESSIONS,
    item_messages,
    retrieval_label,
    retrieval_metrics,
    retrieval_values,
    session_recall,
)
from assay.usercode.loop import compute

JUDGED, F1, EXACT, RECALL, ABSTENTION = "judged", "f1", "exact_match", "evidence_recall", "abstention"
# Metrics with their labels, in the order of the tables. The first metric that a run has is its headline.
METRICS = {
    JUDGED: "judged right",
    F1: "token F1",
    EXACT: "exact",
    RECALL: "evidence",
    ABSTENTION: "abstained",
}
AGE = "age"
"""Key in the data of an evidence recall: the messages inserted between the last evidence message and the test."""
# Comparison rules of LoCoMo: split answer and reference at commas and match the parts; use only the reference text
# before the first `;`.
LIST_PARTS, FIRST_PART = "lists", "first"
# Part of the scorer's id. Increase it when the judge is shown something else: then all answers are judged again.
_JUDGE_VERSION = 1
NOT_JUDGED = "not judged"


def ordered_metrics(names: Collection[str]) -> list[str]:
    """Return those of the names that are metrics of this suite, in the order of the tables."""
    return [*(name for name in METRICS if name in names), *retrieval_metrics(names)]


def metric_label(name: str) -> str:
    """Return the words for a metric; empty if it is none of this suite."""
    return METRICS.get(name) or retrieval_label(name)


class JudgeRules(Struct, frozen=True, kw_only=True):
    """What a judge is told about questions of each type, in the place {rule} of its prompt."""

    rule: str
    by_category: Mapping[str, str] = {}
    abstention: str = ""
    """The rule for questions without an answer. Empty: they are not judged, only compared by their words."""

    def of(self, question: ConversationQuestion) -> str:
        """Return the rule for a question."""
        if question.abstention:
            return self.abstention
        return self.by_category.get(str(question.category), self.rule)


class ConversationGold(Struct, frozen=True):
    """What only scorers see of a conversation.

    `places` are the messages that exist; evidence may name others. `tests_after` has the messages inserted before each
    test.
    """

    questions: Sequence[ConversationQuestion]
    places: Mapping[str, MessagePlace]
    rules: Mapping[Any, str] = {}
    sample_id: str = ""
    tests_after: Sequence[int] = ()

    def question(self, answer: AnswerRecord) -> ConversationQuestion:
        """Return the question that an answer belongs to."""
        return self.questions[answer.question - 1]

    def evidence(self, question: ConversationQuestion) -> list[str]:
        """Return the ids of the evidence messages that exist."""
        return [place for place in question.places if place in self.places]

    def evidence_sessions(self, question: ConversationQuestion) -> set[str]:
        """Return the ids of the sessions with evidence. Empty if the sessions of messages are not known."""
        known = {self.places[place].session for place in question.places if place in self.places}
        return set(question.sessions or known) - {""}

    def age(self, answer: AnswerRecord) -> int | None:
        """Return the messages inserted between the last evidence message and the test; None if one is not known."""
        position = evidence_position(self.question(answer), self.places)
        return None if position is None else self.tests_after[answer.test - 1] - position

    def reference(self, question: ConversationQuestion) -> str | None:
        """Return the text to compare an answer with; None if the data has none or the right answer is to abstain."""
        if question.abstention or question.reference is None:
            return None
        reference = str(question.reference)
        if self.rules.get(question.category) == FIRST_PART:
            return reference.partition(";")[0]
        return reference


class WordScorer(Scorer):
    """Compares answers with references by their words, and retrieved items with the evidence. Asks no model.

    `ks` has the number of items to retrieve of memories that have their own; `top_k` is for the others. `unranked` are
    the memories that return one text: the order of the items behind it means nothing. `abstains` tells whether an
    answer says that it is not known; by default by LoCoMo's two phrases.
    """

    def __init__(
        self,
        gold_fingerprint: str,
        *,
        answers: bool,
        top_k: int,
        ks: Mapping[str, int] | None = None,
        unranked: Collection[str] = (),
        abstains: Callable[[str], bool] = abstains,
    ) -> None:
        self.id = f"memory@{gold_fingerprint}"
        self.abstains = abstains
        self._answers = answers
        self._top_k = top_k
        self._ks = ks or {}
        self._unranked = unranked

    async def score(self, given: ScorerInput, ctx: Context) -> list[Score]:
        """Return a score for each answer and each metric that applies to it."""
        # A conversation has hundreds of answers.
        return await compute(
            lambda: word_scores(
                given.case,
                given.records,
                self.id,
                answers=self._answers,
                top_k=self._ks.get(given.case.subject, self._top_k),
                ranked=given.case.subject not in self._unranked,
                abstains=self.abstains,
            )
        )


def word_scores(
    case: Case,
    records: Sequence[Record],
    scorer: str,
    *,
    answers: bool,
    retrieved: bool = True,
    top_k: int | None = None,
    ranked: bool = True,
    abstains: Callable[[str], bool] = abstains,
) -> list[Score]:
    """Return the word scores of all answers of a case. `answers` and `retrieved` tell what the records contain.

    Only the last test, where every question counts once, has the metrics of `retrieval.py`. They need `top_k`.
    """
    gold: ConversationGold = case.gold
    scores: list[Score] = []
    for record, answer in read_answers(records):
        question = gold.question(answer)
        interim = is_interim(gold, answer)
        evidence = gold.evidence(question)
        # None: the question has no evidence in this conversation.
        share = recall(retrieved_places(answer.hits), evidence) if retrieved else None
        values: dict[str, float] = {}
        if share is not None:
            data: dict[str, Any] = {}
            if (age := gold.age(answer)) is not None:
                data[AGE] = age
            if not interim:
                # `assay show RUN --question` prints the evidence beside the retrieved items.
                data["evidence"] = evidence
                if top_k is not None:
                    values = retrieval_values(answer.hits, evidence, top_k, ranked=ranked)
            scores.append(_score(case, scorer, RECALL, record, answer, value=share, data=data))
        if retrieved and top_k is not None and not interim:
            sessions = session_recall(answer.hits, gold.evidence_sessions(question), gold.places)
            if sessions is not None:
                values[SESSIONS] = sessions
        if answers:
            if question.abstention:
                values[ABSTENTION] = float(abstains(answer.answer))
            else:
                values |= _answer_values(answer, question, gold)
        scores += [
            _score(case, scorer, metric, record, answer, value=values[metric]) for metric in ordered_metrics(values)
        ]
    return scores


def _answer_values(answer: AnswerRecord, question: ConversationQuestion, gold: ConversationGold) -> dict[str, float]:
    reference = gold.reference(question)
    if reference is None:
        return {}
    f1 = list_f1 if gold.rules.get(question.category) == LIST_PARTS else token_f1
    return {F1: f1(answer.answer, reference), EXACT: exact_match(answer.answer, reference)}


def retrieved_places(hits: Iterable[Sequence[str]]) -> set[str]:
    """Return the ids of the messages behind the retrieved items. Summaries of many messages are left out."""
    return {place for hit in hits for place in item_messages(hit)}


class ConversationJudge(Scorer):
    """Asks a judge about every answer. An answer that is the same in several tests is judged once."""

    def __init__(self, judge: Judge, gold_fingerprint: str, rules: JudgeRules | None = None) -> None:
        judged: list[Any] = [gold_fingerprint, _JUDGE_VERSION]
        if rules is not None:
            judged.append(to_builtins(rules))
        self.id = answer_scorer_id(judge, judged)
        self._judge = judge
        self._rules = rules

    async def score(self, given: ScorerInput, ctx: Context) -> list[Score]:
        """Return a score for each answer whose question has a reference."""
        judged = await compute(lambda: _judged_answers(given.case.gold, given.records, self._rules))
        questions = list(dict.fromkeys(each.question for each in judged))

        async def ask(question: AnswerQuestion) -> Verdict:
            references = [question.reference]
            return await judge_answer(self._judge, question.question, references, question.response, ctx, question.rule)

        verdicts = dict(zip(questions, await ctx.map(ask, questions), strict=True))
        return [self._score(given.case, each, verdicts[each.question]) for each in judged]

    def _score(self, case: Case, judged: _JudgedAnswer, verdict: Verdict) -> Score:
        status, value = answer_value(verdict)
        data = answer_data(verdict)
        # `assay compare` shows answers, and only those of the last test.
        if not is_interim(case.gold, judged.answer):
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
        """Return scores without a value for a case that the judge could not be asked about. They count as left out."""
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
            for each in _judged_answers(case.gold, records, self._rules)
        ]


class _JudgedAnswer(Struct, frozen=True):
    """An answer, and the question to the judge about it."""

    record: Record
    answer: AnswerRecord
    question: AnswerQuestion


def is_judged(question: ConversationQuestion, rules: JudgeRules | None) -> bool:
    """Return whether a judge sees the answers to a question. Abstention needs none, unless there is a rule for it."""
    if question.reference is None or not str(question.reference).strip():
        return False
    return not question.abstention or bool(rules and rules.abstention)


def _judged_answers(gold: ConversationGold, records: Sequence[Record], rules: JudgeRules | None) -> list[_JudgedAnswer]:
    """Return the answers that go to the judge."""
    judged: list[_JudgedAnswer] = []
    for record, answer in read_answers(records):
        question = gold.question(answer)
        reference = gold.reference(question) or ""
        if question.abstention:
            reference = str(question.reference)
        if is_judged(question, rules) and reference.strip():
            rule = rules.of(question) if rules else ""
            judge_question = AnswerQuestion(question.text, reference, answer.answer, rule=rule)
            judged.append(_JudgedAnswer(record, answer, judge_question))
    return judged


def is_interim(gold: ConversationGold, answer: AnswerRecord) -> bool:
    """Return whether a later test asks the question again."""
    return answer.test < len(gold.tests_after)


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
    """Build a score. `data` gets the category, and the conversation's id, by which comparisons are clustered."""
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
        # Interim scores leave these out. The last test asks the same question, and its scores have them.
        expected=None if interim else gold.reference(question),
        label="" if interim else question.text,
        tags=() if interim or question.category is None else (str(question.category),),
        interim=interim,
        **more,
    )
