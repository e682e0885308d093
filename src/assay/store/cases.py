"""Reads single cases of a run: what was asked, what came back, what it was worth."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from assay.core.errors import UsageError
from assay.core.types import JUDGE, Call, End, Record, Score
from assay.journal.calls import calls_of_case
from assay.journal.folder import read_summary
from assay.journal.index import Index
from assay.journal.reader import RunReader

_TAIL = 1 << 20
"""Bytes of scores that are looked at for the newest scorers: a judge may say much of one case."""


class CaseView(NamedTuple):
    """One case with everything the journal has of it."""

    end: End
    records: list[Record]
    scores: list[Score]

    @property
    def name(self) -> str:
        """How people name the case: the set and its place in it."""
        return f"{self.end.set}/{self.end.case}"

    @property
    def id(self) -> Any:
        """The id that the data gives it, where its scores tell one."""
        told = (
            score.data["id"] for score in self.scores if isinstance(score.data, dict) and "id" in score.data
        )
        return next(told, None)

    @property
    def failed(self) -> bool:
        """Whether it has no answer, or a score of 0, or none."""
        return self.end.status != "ok" or any(
            score.status == "invalid" or score.value == 0 for score in self.scores if not score.interim
        )


class RunCases:
    """The cases of a run in data order."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        summary = read_summary(folder)
        self._scorers = summary.scorers if summary and summary.scorers else _latest_scorers(folder)
        self._index = Index.of_run(folder, self._scorers)
        self._reader = RunReader(folder, self._index)

    def __iter__(self) -> Iterator[CaseView]:
        for index in range(len(self._index.ask.codes)):
            view = self.case(index)
            if view is not None:
                yield view

    def case(self, index: int) -> CaseView | None:
        """The case at this place, if it ended."""
        end = self._reader.end(index)
        if end is None:
            return None
        scores = [score for name in self._scorers for score in self._reader.scores(index, name)]
        return CaseView(end, self._reader.records(index), scores)

    def find(self, name: str) -> CaseView:
        """A case by its place in the run, by its key, or by `set/key`; keys may be cut short."""
        if name.isdigit() and (view := self.case(int(name))):
            return view
        wanted_set, _, key = name.rpartition("/")
        found = [
            view
            for view in self
            if view.end.case.startswith(key) and (not wanted_set or view.end.set == wanted_set)
        ]
        exact = [view for view in found if view.end.case == key] or self._by_part(name)
        if len(exact or found) == 1:
            return (exact or found)[0]
        if not (exact or found):
            raise UsageError(
                f"there is no case {name!r} in {self.folder}; a number or the beginning of a key names one"
            )
        raise UsageError(
            f"{name!r} could be {len(exact or found)} cases: "
            + ", ".join(
                f"{view.end.index} ({view.name}, {view.end.subject})" for view in (exact or found)[:10]
            )
        )

    def _by_part(self, name: str) -> list[CaseView]:
        """Cases with a score for a part of this name, or with this id: `id` or `set/id`, as people say."""
        return [
            view
            for view in self
            if any(name in (score.part, f"{score.set}/{score.part}") for score in view.scores)
            or name in (str(view.id), f"{view.end.set}/{view.id}")
            or (view.end.label and name in (view.end.label, f"{view.end.set}/{view.end.label}"))
        ]

    def calls(self, index: int) -> list[Call]:
        """Everything that was asked for a case: each question with its replies, the first repeat first."""
        calls = list(calls_of_case(self.folder, index))
        places = {key: place for place, key in enumerate(dict.fromkeys((c.stage, c.hash) for c in calls))}
        return sorted(calls, key=lambda call: (places[call.stage, call.hash], call.n))


def _latest_scorers(folder: Path) -> list[str]:
    """Of a run without a summary: of each name, the scorer whose scores stand last in the file."""
    path = folder / "scores.jsonl"
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(0, size - _TAIL))
        lines = file.read().split(b"\n")
    found = {stage.partition("@")[0]: stage for raw in lines if (stage := _stage(raw))}
    return sorted(found.values(), key=lambda stage: stage.startswith(f"{JUDGE}@"))


class _Said(msgspec.Struct):
    """A score, or an end without scores."""

    scorer: str = ""
    stage: str = ""


def _stage(raw: bytes) -> str:
    try:
        said = msgspec.json.decode(raw, type=_Said)
        return said.scorer or said.stage
    except msgspec.DecodeError:
        return ""
