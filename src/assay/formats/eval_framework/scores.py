"""Turns the `eval` of a line back into scores, the inverse of `eval_columns.py`, for `assay import`.

    reader = EvalReader("judged@imported")
    scores = list(reader.question("probe/1", line, verdicts, "qa_records.jsonl:3"))

The lines have counts where a native run has a label for each point, so the labels of recall and evidence are not
known. A count that contradicts the line's own records and texts is named in `notices`; the value of the file stays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import isclose
from typing import Any, NamedTuple

from msgspec.structs import replace

from assay.core.imported import UNPLACED
from assay.core.types import Score
from assay.scoring.questions import FABRICATED, TRUE, AnswerQuestion, InterferenceQuestion, UpdateQuestion
from assay.suites.memory.eval.eval_columns import NOT_JUDGED
from assay.suites.memory.eval.record_files import PointVerdict, QaVerdicts, SessionVerdicts
from assay.suites.memory.eval.result_lines import (
    QaLine,
    SessionLine,
    gold_points,
    score_data,
    unique_names,
    written_texts,
)
from assay.suites.memory.eval.scorers import (
    ANSWER,
    CORRECTNESS,
    EVIDENCE,
    HALLUCINATION,
    INTERFERENCE,
    LABEL_WORTH,
    NOT_CITED,
    NOTHING_TO_JUDGE,
    RECALL,
    UPDATE,
    UPDATE_RECALL,
    question_tags,
)

# Files of other tools round their shares.
_TOLERANCE = 5e-5


class _Verdict(NamedTuple):
    """One verdict of a line. A `value` of None means that the judge gave no valid verdict."""

    metric: str
    value: float | None
    numerator: float | None
    denominator: int
    reason: str | None


class _Part(NamedTuple):
    """What the scores of one part have in common: the fields of `Score`, and the line in the file."""

    part: str
    where: str
    data: dict[str, Any]
    label: str = ""
    tags: tuple[str, ...] = ()
    expected: str | None = None


class EvalReader:
    """Makes scores of evals. `notices` has a sentence for each contradiction in a line."""

    def __init__(self, scorer: str) -> None:
        self._scorer = scorer
        self.notices: list[str] = []

    def session(self, part: str, line: SessionLine, verdicts: SessionVerdicts, where: str) -> Iterator[Score]:
        """Yield the scores of a session, then those of its points, as a native run orders them."""
        about = _Part(part, where, {"id": line.sample_id})
        yield from self._recall(about, line, verdicts)
        yield from self._correctness(about, line, verdicts)
        gold = line.gold_state
        points = (
            (UPDATE, verdicts.update_records, verdicts.update_total_items, gold.session_update_memories),
            (
                *(INTERFERENCE, verdicts.interference_records),
                *(verdicts.interference_total_items, gold.session_interference_memories),
            ),
        )
        for metric, records, total, raw_points in points:
            labels = sum(record.label is not None for record in records)
            # Some tools count points without a valid label, too, as assay does.
            if total != len(records):
                self._tell(where, f"{metric}_total_items", total, labels, "labelled points")
            texts = {point.name: point.content for point in gold_points(raw_points)}
            names = unique_names([str(record.memory_id) for record in records])
            for name, record in zip(names, records, strict=True):
                data = about.data | {"point": name}
                yield from self._point(_Part(f"{part}/{name}", where, data, texts.get(name, "")), metric, record)

    def question(self, part: str, line: QaLine, verdicts: QaVerdicts, where: str) -> Iterator[Score]:
        """Yield the scores of a question: its answer, and the evidence in the memories that it cites."""
        about = score_data(line)
        tags = question_tags(about)
        answer = _Part(part, where, about | {"answer": line.generated_answer}, line.question, tags, line.gold_answer)
        label = verdicts.answer_label if verdicts.answer_is_valid is not False else None
        yield from self._labelled(answer, ANSWER, label, AnswerQuestion.labels, verdicts.answer_reasoning)
        pieces = len(line.gold_evidence_contents)
        self._tell(where, "num_evidence", verdicts.num_evidence, pieces, "pieces of evidence with a text")
        evidence = _Part(part, where, about | {"evidence": line.gold_evidence_contents}, line.question, tags)
        covered, total = verdicts.evidence_covered_count, _first(verdicts.num_evidence, pieces)
        yield from self._score(
            evidence,
            _Verdict(EVIDENCE, verdicts.evidence_hit_rate, covered, total, verdicts.evidence_reasoning),
        )

    def _recall(self, about: _Part, line: SessionLine, verdicts: SessionVerdicts) -> Iterator[Score]:
        gold = line.gold_state
        updates = len(gold_points(gold.session_update_memories))
        points = len(gold_points(gold.session_new_memories)) + updates
        self._tell(about.where, "num_gold", verdicts.num_gold, points, "points in gold_state")
        self._tell(about.where, "update_total", verdicts.update_total, updates, "updates in gold_state")
        reason = verdicts.recall_reasoning
        total, update_total = _first(verdicts.num_gold, points), _first(verdicts.update_total, updates)
        yield from self._score(about, _Verdict(RECALL, verdicts.recall, verdicts.covered_count, total, reason))
        covered = verdicts.update_covered_count
        # Without its own value, as in files of later versions, update recall was not measured.
        if verdicts.update_recall is not None or covered is not None:
            yield from self._score(
                about, _Verdict(UPDATE_RECALL, verdicts.update_recall, covered, update_total, reason)
            )

    def _correctness(self, about: _Part, line: SessionLine, verdicts: SessionVerdicts) -> Iterator[Score]:
        texts = len(written_texts(line))
        self._tell(about.where, "num_memories", verdicts.num_memories, texts, "texts in memory_delta")
        labels = [record.label for record in verdicts.correctness_records if record.label is not None]
        counts = Counter(labels)
        correct, made_up = verdicts.num_correct, verdicts.num_hallucination
        if labels:
            self._tell(about.where, "num_correct", correct, counts[TRUE], "correct labels")
            self._tell(about.where, "num_hallucination", made_up, counts[FABRICATED], "hallucination labels")
        total, reason = _first(verdicts.num_memories, texts), verdicts.correctness_reasoning
        rate = verdicts.correctness_rate
        data = about._replace(data=about.data | {"labels": labels})
        yield from self._score(data, _Verdict(CORRECTNESS, rate, _first(correct, counts[TRUE]), total, reason))
        made_up = _first(made_up, counts[FABRICATED])
        share = made_up / total if rate is not None and total else None
        yield from self._score(about, _Verdict(HALLUCINATION, share, made_up, total, reason))

    def _point(self, about: _Part, metric: str, record: PointVerdict) -> Iterator[Score]:
        allowed = UpdateQuestion.labels if metric == UPDATE else InterferenceQuestion.labels
        return self._labelled(about, metric, record.label, allowed, record.reasoning)

    def _labelled(
        self, about: _Part, metric: str, label: str | None, allowed: Sequence[str], reason: str | None
    ) -> Iterator[Score]:
        """Yield the score of one label. A label that the format does not have is no verdict."""
        if label is not None and label not in allowed:
            reason, label = f"the label {label!r} is none of {', '.join(allowed)}", None
        worth = None if label is None else LABEL_WORTH[metric].get(label, 0.0)
        data = about.data | {"labels": [] if label is None else [label]}
        return self._score(about._replace(data=data), _Verdict(metric, worth, worth, 1, reason))

    def _score(self, about: _Part, verdict: _Verdict) -> Iterator[Score]:
        metric, value, numerator, denominator, reason = verdict
        data = about.data | {"denominator": denominator}
        head = (*UNPLACED, self._scorer, metric, about.part)
        score = Score(*head, data=data, label=about.label, tags=about.tags)
        if not denominator:
            yield replace(score, status="not_applicable", reason=NOTHING_TO_JUDGE)
        elif reason == NOT_CITED:
            yield replace(score, status="not_applicable", reason=reason, data=about.data | {"denominator": 0})
        elif value is None:
            # A sample whose judge could not be reached has no scores in a native run.
            if reason != NOT_JUDGED:
                reason = reason or "the file has no verdict"
                yield replace(score, status="invalid", reason=reason, expected=about.expected)
        else:
            if numerator is None:
                numerator = round(value * denominator, 9)
            if not isclose(value, numerator / denominator, abs_tol=_TOLERANCE):
                self.notices.append(
                    f"{about.where}: {metric} is {value:g}, but its counts are {numerator:g} of {denominator:,}"
                )
            data["numerator"] = numerator
            yield replace(score, value=value, reason=reason or "", expected=about.expected)

    def _tell(self, where: str, name: str, count: int | None, found: int, things: str) -> None:
        if count is not None and count != found:
            self.notices.append(f"{where}: {name} is {count:,}, but there are {found:,} {things}")


def _first(count: int | None, found: int) -> int:
    """Return the count of the file, or what was found if the file has none."""
    return found if count is None else count
