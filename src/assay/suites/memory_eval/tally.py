"""What came of a memory over all samples: every number with its denominator and a clustered interval."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from assay.core.types import Score
from assay.scoring.metric_builders import ClusteredValues
from assay.scoring.questions import HALLUCINATION as MADE_UP
from assay.scoring.questions import OMISSION
from assay.scoring.statistics import percentiles
from assay.suites.memory_eval.aggregate import Aggregate
from assay.suites.memory_eval.judging import (
    ANSWER,
    BLEU1,
    CORRECTNESS,
    EVIDENCE,
    F1,
    HALLUCINATION,
    INTERFERENCE,
    RECALL,
    RETRIEVED,
    UPDATE,
    UPDATE_RECALL,
)
from assay.suites.memory_eval.rows import QaEval, QaRow, SessionEval

DIMENSIONS = (RECALL, CORRECTNESS, UPDATE, INTERFERENCE, ANSWER, EVIDENCE)
"""The six of the document, in its order."""
EVIDENCE_MEAN, ANSWER_MADE_UP, ANSWER_OMITTED = "evidence_mean", "answer_hallucination", "answer_omission"
JUDGED = (
    *DIMENSIONS,
    *(UPDATE_RECALL, HALLUCINATION, ANSWER_MADE_UP, ANSWER_OMITTED, EVIDENCE_MEAN, RETRIEVED),
)
LEXICAL = (F1, BLEU1)
STAGES = ("storage", "retrieval", "answer", "judge")
COUNTS = (
    *("samples", "failed", "sessions", "questions", "unanswered", "errors"),
    *("citations", "dropped_citations", "replies_without_json"),
)
_POOLED = (EVIDENCE, RETRIEVED)
_OF_SESSIONS = (RECALL, UPDATE_RECALL, CORRECTNESS, HALLUCINATION)
_LOWER = (HALLUCINATION, ANSWER_MADE_UP, ANSWER_OMITTED)
_OF_ANSWERS = {ANSWER_MADE_UP: MADE_UP, ANSWER_OMITTED: OMISSION}
_UNITS = {
    **dict.fromkeys(_OF_SESSIONS, "session"),
    **dict.fromkeys((UPDATE, INTERFERENCE), "point"),
    **dict.fromkeys(_POOLED, "piece of evidence"),
}


class Measure:
    """One metric: the values that count, and how many judgements do not.

    A value is of a session, a point or a question, or, where a metric is pooled, of a piece of evidence.
    """

    def __init__(self, metric: str) -> None:
        self._metric = metric
        self._values = ClusteredValues()
        self._sum = 0.0
        self._behind = [0.0, 0]
        self._unjudged = 0
        self._left_out: Counter[str] = Counter()

    def add(self, score: Score, cluster: int) -> None:
        """One score; an invalid one only counts as such."""
        total = (score.data or {}).get("denominator", 1)
        pooled = self._metric in _POOLED
        if score.status == "invalid":
            self._left_out["invalid"] += 1
            self._unjudged += total if pooled else 1
        elif score.value is None:
            self._left_out["not applicable"] += 1
        else:
            got = (score.data or {}).get("numerator", score.value)
            self._behind[0] += got
            self._behind[1] += total
            for value in [1.0] * int(got) + [0.0] * (total - int(got)) if pooled else [self._of(score)]:
                self._sum += value
                self._values.add(value, cluster)

    def _of(self, score: Score) -> float:
        """The score's own value, or whether an answer has the label that is counted."""
        assert score.value is not None
        label = _OF_ANSWERS.get(self._metric)
        return score.value if label is None else float(score.data["labels"] == [label])

    def summary(self) -> dict[str, Any]:
        """The figure over what was judged, with `over_all` beside it: where what is invalid adds nothing."""
        found = self._values.summary()
        whole = found["n"] + self._unjudged
        found |= {
            "unit": _UNITS.get(self._metric, "question"),
            "numerator": _whole(self._sum),
            "denominator": found["n"],
            "invalid": self._left_out["invalid"],
            "over_all": {"value": self._sum / whole if whole else None, "denominator": whole},
        }
        if self._metric in _OF_SESSIONS:
            got, total = self._behind
            found["pooled"] = {
                "value": got / total if total else None,
                "numerator": _whole(got),
                "denominator": total,
            }
        if left_out := {why: count for why, count in self._left_out.items() if count}:
            found["left_out"] = left_out
        return found


