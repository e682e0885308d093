"""Builds the `eval` of each line from its scores, and `aggregate_metrics.json` from all evals.

Both follow the format. A null rate in an eval means "not judged" or "does not apply", a null count "not judged". A
ratio with denominator 0 is 0.0 in the aggregate, because the format has no null there. `tally.py` builds the run's
report, which shows a dash instead.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from assay.core.types import Score
from assay.scoring.questions import (
    BOTH,
    CORRECT,
    COVERED,
    FABRICATED,
    HALLUCINATION,
    IRRELEVANT,
    MEMORIZED,
    OMISSION,
    OUTDATED,
    REJECTED,
    TRUE,
    UPDATED,
)
from assay.suites.memory.eval import scorers
from assay.suites.memory.eval.result_lines import (
    MemoryLabel,
    PointLabel,
    QaEval,
    QaLine,
    SampleResults,
    SessionEval,
    SessionLine,
    gold_points,
    question_parts,
    session_parts,
    written_texts,
)

NOT_JUDGED = "not judged"
"""The reasoning of an eval that no judge made."""
# Reasons of evals about which no judge was asked.
_UNASKED = frozenset({NOT_JUDGED, scorers.NOTHING_TO_JUDGE, scorers.NOT_CITED, ""})
_QUESTION_METRICS = (scorers.ANSWER, scorers.EVIDENCE, scorers.RETRIEVED)
# Other tools write `error` where the format's description has `irrelevant`.
_IRRELEVANT_LABELS = frozenset({IRRELEVANT, "error"})


class SampleEvals(NamedTuple):
    """The evals of a sample, in the order of its lines."""

    sessions: list[SessionEval]
    questions: list[QaEval]


def sample_evals(results: SampleResults, scores: Sequence[Score]) -> SampleEvals:
    """Return the `eval` object of every session and every question of a sample, built from their scores."""
    by_question: dict[str, list[Score]] = defaultdict(list)
    by_session: dict[str, list[Score]] = defaultdict(list)
    for score in scores:
        if score.metric in _QUESTION_METRICS:
            by_question[score.part].append(score)
            continue
        # The part of a point's score is SESSION/POINT. Both may contain a slash, so the point is removed by name.
        point = (score.data or {}).get("point")
        part = score.part if point is None else score.part.removesuffix(f"/{point}")
        by_session[part].append(score)
    sessions = zip(session_parts(results.sessions), results.sessions, strict=True)
    questions = zip(question_parts(results.questions), results.questions, strict=True)
    return SampleEvals(
        [session_eval(line, by_session[part]) for part, line in sessions],
        [qa_eval(line, by_question[part]) for part, line in questions],
    )


def session_eval(line: SessionLine, scores: Sequence[Score]) -> SessionEval:
    """Return the eval of one session, built from its own scores and those of its points."""
    by_point = {(score.metric, (score.data or {}).get("point")): score for score in scores}
    recall = by_point.get((scorers.RECALL, None))
    correctness = by_point.get((scorers.CORRECTNESS, None))
    gold = line.gold_state
    new, updates = gold_points(gold.session_new_memories), gold_points(gold.session_update_memories)
    recall_labels, memory_labels = _labels(recall), _labels(correctness)
    memories = len(written_texts(line))
    update_records = _point_labels(gold.session_update_memories, scorers.UPDATE, by_point)
    interference_records = _point_labels(gold.session_interference_memories, scorers.INTERFERENCE, by_point)
    updated = Counter(record.label for record in update_records if record.label)
    rejected = Counter(record.label for record in interference_records if record.label)
    # Without a verdict nothing was counted, and 0 would say that nothing was covered or correct.
    recall_known = bool(recall_labels) or not new + updates
    correctness_known = bool(memory_labels) or not memories
    updates_known = bool(updated) or not update_records
    interference_known = bool(rejected) or not interference_records
    return SessionEval(
        session_id=line.session_id,
        recall=_value(recall),
        covered_count=recall_labels.count(COVERED) if recall_known else None,
        num_gold=len(new) + len(updates),
        update_recall=_value(by_point.get((scorers.UPDATE_RECALL, None))),
        # The question to the judge lists new points first, then updates.
        update_covered_count=recall_labels[len(new) :].count(COVERED) if recall_known else None,
        update_total=len(updates),
        recall_reasoning=_reason(recall),
        correctness_rate=_value(correctness),
        num_memories=memories,
        num_correct=memory_labels.count(TRUE) if correctness_known else None,
        num_hallucination=memory_labels.count(FABRICATED) if correctness_known else None,
        num_irrelevant=memory_labels.count(IRRELEVANT) if correctness_known else None,
        correctness_reasoning=_reason(correctness),
        correctness_records=[
            MemoryLabel(number, label) for number, label in enumerate(memory_labels or [None] * memories, 1)
        ],
        update_score=_mean_worth(scorers.UPDATE, updated),
        update_num_updated=updated[UPDATED] if updates_known else None,
        update_num_both=updated[BOTH] if updates_known else None,
        update_num_outdated=updated[OUTDATED] if updates_known else None,
        update_total_items=len(update_records) if updates_known else None,
        update_records=update_records,
        interference_score=_mean_worth(scorers.INTERFERENCE, rejected),
        interference_num_rejected=rejected[REJECTED] if interference_known else None,
        interference_num_memorized=rejected[MEMORIZED] if interference_known else None,
        interference_total_items=len(interference_records) if interference_known else None,
        interference_records=interference_records,
    )


def qa_eval(line: QaLine, scores: Sequence[Score]) -> QaEval:
    """Return the eval of one question. `num_evidence` counts only evidence with a text: no images, no unknown ids."""
    by_metric = {score.metric: score for score in scores}
    answer, evidence = by_metric.get(scorers.ANSWER), by_metric.get(scorers.EVIDENCE)
    labels, covered = _labels(answer), _labels(evidence)
    known = bool(covered) or not line.gold_evidence_contents
    return QaEval(
        answer_label=labels[0] if labels else None,
        answer_reasoning=_reason(answer),
        answer_is_valid=bool(labels),
        evidence_hit_rate=_value(evidence),
        evidence_covered_count=covered.count(COVERED) if known else None,
        num_evidence=len(line.gold_evidence_contents),
        evidence_reasoning=_reason(evidence),
        num_cited_memories=len(line.cited_memories),
    )


def _point_labels(raw_points: Sequence[Any], metric: str, scores: Mapping[tuple[str, Any], Score]) -> list[PointLabel]:
    """Return the labels of all points in the order of the line. A null label has its reason in `reasoning`."""
    records = []
    for point in gold_points(raw_points):
        score = scores.get((metric, point.name))
        labels = _labels(score)
        records.append(PointLabel(point.memory_id, labels[0] if labels else None, _reason(score)))
    return records


def _mean_worth(metric: str, counts: Counter[str]) -> float | None:
    """Return the mean value of the labels; None if there are no labels."""
    worth = scorers.LABEL_WORTH[metric]
    if not counts:
        return None
    return sum(worth.get(label, 0.0) * count for label, count in counts.items()) / counts.total()


def _value(score: Score | None) -> float | None:
    return score.value if score else None


def _labels(score: Score | None) -> list[str]:
    """Return the labels of a valid verdict; an empty list for any other score."""
    return list(score.data["labels"]) if score and score.status == "scored" else []


def _reason(score: Score | None) -> str:
    return score.reason if score else NOT_JUDGED


# aggregate_metrics.json


class Aggregate:
    """Adds evals up to the aggregate file. Recall and correctness are means over sessions; all else is pooled.

    Null values are left out. A ratio with denominator 0 is 0.0, as the format prescribes. Every `num_total` counts what
    the judge was asked about; the ratios beside it are over the valid verdicts.
    """

    def __init__(self) -> None:
        self._recall, self._update_recall = _Mean(), _Mean()
        self._covered = self._gold = 0
        self._shares = {name: _Mean() for name in ("correctness", "hallucination", "irrelevant")}
        self._memories = dict.fromkeys(("memories", "correct", "hallucination", "irrelevant"), 0)
        self._updates = dict.fromkeys(("updated", "both", "outdated"), 0)
        self._interference = dict.fromkeys(("rejected", "memorized"), 0)
        self._answers = dict.fromkeys((CORRECT, HALLUCINATION, OMISSION), 0)
        self._questions = self._valid = 0
        self._update_points = self._interference_points = 0
        self._evidence_covered = self._evidence_valid = self._evidence_total = 0

    def add_session(self, session: SessionEval) -> None:
        """Add one line of `session_records.jsonl`."""
        if session.recall is not None:
            self._recall.add(session.recall)
            self._covered += session.covered_count or 0
            self._gold += session.num_gold
        if session.update_recall is not None:
            self._update_recall.add(session.update_recall)
        # Other tools write a rate of 0.0 for a session that wrote nothing.
        if session.correctness_rate is not None and session.num_memories:
            self._add_memories(session, session.correctness_rate)
        updates = {
            "updated": session.update_num_updated or 0,
            "both": session.update_num_both or 0,
            "outdated": session.update_num_outdated or 0,
        }
        interference = {
            "rejected": session.interference_num_rejected or 0,
            "memorized": session.interference_num_memorized or 0,
        }
        _add_counts(self._updates, updates)
        _add_counts(self._interference, interference)
        # Files of other tools may lack the total or the records.
        self._update_points += max(
            sum(updates.values()), session.update_total_items or 0, _asked(session.update_records)
        )
        self._interference_points += max(
            sum(interference.values()),
            session.interference_total_items or 0,
            _asked(session.interference_records),
        )

    def _add_memories(self, session: SessionEval, correctness: float) -> None:
        irrelevant = sum(record.label in _IRRELEVANT_LABELS for record in session.correctness_records)
        counts = {
            "memories": session.num_memories,
            "correct": session.num_correct or 0,
            "hallucination": session.num_hallucination or 0,
            # Files of other tools may lack either the count or the records.
            "irrelevant": max(irrelevant, session.num_irrelevant or 0),
        }
        _add_counts(self._memories, counts)
        self._shares["correctness"].add(correctness)
        for name in ("hallucination", "irrelevant"):
            self._shares[name].add(counts[name] / session.num_memories)

    def add_question(self, question: QaEval) -> None:
        """Add one line of `qa_records.jsonl`."""
        self._questions += 1
        if question.answer_is_valid and question.answer_label is not None:
            self._valid += 1
            # Files of other tools may have further labels.
            self._answers[question.answer_label] = self._answers.get(question.answer_label, 0) + 1
        if question.evidence_hit_rate is not None:
            self._evidence_covered += question.evidence_covered_count or 0
            self._evidence_valid += question.num_evidence
        if question.evidence_hit_rate is not None or question.evidence_reasoning not in _UNASKED:
            self._evidence_total += question.num_evidence

    def metrics(self, baseline_id: str) -> dict[str, Any]:
        """Return the content of the file, in the order of the format."""
        updated, rejected = sum(self._updates.values()), sum(self._interference.values())
        return {
            "baseline_id": baseline_id,
            "memory_recall": {
                "avg_recall": self._recall.value,
                "avg_update_recall": self._update_recall.value,
                "num_sessions_with_recall": self._recall.count,
                "num_sessions_with_update": self._update_recall.count,
                "total_covered": self._covered,
                "total_gold": self._gold,
            },
            "memory_correctness": {
                **{f"avg_{name}": mean.value for name, mean in self._shares.items()},
                "num_sessions": self._shares["correctness"].count,
                **{f"total_{name}": count for name, count in self._memories.items()},
            },
            "update_handling": {
                "score": _ratio(self._updates["updated"] + 0.5 * self._updates["both"], updated),
                **{f"num_{name}": count for name, count in self._updates.items()},
                "num_total": self._update_points,
            },
            "interference_rejection": {
                "score": _ratio(self._interference["rejected"], rejected),
                **{f"num_{name}": count for name, count in self._interference.items()},
                "num_total": self._interference_points,
            },
            "question_answering": {
                "correct_ratio": _ratio(self._answers[CORRECT], self._valid),
                "hallucination_ratio": _ratio(self._answers[HALLUCINATION], self._valid),
                "omission_ratio": _ratio(self._answers[OMISSION], self._valid),
                "num_total": self._questions,
                "num_valid": self._valid,
            },
            "evidence_coverage": {
                "hit_rate": _ratio(self._evidence_covered, self._evidence_valid),
                "num_covered": self._evidence_covered,
                "num_total": self._evidence_total,
            },
        }


def aggregate_records(sessions: Iterable[bytes], questions: Iterable[bytes], baseline_id: str) -> dict[str, Any]:
    """Return the aggregate of the lines of `session_records.jsonl` and `qa_records.jsonl` of any tool.

    Lines without `eval` are left out. Raises msgspec.ValidationError, which names the JSON path, for an invalid line.
    """
    aggregate = Aggregate()
    session_decoder, question_decoder = msgspec.json.Decoder(SessionLine), msgspec.json.Decoder(QaLine)
    for line in sessions:
        session = session_decoder.decode(line).eval
        if session is not UNSET:
            aggregate.add_session(session)
    for line in questions:
        question = question_decoder.decode(line).eval
        if question is not UNSET:
            aggregate.add_question(question)
    return aggregate.metrics(baseline_id)


def _asked(records: Sequence[PointLabel]) -> int:
    """Return about how many points the judge was asked, with a valid verdict or not."""
    return sum(record.label is not None or record.reasoning not in _UNASKED for record in records)


def _add_counts(total: dict[str, int], counts: Mapping[str, int]) -> None:
    for name, count in counts.items():
        total[name] += count


class _Mean:
    """A running mean. It is 0.0 without values."""

    def __init__(self) -> None:
        self._sum = 0.0
        self.count = 0

    def add(self, value: float) -> None:
        self._sum += value
        self.count += 1

    @property
    def value(self) -> float:
        return _ratio(self._sum, self.count)


def _ratio(count: float, total: int) -> float:
    return count / total if total else 0.0
