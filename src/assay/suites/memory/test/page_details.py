"""What the pages show of a conversation: its questions over the tests, and the life of one question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from assay.core.case_details import (
    CaseDetails,
    CurveValue,
    EvidencePiece,
    QuestionDetail,
    QuestionHit,
    QuestionLine,
    QuestionTest,
    TestValue,
    VerdictDetail,
    verdict_details,
)
from assay.core.suite_pages import RunOrigin, StoredCase
from assay.core.types import Score
from assay.suites.memory.conversation import AnswerRecord, read_answers
from assay.suites.memory.test.scorers import (
    AGE,
    JUDGED,
    METRICS,
    RECALL,
    metric_label,
    ordered_metrics,
    retrieved_places,
)
from assay.suites.memory.test.show_sections import (
    answer_text,
    category_label,
    evidence_places,
    is_evidence,
    message_texts,
    question_number,
    why_no_texts,
)

# Items of one test. Some memories return the whole conversation for each question.
_MOST_ITEMS = 50


def question_lines(case: StoredCase) -> CaseDetails:
    """Return every question with its headline score in each test, in the order of the data."""
    scores = _scores_by_question(case.scores)
    answers: dict[int, list[AnswerRecord]] = {}
    for _, answer in read_answers(case.records):
        answers.setdefault(answer.question, []).append(answer)
    lines = []
    for number, own_answers in sorted(answers.items()):
        own = scores.get(number, {})
        last = own_answers[-1]
        last_scores = own.get(last.test, [])
        headline = _headline(last_scores)
        tests = [
            TestValue(test=str(answer.test), value=_value(own.get(answer.test, []), headline)) for answer in own_answers
        ]
        lines.append(
            QuestionLine(
                name=str(number),
                text=next((score.label for score in last_scores if score.label), ""),
                category=_category(last_scores),
                metric=METRICS.get(headline, headline),
                tests=tests,
                reference=_reference(last_scores),
                answer=answer_text(last),
            )
        )
    return CaseDetails(questions=lines)


def question_life(case: StoredCase, name: str, origin: RunOrigin) -> QuestionDetail | None:
    """Return one question with every test that asked it: scores, answer, and retrieved items beside the evidence."""
    number = question_number(case, name)
    if number is None:
        return None
    answers = [answer for _, answer in read_answers(case.records) if answer.question == number]
    scores = _scores_by_question(case.scores).get(number, {})
    last_scores = scores.get(answers[-1].test, [])
    headline = _headline(last_scores)
    evidence = evidence_places(last_scores)
    texts = message_texts(case.end.label, origin)
    category = _category(last_scores)
    label = category_label(last_scores, origin)
    remarks = []
    if not texts:
        remarks.append(f"The texts of messages are not shown: {why_no_texts(origin)}")
    if evidence is None:
        remarks.append("The run does not say which messages are the evidence.")
    return QuestionDetail(
        name=str(number),
        text=next((score.label for score in last_scores if score.label), ""),
        category=f"{category} ({label})" if label else category,
        reference=_reference(last_scores),
        tests=[
            _question_test(answer, scores.get(answer.test, []), headline, evidence or [], texts) for answer in answers
        ],
        remark=" ".join(remarks),
    )


def curve_values(case: StoredCase) -> list[CurveValue]:
    """Return the score of each answer in each test. A score without a value has its status instead."""
    values = []
    ages = {
        score.part: score.data[AGE]
        for score in case.scores
        if score.metric == RECALL and isinstance(score.data, dict) and AGE in score.data
    }
    for score in case.scores:
        test = score.part.partition("/")[0]
        if test.isdecimal() and (score.value is not None or score.metric == JUDGED):
            value = score.status if score.value is None else score.value
            values.append(
                CurveValue(
                    test=int(test),
                    category=_category([score]),
                    metric=score.metric,
                    value=value,
                    age=ages.get(score.part),
                )
            )
    return values


def _question_test(
    answer: AnswerRecord,
    scores: Sequence[Score],
    headline: str,
    evidence: Sequence[str],
    texts: Mapping[str, str],
) -> QuestionTest:
    found = set(retrieved_places(answer.hits))
    items = [
        QuestionHit(
            rank=rank,
            id=hit[0],
            text=" / ".join(texts[place] for place in hit[1:] if place in texts) or None,
            is_evidence=is_evidence(hit, evidence),
        )
        for rank, hit in enumerate(answer.hits[:_MOST_ITEMS], 1)
    ]
    value = _value(scores, headline)
    return QuestionTest(
        test=str(answer.test),
        values=[
            (metric_label(name), _value(scores, name)) for name in ordered_metrics({score.metric for score in scores})
        ],
        is_right=None if value is None else value >= 1,
        answer=answer.answer,
        error=answer.error or "",
        items=items,
        more_items=max(0, len(answer.hits) - _MOST_ITEMS),
        evidence=[EvidencePiece(id=place, text=texts.get(place), is_found=place in found) for place in evidence],
        verdicts=_verdicts(scores),
    )


def _verdicts(scores: Sequence[Score]) -> list[VerdictDetail]:
    # Verdicts of earlier tests are interim scores, which count in no metric. Here they are part of the story.
    return verdict_details([replace(score, interim=False) for score in scores if score.metric == JUDGED])


def _scores_by_question(scores: Sequence[Score]) -> dict[int, dict[int, list[Score]]]:
    """Return the scores by question, then by test."""
    by_question: dict[int, dict[int, list[Score]]] = {}
    for score in scores:
        test, _, question = score.part.partition("/")
        if test.isdecimal() and question.isdecimal():
            by_question.setdefault(int(question), {}).setdefault(int(test), []).append(score)
    return by_question


def _headline(scores: Sequence[Score]) -> str:
    """Return the first metric of the tables that the question has; empty if it has none."""
    return next((name for name in METRICS if _has(scores, name)), "")


def _has(scores: Sequence[Score], metric: str) -> bool:
    return any(score.metric == metric for score in scores)


def _value(scores: Sequence[Score], metric: str) -> float | None:
    return next((score.value for score in scores if score.metric == metric), None)


def _category(scores: Sequence[Score]) -> str:
    values = (score.data.get("category") for score in scores if isinstance(score.data, dict))
    return str(next((value for value in values if value is not None), ""))


def _reference(scores: Sequence[Score]) -> str | None:
    return next((str(score.expected) for score in scores if score.expected is not None), None)
