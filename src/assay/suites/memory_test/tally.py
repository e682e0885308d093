"""What came of a memory over all conversations: by measure, test and category, with clustered intervals."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from assay.core.types import Record, Score
from assay.scoring.metric_builders import ClusteredValues
from assay.scoring.statistics import percentiles
from assay.suites.memory_test.conversation import Conversation
from assay.suites.memory_test.scorer import JUDGED, METRICS

COUNTS = ("conversations", "failed", "answers", "errors", "without_evidence", "unknown_places")
"""The last two are of the last tests: questions that name no message that is there, and such places."""


class Tally:
    """One memory. The last test of each conversation, in which every question is asked, is its headline."""

    def __init__(self, name: str, *, reference: bool) -> None:
        self._name = name
        self._reference = reference
        self._last: dict[str, ClusteredValues] = defaultdict(ClusteredValues)
        self._tests: dict[int, dict[str, ClusteredValues]] = defaultdict(lambda: defaultdict(ClusteredValues))
        self._categories: dict[str, dict[str, ClusteredValues]] = defaultdict(
            lambda: defaultdict(ClusteredValues)
        )
        self._inserted: dict[int, list[int]] = defaultdict(list)
        self._grown: dict[int, Sequence[int]] = {}
        self._scores: dict[tuple[int, int], dict[str, list[float | str]]] = defaultdict(
            lambda: defaultdict(list)
        )
        self._failures: list[dict[str, str]] = []
        self._seconds: dict[str, list[float]] = {"insertion": [], "retrieval": [], "answer": []}
        self._tokens: dict[str, list[int]] = {}
        self.counts = dict.fromkeys(COUNTS, 0)

    def add(
        self, conversation: int, inserted: Sequence[int], records: Iterable[Record], scores: Iterable[Score]
    ) -> None:
        """One conversation that was fed to the end."""
        self.counts["conversations"] += 1
        if inserted:
            self._grown[conversation] = inserted
        for test, count in enumerate(inserted, 1):
            self._inserted[test].append(count)
        for score in scores:
            self._score(score, conversation, len(inserted))
        for record in records:
            self._use(record)

    def fail(self, conversation: Conversation, why: str) -> None:
        """One that was not fed to the end, and the reason."""
        self.counts["failed"] += 1
        self._failures.append(
            {"task_id": conversation.task_id, "sample_id": conversation.sample_id, "reason": why}
        )

    def evidence(self, named: Sequence[str], known: Collection[str]) -> None:
        """What a question of the last test names. Without any message that is there it has no recall."""
        missing = sum(place not in known for place in named)
        self.counts["unknown_places"] += missing
        self.counts["without_evidence"] += missing == len(named)

    def _score(self, score: Score, conversation: int, last: int) -> None:
        if score.value is None and score.metric != JUDGED:
            return
        value = score.status if score.value is None else score.value
        test = int(score.part.partition("/")[0])
        self._tests[test][score.metric].add(value, conversation)
        self._scores[conversation, test][score.metric].append(value)
        if test == last:
            self._last[score.metric].add(value, conversation)
            category = (score.data or {}).get("category")
            self._categories[str(category)][score.metric].add(value, conversation)

    def _use(self, record: Record) -> None:
        said: Mapping[str, Any] = record.data
        if record.kind == "answer":
            self.counts["answers"] += 1
            self.counts["errors"] += "error" in said
            self._seconds["retrieval"].append(said["search_seconds"])
            if said["answer_seconds"]:
                self._seconds["answer"].append(said["answer_seconds"])
            self._spend("answer", said.get("tokens"))
        elif record.kind == "fed":
            self._seconds["insertion"] += said["insert_seconds"]
            for stage, tokens in said["tokens"].items():
                self._spend(stage, tokens)

    def _spend(self, stage: str, tokens: Sequence[int] | None) -> None:
        if tokens:
            spent = self._tokens.setdefault(stage, [0, 0])
            spent[0] += tokens[0]
            spent[1] += tokens[1]

    def summary(self) -> dict[str, Any]:
        """Everything, as JSON."""
        return {
            "alias": self._name,
            "reference": self._reference,
            "metrics": [_metric(name, self._last[name]) for name in METRICS if name in self._last],
            "counts": self.counts,
            "failures": self._failures,
            "categories": {name: _all(values) for name, values in sorted(self._categories.items())},
            "tests": [self._test(test) for test in sorted(self._inserted)],
            "curve": [self._at(test) for test in sorted(self._inserted)],
            "seconds": {stage: percentiles(seconds) for stage, seconds in self._seconds.items()},
            "tokens": {
                stage: dict(zip(("input", "output"), spent, strict=True))
                for stage, spent in self._tokens.items()
            },
        }

    def _test(self, test: int) -> dict[str, Any]:
        """Conversations have their tests at other places: where it stood is the mean over them."""
        inserted = self._inserted[test]
        return {
            "test_index": test,
            "conversations": len(inserted),
            "dialogs_inserted": sum(inserted) / len(inserted),
            **_all(self._tests[test]),
        }

    def _at(self, test: int) -> dict[str, Any]:
        """A point of the curve. A conversation without so many tests stays at its last one.

        So every point is of all conversations, the line never goes back, and its end is the headline.
        """
        values: dict[str, ClusteredValues] = defaultdict(ClusteredValues)
        inserted = []
        for conversation, grown in self._grown.items():
            own = min(test, len(grown))
            inserted.append(grown[own - 1])
            for metric, found in self._scores[conversation, own].items():
                for value in found:
                    values[metric].add(value, conversation)
        return {"dialogs_inserted": sum(inserted) / len(inserted), **_all(values)}


def _all(values: Mapping[str, ClusteredValues]) -> dict[str, Any]:
    return {name: _told(name, values[name]) for name in METRICS if name in values}


def _told(name: str, values: ClusteredValues) -> dict[str, Any]:
    """With what a judge left without a number: it said nothing that can be read, or could not be asked."""
    if name != JUDGED:
        return values.summary()
    left = values.left_out
    missing = {"not_judged": left["not_applicable"]} if left["not_applicable"] else {}
    return {**values.summary(), "invalid": left["invalid"], **missing}


def _metric(name: str, values: ClusteredValues) -> dict[str, Any]:
    about = {"filter": "", "metric": name, "aggregation": "mean", "higher_is_better": True}
    return {**about, **_told(name, values)}
