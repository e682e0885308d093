"""The index of a run with its numbers: what tables, comparisons and searches need of every case and every score.

    columns = RunColumns.open(folder, "filters")  # from the sidecar and the lines that were added since
    columns.seconds[17], columns.tags.name(17)
    scores = columns.scores(["task@0123"])        # numpy arrays, one element per score that counts

Texts are not loaded. They are read from the journal by the offsets of `RunIndex`. A case takes about 60 bytes and a
score 15, so runs of a million cases fit in memory. The engine needs none of this to continue a run, so it keeps the
smaller `RunIndex` only.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from hashlib import blake2b
from itertools import accumulate
from math import isnan, nan
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import msgspec
from msgspec.structs import asdict

from assay.core.types import ASK, ScoreStatus
from assay.files.plain_files import plain_size
from assay.journal import sidecar
from assay.journal.index import ASK_CALL, OK, IndexHead, RunIndex
from assay.journal.line_types import (
    RECORDS,
    SCORES,
    TABLE_RECORDS,
    TABLE_SCORES,
    TableCommit,
    TableEnd,
    TableRecord,
    TableScore,
)
from assay.journal.run_files import MAX_HEADER
from assay.journal.sidecar import Fill, map_column, release_pages

if TYPE_CHECKING:
    from numpy.typing import NDArray

UNKNOWN_TOKENS = 0xFFFFFFFF
"""In the columns `input` and `output`: the endpoint did not count the tokens."""

SCORED, NO_NUMBER, NOT_APPLICABLE, INVALID = range(4)
_STATES: dict[ScoreStatus, int] = {"scored": SCORED, "not_applicable": NOT_APPLICABLE, "invalid": INVALID}
# Added to a score's state, which itself needs two bits. An interim score counts in no metric, because a later score of
# the same question does.
_INTERIM = 0x80
# The score stands for several repeats or votes; and these do not agree.
_REPEATED, _FLAKY = 0x40, 0x20
_STATE_BITS = 0x0F

_MAX_SHORT = 0xFFFF
NameT = TypeVar("NameT")
LineT = TypeVar("LineT", "TableEnd | TableRecord", "TableEnd | TableScore")


class ScoreName(NamedTuple):
    """The scores of one column of a table. `filter` is the part of a suite whose parts are filters, else ""."""

    scorer: str
    metric: str
    filter: str = ""


class Names(Generic[NameT]):
    """A column of names that repeat: a number per element, and each name once. Two bytes are enough for most runs."""

    def __init__(self) -> None:
        self.numbers = array("H")
        self.names: list[NameT] = []
        self._number_of: dict[NameT, int] = {}

    def number(self, name: NameT) -> int:
        """Return the number of a name. A new name gets the next number."""
        number = self._number_of.get(name)
        if number is None:
            number = self._number_of[name] = len(self.names)
            self.names.append(name)
            if number == _MAX_SHORT + 1:
                self.numbers = array("I", self.numbers)
        return number

    def set(self, positions: NDArray[Any], names: Sequence[NameT]) -> None:
        """Set the names at these positions, which exist. Of equal positions the last one counts."""
        # The numbers first: a new name may replace the array.
        numbers = self.numbers_of(names)
        _set(self.numbers, positions, numbers)

    def numbers_of(self, names: Sequence[NameT]) -> list[int]:
        """Return the numbers of several names."""
        try:
            return list(map(self._number_of.__getitem__, names))
        except KeyError:
            return [self.number(name) for name in names]

    def name(self, position: int) -> NameT:
        """Return the name at this position."""
        return self.names[self.numbers[position]]

    def add_names(self, names: Iterable[NameT]) -> None:
        """Number these names in their order."""
        for name in names:
            self.number(name)


class SparseColumn:
    """A column whose values are all 0 in most runs. It takes no memory until the first other value."""

    def __init__(self, typecode: str) -> None:
        self.values: array[Any] = array(typecode)

    def extend(self, position: int, values: Sequence[float]) -> None:
        """Set values from this position on. It is after all positions that have a value."""
        if any(values):
            self.values.frombytes(bytes((position - len(self.values)) * self.values.itemsize))
            self.values.extend(values)

    def take(self, positions: NDArray[Any]) -> NDArray[Any]:
        """Return the values at these positions."""
        import numpy as np

        if len(self.values) == 0:
            # One zero that is seen everywhere. Real ones would take 16 MB at a million cases.
            return np.broadcast_to(np.zeros((), dtype=self.values.typecode), len(positions))
        values = as_numpy(self.values)
        missing = positions.max(initial=0) + 1 - len(values)
        if missing > 0:
            values = np.pad(values, (0, missing))
        taken: NDArray[Any] = values[positions]
        return taken


class ScoreArrays(NamedTuple):
    """The scores that count, one element per score. `position` is their place in the columns of `RunColumns`.

    `name` is a number in `RunColumns.score_names`. `part` is a digest of the vote and, in suites whose parts are rows,
    of the part. `gold` is a digest of the expected values, 0 if the scorer wrote none. `repeated` scores stand for
    several repeats of a case or votes of a judge; `flaky` ones for repeats or votes that do not agree.
    """

    position: NDArray[Any]
    case: NDArray[Any]
    name: NDArray[Any]
    part: NDArray[Any]
    value: NDArray[Any]
    state: NDArray[Any]
    gold: NDArray[Any]
    interim: NDArray[Any]
    repeated: NDArray[Any]
    flaky: NDArray[Any]


class ColumnsHead(IndexHead, kw_only=True):
    """The small values of saved columns. Their arrays follow in the sidecar."""

    score_parts: str
    sets: list[str]
    subjects: list[str]
    tags: list[tuple[str, ...]]
    failures: list[str]
    score_names: list[ScoreName]
    first_scores: list[tuple[str, int, int]]
    open_records: dict[int, int]


class RunColumns(RunIndex):
    """The columns of all cases and scores of a run, extended as the journal grows.

    Columns of cases are indexed by the number of the case. A case that has not ended has arbitrary values:
    `ask.code(index)` is 0. Columns of scores contain superseded scores too; `scores` leaves them out.
    """

    sidecar_name = "columns.bin"
    head_type = ColumnsHead
    ARRAYS = RunIndex.ARRAYS | {
        "keys": "Q",
        "seconds": "f",
        "input": "I",
        "output": "I",
        "calls_made": "H",
        "call_cost": "d",
        "score_case": "i",
        "score_value": "d",
        "score_state": "B",
        "score_offset": "q",
        "score_tags": "I",
        "record_case": "i",
        "record_part": "Q",
        "record_offset": "q",
    }
    # The columns of names. The head of the sidecar has their names, its arrays have their numbers.
    NAMES = ("sets", "subjects", "tags", "failures", "score_names")
    keys: array[int]
    seconds: array[float]
    input: array[int]
    output: array[int]
    calls_made: array[int]
    call_cost: array[float]
    """The price of each call of `call_cases`, NaN if it has none. It ends with the last block that has a price."""
    score_case: array[int]
    score_value: array[float]
    score_state: array[int]
    # Only in suites whose parts are rows. Elsewhere a case is the row, and its lines are found by its end.
    score_offset: array[int]
    score_tags: array[int]
    record_case: array[int]
    record_part: array[int]
    record_offset: array[int]

    def __init__(self, score_parts: str = "none") -> None:
        super().__init__()
        self.score_parts = score_parts
        self.sets: Names[str] = Names()
        self.subjects: Names[str] = Names()
        self.tags: Names[tuple[str, ...]] = Names()
        self.failures: Names[str] = Names()
        """The kind of failure of each case, "" for none."""
        self.score_names: Names[ScoreName] = Names()
        self.score_part = SparseColumn("Q")
        self.score_gold = SparseColumn("Q")
        self._open_records: dict[int, int] = {}
        # Numbers of `score_names` by plain tuples: a ScoreName for each of a million lookups takes a second.
        self._score_numbers: dict[tuple[str, str, str], int] = {}
        # The first score that counts of cases that were scored more than once, by scorer and case.
        self._first_score: dict[tuple[str, int], int] = {}

    @classmethod
    def open(cls, folder: Path, score_parts: str) -> RunColumns:
        """Return the columns of a run and save them, if that took long, for the next reader.

        `score_parts` is that of run.json. Damaged lines are left out and listed in `damage`.
        """
        columns = cls(score_parts)
        if not columns._load(folder):
            columns = cls(score_parts)
        added = columns.extend(folder)
        if added >= sidecar.MIN_LINES and not columns.damage:
            columns.save(folder)
        return columns

    @classmethod
    def open_mapped(cls, folder: Path, score_parts: str) -> RunColumns | None:
        """Return the columns of a run as views of their sidecar; None if that does not cover the whole journal.

        They take a tenth of the memory and cannot be extended. For readers that keep many rows open for long.
        """
        columns = cls(score_parts)
        if not columns._load(folder, map_column):
            return None
        return columns if columns.covers(folder) else None

    def covers(self, folder: Path) -> bool:
        """Return whether the journal has no bytes beyond the lines of the index. False if it became shorter."""
        for name, end in self.positions.items():
            size = plain_size(folder / name) or 0
            # A file without lines is indexed up to 0, but has a header.
            if size != end and not (end == 0 and size <= MAX_HEADER):
                return False
        return True

    def release_pages(self) -> None:
        """Give the memory of mapped columns back to the system, after a reading of many of them."""
        column: array[Any] | memoryview = self.keys
        if isinstance(column, memoryview):
            release_pages(column)

    # Building.

    def _read_records(self, path: Path, run: str) -> int:
        count, tries = 0, self.tries
        codes, add_offset = self.ask.codes, self.ask.offsets.append
        for begin, sizes, lines in self._blocks(path, run, TABLE_RECORDS):
            offsets = list(accumulate(sizes[:-1], initial=begin))
            if self.score_parts == "rows":
                self._find_parts(lines, offsets)
            ends = _ends(lines, offsets)
            for line, commit, offset in ends:
                index = line.index
                # Nearly every line is the end of a first try that succeeded. This fast path is for them.
                if index == len(codes) and commit.status == "ok" and commit.try_ == 1 and index not in tries:
                    codes.append(OK)
                    add_offset(offset)
                else:
                    self._take(ASK, index, commit.try_, commit.status, offset)
            self._set_cases(ends)
            self.counts[RECORDS].add(len(lines), len(ends), _count_committed(ends))
            count += len(lines)
        return count

    def _find_parts(self, lines: list[TableEnd | TableRecord], offsets: list[int]) -> None:
        """Take the part of each record, when the end of its case comes."""
        for line, offset in zip(lines, offsets, strict=True):
            if type(line) is TableRecord:
                self._open_records[offset] = part_digest(0, line.part)
            commit = line if isinstance(line, TableEnd) else line.end
            if commit is None:
                continue
            for place in (*commit.lines, offset):
                part = self._open_records.pop(place, None)
                if part is not None:
                    self.record_case.append(line.index)
                    self.record_part.append(part)
                    self.record_offset.append(place)

    def _set_cases(self, ends: Sequence[tuple[TableEnd | TableRecord, TableCommit, int]]) -> None:
        """Set the columns of cases that have ended. A case that is here twice gets the values of its last end."""
        if not ends:
            return
        # Whole columns at a time, and `attrgetter`: a statement for each value would take four times as long.
        cases, keys, sets, subjects = zip(*[_case_fields(line) for line, _, _ in ends], strict=True)
        seconds, calls, usages, tags, failures = zip(*[_commit_fields(commit) for _, commit, _ in ends], strict=True)
        missing = max(cases) + 1 - len(self.keys)
        if missing > 0:
            for column in self._case_columns():
                # Cases end in another order than they began. The gaps are filled when those cases end.
                column.frombytes(bytes(missing * column.itemsize))
        places = _positions(cases)
        _set(self.keys, places, _key_digests(keys))
        _set(self.seconds, places, seconds)
        _set(self.input, places, [_tokens(usage.input) if usage else UNKNOWN_TOKENS for usage in usages])
        _set(self.output, places, [_tokens(usage.output) if usage else UNKNOWN_TOKENS for usage in usages])
        _set(self.calls_made, places, [min(count, _MAX_SHORT) for count in calls])
        self.sets.set(places, sets)
        self.subjects.set(places, subjects)
        self.tags.set(places, tags)
        self.failures.set(places, [failure.kind if failure else "" for failure in failures])

    def _case_columns(self) -> tuple[array[Any], ...]:
        names = (self.sets, self.subjects, self.tags, self.failures)
        numbers = (self.keys, self.seconds, self.input, self.output, self.calls_made)
        return (*numbers, *(column.numbers for column in names))

    def _take_costs(self, position: int, costs: list[float]) -> None:
        if not all(map(isnan, costs)):
            self.call_cost.extend(array("d", [nan]) * (position - len(self.call_cost)))
            self.call_cost.extend(costs)

    def _read_scores(self, path: Path, run: str, stop: int) -> int:
        count = 0
        # Lines whose end has not come yet. All lines of a commit are written together, but a block may end in it.
        open_lines: list[TableEnd | TableScore] = []
        open_offsets: list[int] = []
        for begin, sizes, block in self._blocks(path, run, TABLE_SCORES, stop):
            lines = [*open_lines, *block]
            offsets = [*open_offsets, *accumulate(sizes[:-1], initial=begin)]
            ends = _ends(lines, offsets)
            self._take_scores(dict(zip(offsets, lines, strict=True)), ends)
            complete = offsets.index(ends[-1][2]) + 1 if ends else 0
            open_lines, open_offsets = lines[complete:], offsets[complete:]
            self.counts[SCORES].add(complete, len(ends), _count_committed(ends))
            count += complete
        if open_lines:
            # The rest of this commit is still being written. The next call reads these lines again.
            self.positions[path.name] = open_offsets[0]
        return count

    def _take_scores(
        self,
        line_at: dict[int, TableEnd | TableScore],
        ends: list[tuple[TableEnd | TableScore, TableCommit, int]],
    ) -> None:
        """Take these ends and the scores that they commit. `line_at` has the lines by offset."""
        scores: list[TableScore] = []
        offsets: list[int] = []
        for line, commit, end in ends:
            index = line.index
            scorer = line.scorer if isinstance(line, TableScore) else line.stage
            stage = self.stage(scorer)
            is_first = commit.try_ == 1 and commit.status == "ok" and index not in self.tries
            if is_first and index == len(stage.codes) and self.ask.code(index):
                # Nearly every end, as in `_read_records`.
                stage.codes.append(OK)
                stage.offsets.append(end)
            else:
                self._begin_scores(scorer, index, len(scores))
                self._take(scorer, index, commit.try_, commit.status, end)
            for offset in (*commit.lines, end):
                score = line_at.get(offset)
                # A missing line is damaged. `_forget_incomplete` then forgets the whole commit.
                if type(score) is TableScore:
                    scores.append(score)
                    offsets.append(offset)
        self._add_scores(scores, offsets)

    def _begin_scores(self, scorer: str, index: int, added: int) -> None:
        """Supersede the earlier scores of a case by this scorer. `added` scores are not in the columns yet."""
        # A case with several tries may have scores of an earlier try, whose end `_take` has already forgotten.
        if self.stage(scorer).code(index) or self.tries.get(index, 1) > 1:
            self._first_score[scorer, index] = len(self.score_case) + added

    def _add_scores(self, scores: list[TableScore], offsets: list[int]) -> None:
        if not scores:
            return
        first = len(self.score_case)
        cases, scorers, metrics, parts, votes, statuses, values, interim, datas = zip(
            *map(_score_fields, scores), strict=True
        )
        self.score_case.extend(cases)
        if None in values or True in interim or set(statuses) != {"scored"}:
            self.score_state.extend(map(_state, scores))
            self.score_value.extend([nan if value is None else value for value in values])
        else:
            self.score_state.frombytes(bytes(len(scores)))  # SCORED is 0
            self.score_value.extend(values)
        texts = b"".join(datas)
        if any(key in texts for key in _REPEAT_KEYS):
            for number, data in enumerate(datas, first):
                self.score_state[number] |= _repeat_bits(bytes(data))
        filters = empty = ("",) * len(scores)
        if self.score_parts == "filters":
            filters, parts = parts, empty
        names = list(zip(scorers, metrics, filters, strict=True))
        numbers = self._score_numbers
        if not numbers.keys() >= set(names):
            for name in dict.fromkeys(names):
                numbers[name] = self.score_names.number(ScoreName(*name))
        self.score_names.numbers.extend(map(numbers.__getitem__, names))
        if any(votes) or any(parts):
            digests = [part_digest(vote, part) if vote or part else 0 for vote, part in zip(votes, parts, strict=True)]
            self.score_part.extend(first, digests)
        if b'"gold"' in texts:
            self.score_gold.extend(first, [_gold_digest(bytes(data)) for data in datas])
        if self.score_parts == "rows":
            self.score_offset.extend(offsets)
            self.score_tags.extend(self.tags.numbers_of([score.tags for score in scores]))

    # Reading.

    def scores(self, scorers: Sequence[str], *, digests: bool = True) -> ScoreArrays:
        """Return the scores of these scorers that count: of the last try and the last scoring of each case.

        Without `digests`, `position`, `part` and `gold` are empty: they take 20 bytes a score.
        Do not keep the arrays: if all scores count they are views of the columns, which then cannot grow.
        """
        import numpy as np

        case, name = as_numpy(self.score_case), as_numpy(self.score_names.numbers)
        counted = np.zeros(len(case), dtype=bool)
        for scorer in scorers:
            counted |= self._is_counted(scorer, case, name)
        # In most runs every score counts. A slice makes no copy then.
        chosen = slice(None) if counted.all() else counted
        position = np.arange(len(counted) if digests else 0, dtype=np.int32)
        position = position[chosen] if digests else position
        state = as_numpy(self.score_state)[chosen]
        # One False that is seen everywhere: most runs have no repeats, and real ones would take a byte a score.
        repeated = flaky = np.broadcast_to(np.zeros((), dtype=bool), len(state))
        if (state & np.uint8(_REPEATED)).any():
            repeated = (state & np.uint8(_REPEATED)) != 0
            flaky = (state & np.uint8(_FLAKY)) != 0
        return ScoreArrays(
            position=position,
            case=case[chosen],
            name=name[chosen],
            part=self.score_part.take(position) if digests else position,
            value=as_numpy(self.score_value)[chosen],
            state=state & np.uint8(_STATE_BITS),
            gold=self.score_gold.take(position) if digests else position,
            interim=state >= _INTERIM,
            repeated=repeated,
            flaky=flaky,
        )

    def case_costs(self) -> NDArray[Any] | None:
        """Return the price of each case's own calls, without those of judges. None if no call has a price.

        A case none of whose own calls has a price is NaN. A price of 0 is a price.
        """
        import numpy as np

        prices = as_numpy(self.call_cost)
        if not len(prices):
            return None
        cases, kinds = as_numpy(self.call_cases)[: len(prices)], as_numpy(self.call_kinds)[: len(prices)]
        own = (kinds == ASK_CALL) & ~np.isnan(prices)
        costs: NDArray[Any] = np.bincount(cases[own], weights=prices[own], minlength=len(self.ask.codes))
        costs[np.bincount(cases[own], minlength=len(self.ask.codes)) == 0] = np.nan
        return costs

    def _is_counted(self, scorer: str, case: NDArray[Any], name: NDArray[Any]) -> NDArray[Any]:
        """Return for each score whether it is of this scorer and counts."""
        import numpy as np

        # A score may be of a case that has not ended, if lines of records.jsonl are damaged.
        ended = np.zeros(max(len(self.ask.codes), int(case.max(initial=-1)) + 1), dtype=bool)
        stage = self.stages.get(scorer)
        if stage is not None:
            codes = np.frombuffer(bytes(stage.codes[: len(self.ask.codes)]), dtype=np.uint8)
            ended[: len(codes)] = codes > 0
        counted: NDArray[Any] = ended[case]
        is_of_scorer = np.array([each.scorer == scorer for each in self.score_names.names], dtype=bool)
        if not is_of_scorer.all():
            counted &= is_of_scorer[name]
        superseded = {index: first for (each, index), first in self._first_score.items() if each == scorer}
        if superseded:
            first = np.zeros(len(ended), dtype=np.int64)
            known = [index for index in superseded if index < len(first)]
            first[known] = [superseded[index] for index in known]
            counted &= np.arange(len(case)) >= first[case]
        return counted

    # The sidecar.

    def _is_current(self, folder: Path, head: IndexHead) -> bool:
        return (
            isinstance(head, ColumnsHead) and head.score_parts == self.score_parts and super()._is_current(folder, head)
        )

    def _head(self, folder: Path) -> IndexHead:
        return ColumnsHead(
            **asdict(super()._head(folder)),
            **{name: getattr(self, name).names for name in self.NAMES},
            score_parts=self.score_parts,
            first_scores=[(*key, first) for key, first in self._first_score.items()],
            open_records=self._open_records,
        )

    def _arrays(self) -> list[sidecar.Column]:
        names = [getattr(self, name).numbers for name in self.NAMES]
        return [*super()._arrays(), *names, self.score_part.values, self.score_gold.values]

    def _fill(self, head: IndexHead, arrays: Iterator[memoryview], fill: Fill) -> None:
        super()._fill(head, arrays, fill)
        assert isinstance(head, ColumnsHead)
        for name in self.NAMES:
            column = getattr(self, name)
            column.add_names(getattr(head, name))
            column.numbers = fill(column.numbers, next(arrays))
        for sparse in (self.score_part, self.score_gold):
            sparse.values = fill(sparse.values, next(arrays))
        self._score_numbers = {name: number for number, name in enumerate(head.score_names)}
        self._first_score = {(scorer, index): first for scorer, index, first in head.first_scores}
        self._open_records = head.open_records


def as_numpy(column: array[Any]) -> NDArray[Any]:
    """Return a numpy view of the column, without a copy. Do not write to it, and do not keep it: it blocks growth."""
    import numpy as np

    mapped: array[Any] | memoryview = column
    typecode = mapped.format if isinstance(mapped, memoryview) else column.typecode
    # frombuffer refuses an empty buffer.
    view: NDArray[Any] = np.frombuffer(column, dtype=typecode) if column else np.empty(0, typecode)
    return view


def score_part_digest(score_parts: str, vote: int, part: str) -> int:
    """Return the value of `score_part` for a score. 0 for the first vote on a whole case."""
    if score_parts == "filters":
        part = ""  # it is in the score's name
    return part_digest(vote, part) if vote or part else 0


@lru_cache(maxsize=4096)
def part_digest(vote: int, part: str) -> int:
    """Return a 64-bit number for vote and part of a score. Cached, because the parts of a case repeat."""
    return text_digest(f"{vote}/{part}")


def text_digest(text: str) -> int:
    """Return a 64-bit number for a text.

    64 bits are enough: among a million different texts a collision has a probability of 3 in 100 million.
    """
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def _ends(lines: list[LineT], offsets: list[int]) -> list[tuple[LineT, TableCommit, int]]:
    """Return the lines that end a case or its scoring: (line, what it says of the end, offset)."""
    return [
        (line, commit, offset)
        for line, offset in zip(lines, offsets, strict=True)
        if (commit := line if isinstance(line, TableEnd) else line.end) is not None
    ]


def _count_committed(ends: Sequence[tuple[object, TableCommit, int]]) -> int:
    return len(ends) + sum([len(commit.lines) for _, commit, _ in ends])


def _positions(numbers: Sequence[int]) -> NDArray[Any]:
    import numpy as np

    return np.array(numbers, dtype=np.int64)


def _set(column: array[Any], positions: NDArray[Any], values: Sequence[Any] | NDArray[Any]) -> None:
    """Set several values of a column. Of equal positions the last one counts."""
    as_numpy(column)[positions] = values


def _tokens(count: int) -> int:
    return min(count, UNKNOWN_TOKENS - 1) if count >= 0 else UNKNOWN_TOKENS


def _state(score: TableScore) -> int:
    state = _STATES[score.status]
    if state == SCORED and score.value is None:
        state = NO_NUMBER
    return state | _INTERIM if score.interim else state


def key_digest(key: str) -> int:
    """Return a 64-bit number for the key of a case. Most keys are 16 hexadecimal digits, which are this number."""
    if len(key) == 16:
        try:
            return int(key, 16)
        except ValueError:
            pass
    return text_digest(key)


def _key_digests(keys: Sequence[str]) -> NDArray[Any] | list[int]:
    """Return `key_digest` of several keys, at once if all are hexadecimal."""
    import numpy as np

    digits = "".join(keys)
    if len(digits) == 16 * len(keys) and set(map(len, keys)) == {16}:
        with suppress(ValueError):
            numbers = bytes.fromhex(digits)
            if len(numbers) == 8 * len(keys):  # `fromhex` ignores spaces
                return np.frombuffer(numbers, dtype=">u8")
    return [key_digest(key) for key in keys]


def _gold_digest(data: bytes) -> int:
    """Return a digest of the fingerprint of the expected values in a score's data, or 0."""
    if b'"gold"' not in data or not data.startswith(b"{"):
        return 0
    gold = _decode_gold(data).gold
    return text_digest(str(gold)) if gold else 0


