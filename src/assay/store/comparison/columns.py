"""A run as columns of numbers: one row a case and one row a score, by subject; no record is held.

A case takes 45 bytes and a score 33. Texts are read again by the case's place in the run.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from functools import lru_cache
from hashlib import blake2b
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.core.report import Metric
from assay.core.types import End, Score
from assay.journal.folder import RunInfo, Summary
from assay.journal.index import Index
from assay.journal.reader import RunReader

if TYPE_CHECKING:
    from numpy.typing import NDArray

SCORED, NO_NUMBER, NOT_APPLICABLE, INVALID, NOT_SCORED, NO_ANSWER = range(6)
STATES = ("scored", "no number", "not_applicable", "invalid", "not scored", "infra_error")
"""How a score stands, by its code in the column `state`."""
_STATES = {"not_applicable": NOT_APPLICABLE, "invalid": INVALID}


class Slot(NamedTuple):
    """What a row of the table is about, besides the set. `part` is empty where parts are many questions."""

    scorer: str
    metric: str
    part: str


class Names:
    """Numbers for the sets and slots of all runs of one comparison."""

    def __init__(self) -> None:
        self.sets: dict[str, int] = {}
        self.slots: dict[Slot, int] = {}

    def set(self, name: str) -> int:
        """Equal names have equal numbers."""
        return self.sets.setdefault(name, len(self.sets))

    def slot(self, slot: Slot) -> int:
        """Equal slots have equal numbers."""
        return self.slots.setdefault(slot, len(self.slots))


class Columns:
    """The cases and scores of one subject of a run, in data order."""

    def __init__(self) -> None:
        self.keys = array("Q")
        self.sets = array("I")
        self.places = array("I")
        self.failed = array("B")
        self.seconds = array("d")
        self.input = array("Q")
        self.output = array("Q")
        self.calls = array("I")
        self.score_case = array("I")
        self.score_slot = array("I")
        self.score_part = array("Q")
        self.score_value = array("d")
        self.score_state = array("B")
        self.score_gold = array("Q")
        self.marked = False
        """Whether some score names the expectations that it was judged by."""

    def __len__(self) -> int:
        return len(self.keys)

    def add(self, end: End, set_number: int) -> None:
        """One case that ended."""
        self.keys.append(digest(end.case))
        self.sets.append(set_number)
        self.places.append(end.index)
        self.failed.append(end.status == "infra_error")
        self.seconds.append(end.seconds)
        self.input.append(end.usage.input if end.usage else 0)
        self.output.append(end.usage.output if end.usage else 0)
        self.calls.append(end.calls)

    def add_score(self, score: Score, slot_number: int) -> None:
        """One score of the case that was added last."""
        gold = gold_mark(score)
        self.marked |= gold != ""
        self.score_case.append(len(self.keys) - 1)
        self.score_slot.append(slot_number)
        self.score_part.append(part_digest(score.vote, score.part))
        self.score_value.append(nan if score.value is None else score.value)
        self.score_state.append(_state(score))
        self.score_gold.append(digest(gold) if gold else 0)


def _state(score: Score) -> int:
    if score.status != "scored":
        return _STATES[score.status]
    return NO_NUMBER if score.value is None else SCORED


def gold_mark(score: Score) -> str:
    """The name of the expectations that the score was judged by, where it has one."""
    data = score.data
    return str(data["gold"]) if isinstance(data, dict) and data.get("gold") else ""


def digest(text: str) -> int:
    """Eight bytes of a text."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


@lru_cache(maxsize=1024)
def part_digest(vote: int, part: str) -> int:
    """Eight bytes that name a score within its case, besides metric and scorer; filters come often."""
    return digest(f"{vote}/{part}")


def view(column: array[Any]) -> NDArray[Any]:
    """The column's own memory, to be read only."""
    import numpy as np

    return np.frombuffer(column, dtype=column.typecode) if column else np.empty(0, dtype=column.typecode)


@lru_cache(maxsize=64)
def scorer_name(scorer: str) -> str:
    """`task` of `task@0123`."""
    return scorer.partition("@")[0]


class Reading:
    """One run: its columns by subject, and its texts on demand."""

    def __init__(self, folder: Path, info: RunInfo, summary: Summary, names: Names) -> None:
        self.folder = folder
        self.info = info
        self.summary = summary
        self._index = Index.of_run(folder, summary.scorers)
        self._reader = RunReader(folder, self._index)
        self._filters = _filters(summary)
        self.subjects: dict[str, Columns] = {}
        for end in self._ends():
            self._take(end, names)

    def _ends(self) -> Iterator[End]:
        for index in range(len(self._index.ask.codes)):
            end = self._reader.end(index)
            if end is not None:
                yield end

    def _take(self, end: End, names: Names) -> None:
        columns = self.subjects.get(end.subject)
        if columns is None:
            columns = self.subjects[end.subject] = Columns()
        columns.add(end, names.set(end.set))
        for score in self.scores(end.index):
            if score.interim:
                continue
            part = score.part if score.part in self._filters else ""
            columns.add_score(score, names.slot(Slot(scorer_name(score.scorer), score.metric, part)))

    def scores(self, index: int) -> list[Score]:
        """What all scorers said of a case."""
        return [score for name in self.summary.scorers for score in self._reader.scores(index, name)]

    def produced(self, index: int) -> Any:
        """The last thing that a case produced."""
        records = self._reader.records(index)
        return records[-1].data if records else None

    def end(self, index: int) -> End:
        """How a case ended that did."""
        end = self._reader.end(index)
        assert end is not None
        return end

    def close(self) -> None:
        """Let go of the files."""
        self._reader.close()


def _filters(summary: Summary) -> set[str]:
    """Parts that the run's own table has rows for: a task's filters. Others are tests or questions."""
    return {metric.filter for metric in metrics_of(summary)}


def metrics_of(summary: Summary, name: str | None = None) -> Iterator[Metric]:
    """The metrics of a run's report: all of them, or those of one entry, set or subject."""
    if summary.report is not None:
        for entry in summary.report.entries:
            if name in (None, entry.name, entry.set, entry.subject):
                yield from entry.metrics
        return
    for key, found in summary.results.items():
        if name in (None, key) and isinstance(found, dict):
            for metric in found.get("metrics", ()):
                yield Metric(
                    name=metric["metric"],
                    value=None,
                    denominator=0,
                    filter=str(metric.get("filter", "")),
                    aggregation=metric.get("aggregation", "mean"),
                    higher_is_better=metric.get("higher_is_better"),
                )