class Measures(dict[str, Measure]):
    """Metrics by name, made when they are first needed."""

    def __missing__(self, metric: str) -> Measure:
        """An empty one."""
        self[metric] = Measure(metric)
        return self[metric]

    def take(self, score: Score, cluster: int) -> None:
        """A score counts for its metric, and for those that are made of it."""
        self[score.metric].add(score, cluster)
        if score.metric == EVIDENCE:
            self[EVIDENCE_MEAN].add(score, cluster)
        if score.metric == ANSWER:
            for name in _OF_ANSWERS:
                self[name].add(score, cluster)


class Tally:
    """One memory. Samples are the clusters: what is asked of one of them is not independent."""

    def __init__(self, alias: str, *, reference: bool) -> None:
        self._alias = alias
        self._reference = reference
        self._all = Measures()
        self._types: dict[str, Measures] = defaultdict(Measures)
        self._difficulties: dict[str, Measures] = defaultdict(Measures)
        self._votes: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        self._failures: list[dict[str, str]] = []
        self._seconds = {stage: array("d") for stage in STAGES}
        self._tokens: dict[str, list[int]] = {}
        self.aggregate = Aggregate()
        self.counts = dict.fromkeys(COUNTS, 0)

    def add(
        self,
        cluster: int,
        sessions: Sequence[SessionEval],
        questions: Sequence[tuple[QaRow, QaEval]],
        scores: Sequence[Score],
    ) -> None:
        """One sample that was fed to its end, with the scores of all its scorers."""
        self.counts["samples"] += 1
        for session in sessions:
            self.counts["sessions"] += 1
            self.aggregate.add_session(session)
        for row, question in questions:
            self.counts["questions"] += 1
            self.counts["unanswered"] += not row.generated_answer.strip()
            self.counts["citations"] += len(row.cited_memories)
            self.aggregate.add_question(question)
        for score in scores:
            self._score(score, cluster)

    def fail(self, sample_id: str, why: str) -> None:
        """One that was not fed to its end, and the reason."""
        self.counts["failed"] += 1
        self._failures.append({"sample_id": sample_id, "reason": why})

    def count(self, said: Mapping[str, Any]) -> None:
        """What a run recorded of an answer, and no file has room for."""
        self.counts["errors"] += "error" in said
        self.counts["dropped_citations"] += said.get("dropped", 0)
        self.counts["replies_without_json"] += said.get("loose", False)

    def use(self, stage: str, seconds: float | None, tokens: Sequence[int] | None) -> None:
        """One piece of work of a stage; tokens are those that went in and those that came out."""
        if seconds is not None:
            self._seconds[stage].append(seconds)
        if tokens:
            spent = self._tokens.setdefault(stage, [0, 0])
            spent[0] += tokens[0]
            spent[1] += tokens[1]

    def _score(self, score: Score, cluster: int) -> None:
        data = score.data or {}
        self._all.take(score, cluster)
        if "type" in data:
            self._types[data["type"]].take(score, cluster)
            self._difficulties[data["difficulty"]].take(score, cluster)
        if "stable" in data:
            votes = self._votes[score.metric]
            votes[0] += 1
            votes[1] += not data["stable"]

    def summary(self) -> dict[str, Any]:
        """Everything, as JSON. Without a judge there are no judged metrics; with one, all of them."""
        judged = JUDGED if any(name in self._all for name in JUDGED) else ()
        names = [*judged, *(name for name in LEXICAL if name in self._all)]
        return {
            "alias": self._alias,
            "reference": self._reference,
            "metrics": [_metric(name, self._all[name]) for name in names],
            "counts": self.counts,
            "failures": self._failures,
            "types": _groups(self._types),
            "difficulties": _groups(self._difficulties),
            "flaky": {name: {"flaky": flaky, "n": count} for name, (count, flaky) in self._votes.items()},
            "seconds": {stage: percentiles(seconds) for stage, seconds in self._seconds.items()},
            "tokens": {
                stage: dict(zip(("input", "output"), spent, strict=True))
                for stage, spent in self._tokens.items()
            },
            "aggregate": self.aggregate.metrics(self._alias),
        }


def _whole(count: float) -> float:
    """Without the dust of added shares; a count of whole things is a whole number."""
    rounded = round(count, 9)
    return int(rounded) if rounded.is_integer() else rounded


def _groups(groups: Mapping[str, Measures]) -> dict[str, Any]:
    """By group, the metrics of questions; a question of no group stands under the empty name."""
    order = (*JUDGED, *LEXICAL)
    return {
        group: {name: measures[name].summary() for name in order if name in measures}
        for group, measures in sorted(groups.items())
    }


def _metric(name: str, measure: Measure) -> dict[str, Any]:
    about = {"filter": "", "metric": name, "aggregation": "mean", "higher_is_better": name not in _LOWER}
    return {**about, **measure.summary()}
