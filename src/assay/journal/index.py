"""The index of a run: which cases have ended, with which status, and where the lines of a case are.

    index = RunIndex.of_run(folder)          # from the sidecar and the lines that were added since
    index.ask.code(17), index.ask.offsets[17]
    index.extend(folder)                     # reads only new lines

It is built in one pass over the three files of the journal. It needs nine bytes per case and stage (a stage is the
solver or one of the scorers) and thirteen bytes per call. The running process keeps it up to date and saves it in a
sidecar. `RunColumns` adds the numbers of cases and scores, for tables and comparisons.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from itertools import accumulate, repeat
from math import nan
from pathlib import Path
from typing import ClassVar, TypeVar

import msgspec

from assay.core.events import on_read
from assay.core.types import (
    ASK,
    NO_CASE,
    Call,
    End,
    Status,
)
from assay.files.plain_files import is_plain, plain_size
from assay.journal import sidecar
from assay.journal.line_types import (
    CALLS,
    INDEXED_CALLS,
    INDEXED_RECORDS,
    INDEXED_SCORES,
    RECORDS,
    SCORES,
    WHOLE_LINES,
    IndexedEnd,
)
from assay.journal.lines import DamagedLine, read_blocks, run_id
from assay.journal.sidecar import FilePosition, Fill, copy_column
from assay.journal.spending import Spending

OK, SUBJECT_ERROR, INFRA_ERROR = 1, 2, 3
CODES: dict[Status, int] = {"ok": OK, "subject_error": SUBJECT_ERROR, "infra_error": INFRA_ERROR}

# Values of `call_kinds`.
ASK_CALL, SCORE_CALL, SHARED_CALL = 0, 1, 2
LineT = TypeVar("LineT")


class LineCounts(msgspec.Struct):
    """The lines of a file after its header, the ends among them, and the lines that these ends commit.

    An end commits its own line too.
    """

    lines: int = 0
    ends: int = 0
    committed: int = 0

    def add(self, lines: int, ends: int, committed: int) -> None:
        """Count new lines."""
        self.lines += lines
        self.ends += ends
        self.committed += committed


class FailedCalls(msgspec.Struct):
    """The calls that failed in one way. `first` is the offset of the first of them."""

    count: int
    first: int


class IndexHead(msgspec.Struct):
    """The small values of a saved index. Its arrays follow in the sidecar."""

    positions: dict[str, FilePosition]
    stages: list[str]
    tries: dict[int, int]
    spent: Spending
    counts: dict[str, LineCounts]
    failed_calls: dict[str, FailedCalls]


class RunIndex:
    """The ends of all cases, by stage, and the offsets of all calls.

    `tries` has the last try of cases that failed or ran more than once. `failed_calls` is by kind of failure.
    """

    sidecar_name = "index.bin"
    head_type: ClassVar[type[IndexHead]] = IndexHead
    # The arrays by name, with their type codes. They are made, saved and loaded in this order.
    ARRAYS: ClassVar[dict[str, str]] = {"call_cases": "i", "call_kinds": "B", "call_offsets": "q"}
    call_cases: array[int]
    call_kinds: array[int]
    call_offsets: array[int]

    def __init__(self) -> None:
        for name, typecode in self.ARRAYS.items():
            setattr(self, name, array(typecode))
        self.ask = StageIndex()
        self.stages = {ASK: self.ask}
        self.tries: dict[int, int] = {}
        self.spent = Spending()
        self.failed_calls: dict[str, FailedCalls] = {}
        self.positions = {CALLS: 0, RECORDS: 0, SCORES: 0}
        self.counts = {RECORDS: LineCounts(), SCORES: LineCounts()}
        self.damage: dict[tuple[Path, int], DamagedLine] = {}

    @staticmethod
    def of_run(folder: Path, *, verify: bool = False) -> RunIndex:
        """Return the index of a run. Damaged lines are left out and listed in `damage`.

        The lines that the sidecar covers are not read. `verify` reads and verifies all lines. If many lines were read,
        the index is saved for the next reader.
        """
        index = RunIndex()
        if verify or not index._load(folder):
            index = RunIndex()
        if index.extend(folder) >= sidecar.MIN_LINES and not index.damage:
            index.save(folder)
        return index

    def extend(self, folder: Path) -> int:
        """Read the lines that were added since the last call. Returns their number."""
        run = run_id(folder)
        # A score is written after the end of its case. If the process writes while we read, a score that is in the
        # file now has its case in the records that we read next.
        size = plain_size(folder / SCORES) or 0
        return (
            self._read_records(folder / RECORDS, run)
            + self._read_scores(folder / SCORES, run, size)
            + self._read_calls(folder / CALLS, run)
        )

    def stage(self, name: str) -> StageIndex:
        """Return the ends of a stage. It is empty if no case of this stage has ended."""
        stage = self.stages.get(name)
        if stage is None:
            stage = self.stages[name] = StageIndex()
        return stage

    def calls(self, index: int) -> list[int]:
        """Return the offsets of all calls of a case, in the order of the log."""
        import numpy as np

        rows = np.flatnonzero(np.asarray(self.call_cases) == index)
        return [self.call_offsets[row] for row in rows.tolist()]

    def every_line_counts(self, file: str, stages: Iterable[str]) -> bool:
        """Return whether every line of records.jsonl or scores.jsonl belongs to the last end of one of these stages.

        It is False after a retry, a new scoring, damage, or a kill between the lines of a case. Readers of the whole
        file then have to leave lines out.
        """
        counts = self.counts[file]
        ends = sum(len(codes) - codes.count(0) for codes in (self.stage(name).codes for name in stages))
        return counts.lines == counts.committed and counts.ends == ends and not self.damage

    # Building.

    def _read_records(self, path: Path, run: str) -> int:
        ask, tries, count, ends, committed = self.ask, self.tries, 0, 0, 0
        for begin, sizes, lines in self._blocks(path, run, INDEXED_RECORDS):
            offset = begin
            for size, line in zip(sizes, lines, strict=True):
                if type(line) is IndexedEnd:
                    self._take(line.stage, line.index, line.try_, line.status, offset)
                    ends += 1
                    committed += 1 + _length(line.lines)
                elif (commit := line.end) is not None:
                    index = line.index
                    ends += 1
                    committed += 1 + _length(commit.lines)
                    # Nearly every line is the end of a first try that succeeded. This fast path is for them.
                    if commit.try_ != 1 or commit.status != "ok" or index in tries:
                        self._take(ASK, index, commit.try_, commit.status, offset)
                    elif index == len(ask.codes):
                        ask.codes.append(OK)
                        ask.offsets.append(offset)
                    else:
                        ask.set(index, "ok", offset)
                offset += size
            count += len(lines)
        self.counts[RECORDS].add(count, ends, committed)
        return count

    def _read_scores(self, path: Path, run: str, stop: int) -> int:
        ask, tries, count, ends, committed = self.ask, self.tries, 0, 0, 0
        for begin, sizes, lines in self._blocks(path, run, INDEXED_SCORES, stop):
            offset = begin
            for size, line in zip(sizes, lines, strict=True):
                if type(line) is IndexedEnd:
                    self._take(line.stage, line.index, line.try_, line.status, offset)
                    ends += 1
                    committed += 1 + _length(line.lines)
                elif (commit := line.end) is not None:
                    index = line.index
                    ends += 1
                    committed += 1 + _length(commit.lines)
                    stage = self.stage(line.scorer)
                    if commit.try_ != 1 or commit.status != "ok" or index in tries or not ask.code(index):
                        self._take(line.scorer, index, commit.try_, commit.status, offset)
                    elif index == len(stage.codes):
                        stage.codes.append(OK)
                        stage.offsets.append(offset)
                    else:
                        stage.set(index, "ok", offset)
                offset += size
            count += len(lines)
        self.counts[SCORES].add(count, ends, committed)
        return count

    def _read_calls(self, path: Path, run: str) -> int:
        count = 0
        for begin, sizes, lines in self._blocks(path, run, INDEXED_CALLS):
            position = len(self.call_cases)
            self.call_cases.extend([line.index for line in lines])
            self.call_kinds.extend([_call_kind(line.index, line.stage) for line in lines])
            self.call_offsets.extend(accumulate(sizes[:-1], initial=begin))
            responses = [line.response for line in lines]
            for place, (line, response) in enumerate(zip(lines, responses, strict=True), position):
                self.spent.add(line.stage, line.attempts, response, failed=line.failure is not None)
                if line.failure is not None:
                    self._add_failed_call(line.failure.kind, self.call_offsets[place])
            self._take_costs(
                position,
                [nan if each is None or each.cost is None else each.cost for each in responses],
            )
            count += len(lines)
        return count

    def _take_costs(self, position: int, costs: list[float]) -> None:
        """Take the prices of the calls from this position on, NaN if there is none. Only `RunColumns` keeps prices."""

    def _blocks(
        self, path: Path, run: str, decoder: msgspec.json.Decoder[LineT], stop: int | None = None
    ) -> Iterator[tuple[int, list[int], list[LineT]]]:
        """Yield the blocks after the indexed position, and move the position. Damaged lines go to `damage`."""
        if not is_plain(path):
            return  # deleted: an empty file for us, and the next start creates it. Anything else is named as damage
        damage: list[DamagedLine] = []
        start = self.positions[path.name]
        progress, total = on_read.get(), 0
        if progress is not None:
            files = [path.parent / name for name in self.positions]
            total = sum(plain_size(file) or 0 for file in files)
        for block in read_blocks(path, decoder, run=run, start=start, stop=stop, damage=damage):
            yield block
            self.positions[path.name] = block[0] + sum(block[1])
            if progress is not None:
                progress(path.parent, min(1.0, sum(self.positions.values()) / total))
        for line in damage:
            self.damage[line.path, line.offset] = line
        if damage and path.name != CALLS:
            self._forget_incomplete(path, run)

    def _forget_incomplete(self, path: Path, run: str) -> None:
        """Forget the ends that refer to a damaged line: their case is not complete."""
        intact: set[int] = set()
        for begin, sizes, lines in read_blocks(path, WHOLE_LINES[path.name], run=run, damage=[]):
            offset = begin
            for size, line in zip(sizes, lines, strict=True):
                intact.add(offset)
                commit = line if isinstance(line, End) else line.end
                if commit is not None and not intact.issuperset(commit.lines):
                    for stage in self.stages.values():
                        if stage.code(line.index) and stage.offsets[line.index] == offset:
                            stage.forget(line.index)
                offset += size

    def add(self, end: End, offset: int, file: str, lines: int) -> None:
        """Add an end that was just written at this offset of a file, as the last of so many new lines."""
        stage, index = self.stages.get(end.stage), end.index
        if (
            stage is self.ask
            and index == len(stage.codes)
            and end.try_ == 1
            and end.status == "ok"
            and index not in self.tries
        ):
            # As `_take` does it, for most cases of a run.
            stage.codes.append(OK)
            stage.offsets.append(offset)
        else:
            self._take(end.stage, index, end.try_, end.status, offset)
        counts = self.counts[file]
        counts.lines += lines
        counts.ends += 1
        counts.committed += 1 + len(end.lines)

    def add_call(self, call: Call, offset: int) -> None:
        """Add a call that was just written at this offset."""
        self.call_cases.append(call.index)
        self.call_kinds.append(ASK_CALL if call.stage == ASK else _call_kind(call.index, call.stage))
        self.call_offsets.append(offset)
        self.spent.add(call.stage, call.attempts, call.response, failed=call.failure is not None)
        if call.failure is not None:
            self._add_failed_call(call.failure.kind, offset)

    def _add_failed_call(self, kind: str, offset: int) -> None:
        self.failed_calls.setdefault(kind, FailedCalls(0, offset)).count += 1

    def _take(self, name: str, index: int, try_: int, status: Status, offset: int) -> None:
        """Take the end of a stage of a case that stands at this offset."""
        stage = self.stages.get(name) or self.stage(name)
        is_first = try_ == 1 and status == "ok" and index not in self.tries
        if is_first and (stage is self.ask or self.ask.code(index)):
            # Nearly every end, twice for every case of a run. What follows is for the others.
            if index == len(stage.codes):
                stage.codes.append(OK)
                stage.offsets.append(offset)
            else:
                stage.set(index, "ok", offset)
            return
        if stage is not self.ask:
            last_try = self.tries.get(index, 1 if self.ask.code(index) else 0)
            # A score counts only if its try is the last one of the case. An older try has other answers.
            if self.ask.code(index) and try_ == last_try:
                stage.set(index, status, offset)
            elif try_ > last_try or not self.ask.code(index):
                # The records of this try were damaged. The case runs again, as a later try, so that a score of the
                # lost answer is never taken for a score of the new one.
                self.tries[index] = max(try_, last_try)
                self._forget(index)
            return
        stage.set(index, status, offset)
        if try_ > 1 or status != "ok":
            self.tries[index] = try_
            # The scores of the try before do not belong to this one.
            for other in self.stages.values():
                if other is not stage:
                    other.forget(index)

    def _forget(self, index: int) -> None:
        for stage in self.stages.values():
            stage.forget(index)

    # The sidecar.

    def save(self, folder: Path) -> None:
        """Save the index in its sidecar. That is worth it for large runs only: see `sidecar.MIN_LINES`."""
        sidecar.save(folder / self.sidecar_name, self._head(folder), self._arrays())

    def _load(self, folder: Path, fill: Fill = copy_column) -> bool:
        """Fill an empty index from its sidecar. Returns False if that is not possible."""
        loaded = sidecar.load(folder / self.sidecar_name, self.head_type)
        if loaded is None:
            return False
        head, arrays = loaded
        if not self._is_current(folder, head):
            return False
        self._fill(head, iter(arrays), fill)
        return True

    def _is_current(self, folder: Path, head: IndexHead) -> bool:
        """Return whether the journal still begins with the lines that the sidecar covers."""
        return all(sidecar.is_current(folder / name, at) for name, at in head.positions.items())

    def _head(self, folder: Path) -> IndexHead:
        positions = {name: sidecar.position(folder / name, end) for name, end in self.positions.items()}
        return IndexHead(positions, list(self.stages), self.tries, self.spent, self.counts, self.failed_calls)

    def _arrays(self) -> list[sidecar.Column]:
        """Return the arrays of the sidecar, in the order in which `_fill` reads them."""
        arrays: list[sidecar.Column] = [getattr(self, name) for name in self.ARRAYS]
        for stage in self.stages.values():
            arrays += [stage.codes, stage.offsets]
        return arrays

    def _fill(self, head: IndexHead, arrays: Iterator[memoryview], fill: Fill) -> None:
        for name, at in head.positions.items():
            self.positions[name] = at.end
        self.tries, self.spent, self.counts = head.tries, head.spent, head.counts
        self.failed_calls = head.failed_calls
        for name in self.ARRAYS:
            setattr(self, name, fill(getattr(self, name), next(arrays)))
        for name in head.stages:
            stage = self.stage(name)
            stage.codes.extend(next(arrays))
            stage.offsets = fill(stage.offsets, next(arrays))


class StageIndex:
    """One stage of all cases: a status code per case (0 if it has not ended) and the offset of its last line."""

    def __init__(self) -> None:
        self.codes = bytearray()
        self.offsets = array("q")

    def set(self, index: int, status: Status, offset: int) -> None:
        """Store how a case ended. A later end replaces an earlier one."""
        missing = index + 1 - len(self.codes)
        if missing == 1:
            self.codes.append(CODES[status])
            self.offsets.append(offset)
            return
        if missing > 1:
            self.codes.extend(bytes(missing))
            self.offsets.extend(repeat(-1, missing))
        self.codes[index] = CODES[status]
        self.offsets[index] = offset

    def code(self, index: int) -> int:
        """Return OK, SUBJECT_ERROR or INFRA_ERROR, or 0 if the case has not ended."""
        return self.codes[index] if index < len(self.codes) else 0

    def forget(self, index: int) -> None:
        """Mark the case as not ended."""
        if index < len(self.codes):
            self.codes[index] = 0


def _call_kind(index: int, stage: str) -> int:
    if index == NO_CASE:
        return SHARED_CALL
    return ASK_CALL if stage == ASK else SCORE_CALL


def _length(array_text: msgspec.Raw) -> int:
    """Return the number of items in a JSON array of numbers. Decoding it would take longer."""
    text = bytes(array_text)
    return text.count(b",") + 1 if len(text) > len("[]") else 0