def _repeat_bits(data: bytes) -> int:
    """Return _REPEATED for a score of several repeats or votes, with _FLAKY if these do not agree; else 0.

    Scorers write what they know into a score's data: whether a judge's votes agree (`stable`), the value of each repeat
    or how many repeats are right (`repeats`), or how often each answer came (`votes`).
    """
    if not data.startswith(b"{") or not any(key in data for key in _REPEAT_KEYS):
        return 0
    content = _decode_repeats(data)
    repeats, votes = content.repeats, content.votes
    has_votes = isinstance(votes, list) and len(votes) > 0
    if has_votes and isinstance(content.stable, bool):
        agree = content.stable
    elif isinstance(repeats, list) and len(repeats) > 1:
        agree = all(value == repeats[0] for value in repeats)
    elif isinstance(repeats, dict) and "n" in repeats:
        agree = repeats.get("right") in (0, repeats["n"])
    elif has_votes:
        agree = len(votes) == 1
    else:
        return 0
    return _REPEATED if agree else _REPEATED | _FLAKY


class _GoldData(msgspec.Struct):
    gold: Any = None


class _RepeatData(msgspec.Struct):
    """A scorer of a user may write anything under these names."""

    stable: Any = None
    repeats: Any = None
    votes: Any = None


_case_fields = attrgetter("index", "case", "set", "subject")
_commit_fields = attrgetter("seconds", "calls", "usage", "tags", "failure")
_score_fields = attrgetter("index", "scorer", "metric", "part", "vote", "status", "value", "interim", "data")
_decode_gold = msgspec.json.Decoder(_GoldData).decode
_decode_repeats = msgspec.json.Decoder(_RepeatData).decode
_REPEAT_KEYS = (b'"stable"', b'"repeats"', b'"votes"')
