"""Reads the cases of a run: their ends, records and scores."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path
from typing import Any

import msgspec

from assay.core.types import ASK, Commit, End, Record, Score
from assay.journal.index import RunIndex
from assay.journal.lines import NO_LINE, WINDOW_BYTES, LineFile

_records = msgspec.json.Decoder(Record | End)
_scores = msgspec.json.Decoder(Score | End)


class RunReader:
    """Reads cases by index. It returns only committed lines, never lines of an unfinished try."""

    def __init__(self, folder: Path, index: RunIndex) -> None:
        self.index = index
        self._records = DecodedLines(folder / "records.jsonl", _records)
        self._scores = DecodedLines(folder / "scores.jsonl", _scores)

    def end(self, index: int) -> End | None:
        """Return how the case ended, or None if it has not. Reads the case's last line only."""
        last = self._last_line(self._records, ASK, index)
        if last is None or type(last) is End:
            return last
        return End.of_line(last, ASK, last.end)

    def ended(self, index: int) -> tuple[End, list[Record]] | None:
        """Return how the case ended, with the records of that try; None if it has not ended."""
        last = self._last_line(self._records, ASK, index)
        if last is None:
            return None
        if type(last) is End:
            return last, self._lines(self._records, last)
        commit: Commit = last.end
        # Most cases have one record.
        records = self._lines(self._records, last) if commit.lines else [last]
        return End.of_line(last, ASK, commit), records

    def records(self, index: int) -> list[Record]:
        """Return the records of the case's last try that ended."""
        last = self._last_line(self._records, ASK, index)
        return [] if last is None else self._lines(self._records, last)

    def scores(self, index: int, scorer: str) -> list[Score]:
        """Return the scores of one scorer for the case."""
        last = self._last_line(self._scores, scorer, index)
        return [] if last is None else self._lines(self._scores, last)

    def case(self, index: int, scorer: str) -> tuple[End, list[Record], list[Score]] | None:
        """Return end, records and scores of a case; None if it has not ended."""
        ended = self.ended(index)
        return (*ended, self.scores(index, scorer)) if ended else None

    def _lines(self, file: DecodedLines, last: Any) -> list[Any]:
        """Return the lines of a stage in order. `last` is the one that commits them; an End is no line of the stage."""
        if type(last) is End:
            return [file.line(offset) for offset in last.lines]
        commit: Commit = last.end
        if not commit.lines:
            return [last]
        return [*(file.line(offset) for offset in commit.lines), last]

    def _last_line(self, file: DecodedLines, stage: str, index: int) -> Any:
        """Return the line that commits a stage of a case; None if the stage has not ended."""
        ends = self.index.stages.get(stage)
        # As `StageIndex.code` does it. This runs for every stage of every case when a run ends.
        if ends is None or index >= len(ends.codes) or not ends.codes[index]:
            return None
        return file.line(ends.offsets[index])

    def close(self) -> None:
        """Close the files."""
        self._records.close()
        self._scores.close()


class DecodedLines:
    """The lines of records.jsonl or scores.jsonl by their offset.

    Cases are mostly read in data order, and ended nearly in that order. So lines after the last one are read, verified
    and decoded many at once, which takes half the time.
    """

    def __init__(self, path: Path, decoder: msgspec.json.Decoder[Any]) -> None:
        self._file = LineFile(path)
        self._decoder = decoder
        # Lines by offset that were not asked for yet, of the last block and of the block before it.
        self._lines: dict[int, Any] = {}
        self._lines_before: dict[int, Any] = {}
        self._next: int | None = None  # where the last block or line ended

    def line(self, offset: int) -> Any:
        """Return the line that begins at this offset. Raises DamagedRun for a changed line."""
        # A line is given out once, because its data can be changed: who asks again gets another copy.
        line = self._lines.pop(offset, None)
        if line is not None:
            return line
        if self._lines_before and (line := self._lines_before.pop(offset, None)) is not None:
            return line
        if self._next is not None and self._next <= offset < self._next + WINDOW_BYTES:
            self._read_block(self._next)
            line = self._lines.pop(offset, None)
            if line is not None:
                return line
        content = self._file.line(offset)
        self._next = offset + len(content) + 1
        try:
            return self._decoder.decode(content)
        except NO_LINE as error:
            raise self._file.forged(offset, error) from None

    def _read_block(self, begin: int) -> None:
        block = self._file.block(begin)
        if block is None:
            return
        sizes, content = block
        try:
            lines = self._decoder.decode_lines(content)
        except NO_LINE:
            return  # a line that cannot be read, which only its own case may notice
        self._lines_before = self._lines
        self._lines = dict(zip(accumulate(sizes, initial=begin), lines, strict=False))
        self._next = begin + len(content)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        self._next = None
