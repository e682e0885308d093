"""Reads a run in the order of its data: lines by their place, neighbours with one read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from assay.core.types import ASK, Call, Commit, End, Record, Score
from assay.journal.scan import Index

_WINDOW = 1 << 16
_records = msgspec.json.Decoder(Record | End)
_scores = msgspec.json.Decoder(Score | End)
_calls = msgspec.json.Decoder(Call)


class LineFile:
    """Random access to the lines of a file that others may still be writing."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._start = 0
        self._window = b""

    def line(self, offset: int) -> bytes:
        """The line that begins at this offset, without its end."""
        begin = offset - self._start
        end = self._window.find(b"\n", begin) if 0 <= begin < len(self._window) else -1
        size = _WINDOW
        while end < 0:
            self._start, begin = offset, 0
            self._window = os.pread(self._fd, size, offset)
            end = self._window.find(b"\n")
            if end < 0 and len(self._window) < size:
                return self._window
            size *= 4
        return self._window[begin:end]

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._fd)


class RunReader:
    """Cases of a run by index. Only ends count: what a try left unfinished is not seen."""

    def __init__(self, folder: Path, index: Index) -> None:
        self.index = index
        self._records = LineFile(folder / "records.jsonl")
        self._scores = LineFile(folder / "scores.jsonl")

    def end(self, index: int) -> End | None:
        """How the case ended, if it did. Only the line that says so is read."""
        last = self._last(self._records, _records, ASK, index)
        if last is None or type(last) is End:
            return last
        return _end_of(last, ASK, last.end)

    def ended(self, index: int) -> tuple[End, list[Record]] | None:
        """How the case ended, with the records of that try; None while it has not."""
        return self._found(self._records, _records, ASK, index)

    def records(self, index: int) -> list[Record]:
        """The records of the try that ended."""
        found = self._found(self._records, _records, ASK, index)
        return found[1] if found else []

    def scores(self, index: int, scorer: str) -> list[Score]:
        """What this scorer said of the case."""
        found = self._found(self._scores, _scores, scorer, index)
        return found[1] if found else []

    def case(self, index: int, scorer: str) -> tuple[End, list[Record], list[Score]] | None:
        """All of a case in one go, once it has ended."""
        found = self._found(self._records, _records, ASK, index)
        return (*found, self.scores(index, scorer)) if found else None

    def _found(
        self, file: LineFile, decoder: msgspec.json.Decoder[Any], stage: str, index: int
    ) -> tuple[End, list[Any]] | None:
        """How a stage of a case ended, and its lines in order. The last of them carries the commit."""
        last = self._last(file, decoder, stage, index)
        if last is None:
            return None
        if type(last) is End:
            return last, [_decoded(decoder, file.line(offset)) for offset in last.lines]
        commit = last.end
        lines = [_decoded(decoder, file.line(offset)) for offset in commit.lines] if commit.lines else []
        return _end_of(last, stage, commit), [*lines, last]

    def _last(self, file: LineFile, decoder: msgspec.json.Decoder[Any], stage: str, index: int) -> Any:
        """The line that commits a stage of a case, if it ended."""
        place = self.index.stages.get(stage)
        if place is None or not place.code(index):
            return None
        return _decoded(decoder, file.line(place.offsets[index]))

    def close(self) -> None:
        """Let go of the files."""
        self._records.close()
        self._scores.close()


def _decoded(decoder: msgspec.json.Decoder[Any], raw: bytes) -> Any:
    """A line. Names that are damaged, and that nothing hangs on, are read as empty."""
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError:
        names = dict.fromkeys(("set", "subject", "kind", "metric", "part", "reason"), "")
        value = {
            key: item
            for key, item in msgspec.json.decode(raw).items()
            if type(item) is str or key not in names
        }
        return msgspec.convert({**names, **value}, Record | Score | End)


def _end_of(line: Record | Score, stage: str, commit: Commit) -> End:
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
    )


class CallReader:
    """Calls by their place in the log."""

    def __init__(self, folder: Path) -> None:
        self._file = LineFile(folder / "calls.jsonl")

    def call(self, offset: int) -> Call | None:
        """One call with its reply; None where it is damaged deeper than the scan looks."""
        try:
            return _calls.decode(self._file.line(offset))
        except msgspec.DecodeError:
            return None

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()
