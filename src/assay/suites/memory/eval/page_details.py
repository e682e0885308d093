"""What the pages show of a sample: its questions, one question with its evidence, and the memory after each session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from assay.core.case_details import (
    CaseDetails,
    EvidencePiece,
    HeldItem,
    HeldSession,
    QuestionDetail,
    QuestionHit,
    QuestionLine,
    QuestionTest,
    TestValue,
    verdict_details,
)
from assay.core.memory import ACTIVE
from assay.core.suite_pages import StoredCase
from assay.core.types import Record, Score
from assay.suites.memory.eval.scorers import ANSWER, CORRECTNESS, EVIDENCE, F1, RECALL, RETRIEVED, UPDATE_RECALL
from assay.suites.memory.eval.show_sections import QUESTION_METRICS, is_covered, item_texts, question_part
from assay.suites.memory.eval.tally import JUDGED, LEXICAL
from assay.suites.memory.sessions import ANSWER as ANSWER_RECORD, SESSION
from assay.suites.memory.snapshots import ADD, UPDATE, MemorySnapshot, SessionChanges

_SESSION_METRICS = (RECALL, UPDATE_RECALL, CORRECTNESS)
_CHANGE_WORDS = {ADD: "added", UPDATE: "updated"}
# Items of one question. A memory that returns everything may have thousands.
_MOST_ITEMS = 50


def sample_details(case: StoredCase) -> CaseDetails:
    """Return the questions of a sample, and the verdicts on its sessions and points."""
    answers = {score.part: score for score in case.scores if score.metric == ANSWER}
    lines = []
    for score in case.scores:
        if score.metric == F1:
            headline = answers.get(score.part, score)
            data = _data(score)
            kind = ", ".join(str(data[name]) for name in ("type", "difficulty") if data.get(name))
            lines.append(
                QuestionLine(
                    name=score.part,
                    text=score.label,
                    category=kind,
                    metric=(JUDGED | LEXICAL)[headline.metric],
                    tests=[TestValue(test=score.part.rpartition("/")[0], value=headline.value)],
                    reference=None if score.expected is None else str(score.expected),
                    answer=str(data.get("answer") or ""),
                )
            )
    of_questions = {line.name for line in lines}
    others = [score for score in case.scores if score.part not in of_questions]
    return CaseDetails(questions=lines, verdicts=verdict_details(others))


def sample_question(case: StoredCase, name: str) -> QuestionDetail | None:
    """Return one question with its scores, and the retrieved items beside the evidence."""
    part = question_part(case, name)
    if part is None:
        return None
    scores = {score.metric: score for score in case.scores if score.part == part}
    words = scores.get(F1)
    data = _data(words)
    kind = ", ".join(str(data[each]) for each in ("type", "difficulty") if data.get(each))
    record = next((each for each in case.records if each.kind == ANSWER_RECORD and each.part == part), None)
    items, more, remark = _retrieved(case, record)
    headline = scores.get(ANSWER, words)
    value = headline.value if headline is not None else None
    test = QuestionTest(
        test=part.rpartition("/")[0],
        values=[((JUDGED | LEXICAL)[metric], scores[metric].value) for metric in QUESTION_METRICS if metric in scores],
        is_right=None if value is None else value >= 1,
        answer=str(data.get("answer") or ""),
        error=str(record.data.get("error", "")) if record is not None else "",
        items=items,
        more_items=more,
        evidence=_evidence(scores),
        verdicts=verdict_details([scores[metric] for metric in QUESTION_METRICS if metric in scores]),
        remark=remark,
    )
    return QuestionDetail(
        name=part,
        text=next((score.label for score in scores.values() if score.label), ""),
        category=kind,
        reference=None if words is None or words.expected is None else str(words.expected),
        tests=[test],
    )


def held_sessions(case: StoredCase) -> list[HeldSession]:
    """Return the items of the memory after each session, in order, with marks at those that the session changed."""
    values = {(score.part, score.metric): score.value for score in case.scores}
    snapshot = MemorySnapshot()
    sessions = []
    for record in case.records:
        if record.kind != SESSION:
            continue
        before = dict(snapshot.items)
        changes = msgspec.convert({"changes": record.data["delta"], "order": record.data.get("order")}, SessionChanges)
        snapshot.apply(changes)
        words = {change.id: _CHANGE_WORDS.get(change.op, "") for change in changes.changes}
        # An update may take the place of items with other ids.
        replaced = {change.id: change.linked for change in changes.changes if change.op == UPDATE}
        items = [
            HeldItem(
                id=item.id,
                text=item.text,
                session=item.session,
                change=words.get(item.id, "") if item.status == ACTIVE else item.status,
                before="\n".join(before[id_].text for id_ in replaced.get(item.id, ()) if id_ in before),
            )
            for item in snapshot.items.values()
        ]
        kept_as = {id_ for change in changes.changes for id_ in change.linked}
        items += [
            HeldItem(id=item.id, text=item.text, session=item.session, change="removed")
            for item in before.values()
            if item.id not in snapshot.items and item.id not in kept_as
        ]
        metrics = [
            (JUDGED[name], values[record.part, name]) for name in _SESSION_METRICS if (record.part, name) in values
        ]
        sessions.append(HeldSession(name=record.part, items=items, values=metrics))
    return sessions


def _retrieved(case: StoredCase, record: Record | None) -> tuple[list[QuestionHit], int, str]:
    """Return the first retrieved items, the number of further ones, and a remark."""
    if record is None:
        return [], 0, "The retrieved items are not in the run."
    found, cited = record.data["found"], record.data["cited"]
    if isinstance(found, int):
        quotes = [f"item {each + 1}" if isinstance(each, int) else each for each in cited]
        remark = f"Retrieved: the newest {found:,} items, as one text. Cited: {'; '.join(quotes) or 'nothing'}"
        return [], 0, remark
    texts = item_texts(case.records) | record.data.get("texts", {})
    items = []
    for rank, (name, score) in enumerate(found[:_MOST_ITEMS]):
        text = texts.get(name)
        is_cited = rank in cited or (text is not None and text in cited)
        items.append(QuestionHit(rank=rank + 1, id=name, text=text, score=score, is_cited=is_cited))
    return items, max(0, len(found) - _MOST_ITEMS), ""


def _evidence(scores: Mapping[str, Score]) -> list[EvidencePiece]:
    pieces: Sequence[str] = _data(scores.get(EVIDENCE)).get("evidence", ())
    return [
        EvidencePiece(
            id=str(number + 1),
            text=text,
            is_found=is_covered(scores.get(RETRIEVED), number),
            is_cited=is_covered(scores.get(EVIDENCE), number),
        )
        for number, text in enumerate(pieces)
    ]


def _data(score: Score | None) -> Mapping[str, Any]:
    return score.data if score is not None and isinstance(score.data, dict) else {}
