"""Reads the cases of a run: their ends, records and scores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from assay.core.types import ASK, Commit, End, Record, Score
from assay.journal.index import RunIndex
from assay.journal.lines import LineFile

_records = msgspec.json.Decoder(Record | End)
_scores = msgspec.json.Decoder(Score | End)


class RunReader:
    """Reads cases by index. It returns only committed lines, never lines of an unfinished try."""

    def __init__(self, folder: Path, index: RunIndex) -> None:
        self.index = index
        self._records = LineFile(folder / "records.jsonl")
        self._scores = LineFile(folder / "scores.jsonl")

    def end(self, index: int) -> End | None:
        """Return how the case ended, or None if it has not. Reads only one line."""
        last = self._last_line(self._records, _records, ASK, index)
        if last is None or type(last) is End:
            return last
        return _end_of_line(last, ASK, last.end)

    def ended(self, index: int) -> tuple[End, list[Record]] | None:
        """Return how the case ended, with the records of that try; None if it has not ended."""
        last = self._last_line(self._records, _records, ASK, index)
        if last is None:
            return None
        end = last if type(last) is End else _end_of_line(last, ASK, last.end)
        return end, self._lines(self._records, _records, last)

    def records(self, index: int) -> list[Record]:
        """Return the records of the case's last try that ended."""
        last = self._last_line(self._records, _records, ASK, index)
        return [] if last is None else self._lines(self._records, _records, last)

    def scores(self, index: int, scorer: str) -> list[Score]:
        """Return the scores of one scorer for the case."""
        last = self._last_line(self._scores, _scores, scorer, index)
        return [] if last is None else self._lines(self._scores, _scores, last)

    def case(self, index: int, scorer: str) -> tuple[End, list[Record], list[Score]] | None:
        """Return end, records and scores of a case; None if it has not ended."""
        ended = self.ended(index)
        return (*ended, self.scores(index, scorer)) if ended else None

    def _lines(self, file: LineFile, decoder: msgspec.json.Decoder[Any], last: Any) -> list[Any]:
        """Return the lines of a stage in order. `last` is the one that commits them; an End is no line of the stage."""
        if type(last) is End:
            return [decoder.decode(file.line(offset)) for offset in last.lines]
        commit: Commit = last.end
        if not commit.lines:
            return [last]
        return [*(decoder.decode(file.line(offset)) for offset in commit.lines), last]

    def _last_line(self, file: LineFile, decoder: msgspec.json.Decoder[Any], stage: str, index: int) -> Any:
        """Return the line that commits a stage of a case; None if the stage has not ended."""
        ends = self.index.stages.get(stage)
        if ends is None or not ends.code(index):
            return None
        return decoder.decode(file.line(ends.offsets[index]))

    def close(self) -> None:
        """Close the files."""
        self._records.close()
        self._scores.close()


def _end_of_line(line: Record | Score, stage: str, commit: Commit) -> End:
    return End(
        line.index,
        line.case,
        line.set,
        line.subject,
        stage,
        commit.try_,
        commit.status,
        commit.lines,
        commit.failure,
        commit.usage,
        commit.calls,
        commit.seconds,
        commit.label,
        commit.tags,
        commit.cost,
    )
