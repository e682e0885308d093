"""`aggregate_metrics.json`: six dimensions of a baseline, from what stands in the records alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import UNSET

from assay.scoring.questions import CORRECT, HALLUCINATION, IRRELEVANT, OMISSION
from assay.suites.memory_eval.rows import QaEval, QaRow, SessionEval, SessionRow

_ALIASES = frozenset({IRRELEVANT, "error"})
"""Other tools say `error` where the document says `irrelevant`."""


class Aggregate:
    """Adds one record after another. Recall and correctness are means of sessions, all else is pooled.

    What was not judged, or does not apply, is null in a record and left out here; a ratio of nothing is 0.0.
    """

    def __init__(self) -> None:
        self._recall, self._updates = _Mean(), _Mean()
        self._covered = self._gold = 0
        self._shares = {name: _Mean() for name in ("correctness", "hallucination", "irrelevant")}
        self._memories = dict.fromkeys(("memories", "correct", "hallucination", "irrelevant"), 0)
        self._update = dict.fromkeys(("updated", "both", "outdated"), 0)
        self._interference = dict.fromkeys(("rejected", "memorized"), 0)
        self._answers = dict.fromkeys((CORRECT, HALLUCINATION, OMISSION), 0)
        self._questions = self._valid = 0
        self._evidence = [0, 0]

    def add_session(self, found: SessionEval) -> None:
        """One line of `session_records.jsonl`."""
        if found.recall is not None:
            self._recall.add(found.recall)
            self._covered += found.covered_count
            self._gold += found.num_gold
        if found.update_recall is not None:
            self._updates.add(found.update_recall)
        if found.correctness_rate is not None and found.num_memories:
            self._written(found)
        self._update["updated"] += found.update_num_updated
        self._update["both"] += found.update_num_both
        self._update["outdated"] += found.update_num_outdated
        self._interference["rejected"] += found.interference_num_rejected
        self._interference["memorized"] += found.interference_num_memorized

    def add_question(self, found: QaEval) -> None:
        """One line of `qa_records.jsonl`."""
        self._questions += 1
        if found.answer_is_valid and found.answer_label is not None:
            self._valid += 1
            self._answers[found.answer_label] = self._answers.get(found.answer_label, 0) + 1
        if found.evidence_hit_rate is not None:
            self._evidence[0] += found.evidence_covered_count
            self._evidence[1] += found.num_evidence

    def metrics(self, baseline_id: str) -> dict[str, Any]:
        """The file's content, in the document's order."""
        return {
            "baseline_id": baseline_id,
            "memory_recall": self._of_recall(),
            "memory_correctness": self._of_correctness(),
            "update_handling": self._of_updates(),
            "interference_rejection": self._of_interference(),
            "question_answering": self._of_answers(),
            "evidence_coverage": {
                "hit_rate": _ratio(*self._evidence),
                "num_covered": self._evidence[0],
                "num_total": self._evidence[1],
            },
        }

    def _written(self, found: SessionEval) -> None:
        labels = [record.label for record in found.correctness_records]
        named = sum(label in _ALIASES for label in labels)
        counts = {
            "memories": found.num_memories,
            "correct": found.num_correct,
            "hallucination": found.num_hallucination,
            "irrelevant": max(named, found.num_irrelevant),
        }
        for name, count in counts.items():
            self._memories[name] += count
        self._shares["correctness"].add(found.correctness_rate or 0.0)
        for name in ("hallucination", "irrelevant"):
            self._shares[name].add(counts[name] / found.num_memories)

    def _of_recall(self) -> dict[str, Any]:
        return {
            "avg_recall": self._recall.value,
            "avg_update_recall": self._updates.value,
            "num_sessions_with_recall": self._recall.count,
            "num_sessions_with_update": self._updates.count,
            "total_covered": self._covered,
            "total_gold": self._gold,
        }

    def _of_correctness(self) -> dict[str, Any]:
        return {
            **{f"avg_{name}": mean.value for name, mean in self._shares.items()},
            "num_sessions": self._shares["correctness"].count,
            **{f"total_{name}": count for name, count in self._memories.items()},
        }

    def _of_updates(self) -> dict[str, Any]:
        counts, total = self._update, sum(self._update.values())
        return {
            "score": _ratio(counts["updated"] + 0.5 * counts["both"], total),
            **{f"num_{name}": count for name, count in counts.items()},
            "num_total": total,
        }

    def _of_interference(self) -> dict[str, Any]:
        counts, total = self._interference, sum(self._interference.values())
        return {
            "score": _ratio(counts["rejected"], total),
            **{f"num_{name}": count for name, count in counts.items()},
            "num_total": total,
        }

    def _of_answers(self) -> dict[str, Any]:
        return {
            "correct_ratio": _ratio(self._answers[CORRECT], self._valid),
            "hallucination_ratio": _ratio(self._answers[HALLUCINATION], self._valid),
            "omission_ratio": _ratio(self._answers[OMISSION], self._valid),
            "num_total": self._questions,
            "num_valid": self._valid,
        }


def aggregate_records(
    sessions: Iterable[bytes], questions: Iterable[bytes], baseline_id: str
) -> dict[str, Any]:
    """Of lines of `session_records.jsonl` and `qa_records.jsonl`, whoever wrote them.

    A line without `eval` is left out. Raises msgspec's ValidationError, which names the JSON path, for a line
    that is no record.
    """
    total = Aggregate()
    read_session, read_question = msgspec.json.Decoder(SessionRow), msgspec.json.Decoder(QaRow)
    for line in sessions:
        if (of_session := read_session.decode(line).eval) is not UNSET:
            total.add_session(of_session)
    for line in questions:
        if (of_question := read_question.decode(line).eval) is not UNSET:
            total.add_question(of_question)
    return total.metrics(baseline_id)


class _Mean:
    """A mean of what comes one by one; 0.0 of nothing."""

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
