"""The `eval` of a session or a question, from the scores of its part. What was not judged is null."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from assay.core.types import Score
from assay.scoring.questions import (
    BOTH,
    COVERED,
    FABRICATED,
    IRRELEVANT,
    MEMORIZED,
    OUTDATED,
    REJECTED,
    TRUE,
    UPDATED,
)
from assay.suites.memory_eval.judging import (
    ANSWER,
    CORRECTNESS,
    EVIDENCE,
    INTERFERENCE,
    RECALL,
    RETRIEVED,
    UPDATE,
    UPDATE_RECALL,
)
from assay.suites.memory_eval.points import own, points, question_parts, session_parts, written
from assay.suites.memory_eval.rows import Handled, Labelled, QaEval, QaRow, SessionEval, SessionRow

_NOT_JUDGED = "it was not judged"
_OF_QUESTIONS = (ANSWER, EVIDENCE, RETRIEVED)


class Evals(NamedTuple):
    """What the judge said of a sample, in the order of its rows."""

    sessions: list[SessionEval]
    questions: list[QaEval]


def evals(sessions: Sequence[SessionRow], questions: Sequence[QaRow], scores: Sequence[Score]) -> Evals:
    """Of a whole sample: every row gets the scores of its part."""
    of_questions: dict[str, list[Score]] = defaultdict(list)
    of_sessions: dict[str, list[Score]] = defaultdict(list)
    for score in scores:
        if score.metric in _OF_QUESTIONS:
            of_questions[score.part].append(score)
        else:
            of_sessions[_session(score)].append(score)
    return Evals(
        [
            session_eval(row, of_sessions[part])
            for part, row in zip(session_parts(sessions), sessions, strict=True)
        ],
        [
            qa_eval(row, of_questions[part])
            for part, row in zip(question_parts(questions), questions, strict=True)
        ],
    )


def session_eval(row: SessionRow, scores: Sequence[Score]) -> SessionEval:
    """Of one session, from its own scores and those of its points."""
    found = {(score.metric, _data(score).get("point")): score for score in scores}
    return SessionEval(
        session_id=row.session_id,
        **_recall(row, found.get((RECALL, None)), found.get((UPDATE_RECALL, None))),
        **_correctness(row, found.get((CORRECTNESS, None))),
        **_update(row, found),
        **_interference(row, found),
    )


def qa_eval(row: QaRow, scores: Sequence[Score]) -> QaEval:
    """Of one question. `num_evidence` counts the pieces whose text is known."""
    found = {score.metric: score for score in scores}
    answer, evidence = found.get(ANSWER), found.get(EVIDENCE)
    (label,) = _labels(answer) or (None,)
    return QaEval(
        answer_label=label,
        answer_reasoning=_reason(answer),
        answer_is_valid=label is not None,
        evidence_hit_rate=_value(evidence),
        evidence_covered_count=_labels(evidence).count(COVERED),
        num_evidence=len(row.gold_evidence_contents),
        evidence_reasoning=_reason(evidence),
        num_cited_memories=len(row.cited_memories),
    )


def _recall(row: SessionRow, recall: Score | None, updates: Score | None) -> dict[str, Any]:
    new, changed = own(row.gold_state)
    labels = _labels(recall)
    return {
        "recall": _value(recall),
        "covered_count": labels.count(COVERED),
        "num_gold": len(new) + len(changed),
        "update_recall": _value(updates),
        "update_covered_count": labels[len(new) :].count(COVERED),
        "update_total": len(changed),
        "recall_reasoning": _reason(recall),
    }


def _correctness(row: SessionRow, score: Score | None) -> dict[str, Any]:
    labels, count = _labels(score), len(written(row))
    return {
        "correctness_rate": _value(score),
        "num_memories": count,
        "num_correct": labels.count(TRUE),
        "num_hallucination": labels.count(FABRICATED),
        "num_irrelevant": labels.count(IRRELEVANT),
        "correctness_reasoning": _reason(score),
        "correctness_records": [Labelled(at, label) for at, label in enumerate(labels or [None] * count, 1)],
    }


def _update(row: SessionRow, found: dict[tuple[str, Any], Score]) -> dict[str, Any]:
    records = _handled(row.gold_state.session_update_memories, UPDATE, found)
    counts = Counter(record.label for record in records if record.label)
    total = counts.total()
    return {
        "update_score": (counts[UPDATED] + 0.5 * counts[BOTH]) / total if total else None,
        "update_num_updated": counts[UPDATED],
        "update_num_both": counts[BOTH],
        "update_num_outdated": counts[OUTDATED],
        "update_total_items": total,
        "update_records": records,
    }


def _interference(row: SessionRow, found: dict[tuple[str, Any], Score]) -> dict[str, Any]:
    records = _handled(row.gold_state.session_interference_memories, INTERFERENCE, found)
    counts = Counter(record.label for record in records if record.label)
    total = counts.total()
    return {
        "interference_score": counts[REJECTED] / total if total else None,
        "interference_num_rejected": counts[REJECTED],
        "interference_num_memorized": counts[MEMORIZED],
        "interference_total_items": total,
        "interference_records": records,
    }


def _handled(raw: Sequence[Any], metric: str, found: dict[tuple[str, Any], Score]) -> list[Handled]:
    """Every point, in the order of the row; the reason stands beside a label that is missing."""
    records = []
    for point in points(raw):
        score = found.get((metric, point.name))
        (label,) = _labels(score) or (None,)
        records.append(Handled(point.memory_id, label, _reason(score)))
    return records


def _session(score: Score) -> str:
    """The part of the session that a score belongs to."""
    point = _data(score).get("point")
    return score.part if point is None else score.part.removesuffix(f"/{point}")


def _data(score: Score) -> dict[str, Any]:
    return score.data or {}


def _value(score: Score | None) -> float | None:
    return score.value if score else None


def _labels(score: Score | None) -> list[Any]:
    """Those of a verdict that counts."""
    return list(_data(score)["labels"]) if score and score.status == "scored" else []


def _reason(score: Score | None) -> str:
    return score.reason if score else _NOT_JUDGED
