"""An index of the journal: which cases have ended, with which status, and at which offset.

It is built in one pass over `records.jsonl` and `scores.jsonl`. It needs nine bytes per case and stage; a stage is the
solver or one of the scorers. Every reader of a run uses it.
"""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import Protocol

import msgspec

from assay.core.types import ASK, End, Status
from assay.journal.lines import read_blocks

OK, SUBJECT_ERROR, INFRA_ERROR = 1, 2, 3
_CODES: dict[Status, int] = {"ok": OK, "subject_error": SUBJECT_ERROR, "infra_error": INFRA_ERROR}


class RunIndex:
    """The ends of all cases, by stage. `tries` has the last try of cases that failed or ran more than once."""

    def __init__(self, scorers: list[str]) -> None:
        self.ask = StageIndex()
        self.stages = {ASK: self.ask}
        for scorer in scorers:
            self.stages[scorer] = StageIndex()
        self.tries: dict[int, int] = {}

    @classmethod
    def of_run(cls, folder: Path, scorers: list[str]) -> RunIndex:
        """Build the index of a run on disk. Raises InputError at the first damaged line."""
        index = cls(scorers)
        index.scan(folder / "records.jsonl")
        index.scan(folder / "scores.jsonl")
        return index

    def scan(self, path: Path) -> None:
        """Add all ends of one file. Scan records before scores, because a score of an unfinished case is ignored."""
        ask, stages, tries = self.ask, self.stages, self.tries
        for begin, sizes, lines in read_blocks(path, _decoder):
            offset = begin
            for size, line in zip(sizes, lines, strict=True):
                kind = type(line)
                if kind is _EndLine:
                    self._take(line.stage, line.index, line, offset)
                elif (commit := line.end) is not None:
                    index = line.index
                    name = ASK if kind is _RecordLine else line.scorer
                    stage = stages.get(name)
                    # Nearly every line is the end of a first try that succeeded. This fast path is for them.
                    if commit.try_ != 1 or commit.status != "ok" or index in tries:
                        self._take(name, index, commit, offset)
                    elif stage is not None and (stage is ask or ask.code(index)):
                        if index == len(stage.codes):
                            stage.codes.append(OK)
                            stage.offsets.append(offset)
                        else:
                            stage.set(index, "ok", offset)
                offset += size

    def add(self, end: End, offset: int) -> None:
        """Add an end that was just written at this offset."""
        self._take(end.stage, end.index, end, offset)

    def _take(self, name: str, index: int, commit: _HasStatus, offset: int) -> None:
        stage = self.stages.get(name)
        if stage is None:
            return
        if stage is not self.ask:
            # A score counts only if its try is the last one of the case. An older try has other answers.
            if self.ask.code(index) and commit.try_ == self.tries.get(index, 1):
                stage.set(index, commit.status, offset)
            return
        stage.set(index, commit.status, offset)
        if commit.try_ > 1 or commit.status != "ok":
            self.tries[index] = commit.try_
            # The scores of the try before do not belong to this one.
            for other in self.stages.values():
                if other is not stage:
                    other.forget(index)


class StageIndex:
    """One stage of all cases: a status code per case (0 if it has not ended) and the offset of its last line."""

    def __init__(self) -> None:
        self.codes = bytearray()
        self.offsets = array("q")

    def set(self, index: int, status: Status, offset: int) -> None:
        """Store how a case ended. A later end replaces an earlier one."""
        missing = index + 1 - len(self.codes)
        if missing == 1:
            self.codes.append(_CODES[status])
            self.offsets.append(offset)
            return
        if missing > 1:
            self.codes.extend(bytes(missing))
            self.offsets.extend([-1] * missing if missing < 64 else array("q", [-1]) * missing)
        self.codes[index] = _CODES[status]
        self.offsets[index] = offset

    def code(self, index: int) -> int:
        """Return OK, SUBJECT_ERROR or INFRA_ERROR, or 0 if the case has not ended."""
        return self.codes[index] if index < len(self.codes) else 0

    def forget(self, index: int) -> None:
        """Mark the case as not ended."""
        if index < len(self.codes):
            self.codes[index] = 0


# The scan decodes only these fields. Decoding the full structs of core.types takes three times as long.
class _CommitFields(msgspec.Struct, gc=False):
    try_: int = msgspec.field(default=1, name="try")
    status: Status = "ok"


class _EndLine(msgspec.Struct, tag="end", tag_field="type", gc=False):
    index: int
    stage: str
    try_: int = msgspec.field(name="try")
    status: Status


class _RecordLine(msgspec.Struct, tag="record", tag_field="type", gc=False):
    index: int
    end: _CommitFields | None = None


class _ScoreLine(msgspec.Struct, tag="score", tag_field="type", gc=False):
    index: int
    scorer: str
    end: _CommitFields | None = None


class _HasStatus(Protocol):
    @property
    def try_(self) -> int: ...

    @property
    def status(self) -> Status: ...


_decoder = msgspec.json.Decoder(_EndLine | _RecordLine | _ScoreLine)
