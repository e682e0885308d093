"""Ends that are written in groups: one write for all that come in one turn of the event loop."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from assay.core.errors import DamagedRun, StopRun
from assay.core.types import ASK, End, Record, Score
from assay.journal.journal import Journal
from assay.journal.lines import WINDOW_BYTES

SCORER = "s@1"


class Turn:
    """Stands for an event loop: `end` calls what was to be called soon."""

    def __init__(self) -> None:
        self.errors: list[BaseException] = []
        self._soon: list[Callable[[], None]] = []

    def call_soon(self, function: Callable[[], None]) -> None:
        self._soon.append(function)

    def end(self) -> int:
        """Call everything. Returns how much that was."""
        soon, self._soon = self._soon, []
        for function in soon:
            function()
        return len(soon)


def end(index: int, stage: str = ASK) -> End:
    return End(index, f"k{index}", "set", "m", stage, 1, "ok", [])


def record(index: int, data: object = "x") -> Record:
    return Record(index, f"k{index}", "set", "m", 1, "answer", data=data)


def score(index: int) -> Score:
    return Score(index, f"k{index}", "set", "m", SCORER, "em", value=1.0)


def open_group(folder: Path) -> tuple[Journal, Turn]:
    journal, turn = Journal(folder, [SCORER], []), Turn()
    journal.group_commits(turn.call_soon, turn.errors.append)
    return journal, turn


def done(folder: Path, count: int) -> bytes:
    """What another process finds on the disk."""
    journal = Journal(folder, [SCORER], [])
    try:
        return journal.done_map(count, retry_failed=False)
    finally:
        journal.close()


def test_the_ends_of_a_turn_are_written_together_and_count_from_then_on(tmp_path: Path) -> None:
    """A kill before that leaves cases that have not ended; their replies are in the log all the same."""
    journal, turn = open_group(tmp_path)
    size = (tmp_path / "records.jsonl").stat().st_size
    for index in range(3):
        journal.end_case(end(index), [record(index)])
        journal.end_scoring(end(index, SCORER), [score(index)])
    assert (tmp_path / "records.jsonl").stat().st_size == size
    assert journal.done_map(3, retry_failed=False) == b"\0\0\0"
    assert turn.end() == 1
    assert journal.done_map(3, retry_failed=False) == b"\1\1\1"
    assert [line.data for line in journal.reader.records(2)] == ["x"]
    journal.end_groups()
    journal.end_case(end(3), [record(3)])
    journal.end_scoring(end(3, SCORER), [score(3)])
    assert done(tmp_path, 4) == b"\1\1\1\1"
    journal.close()


def test_records_of_an_open_try_are_written_after_the_ends_before_them(tmp_path: Path) -> None:
    journal, turn = open_group(tmp_path)
    journal.end_case(end(0), [record(0)])
    later = end(1)
    later.lines.extend(journal.write_records([record(1, "first")])[0])
    assert journal.index.ask.code(0), "written with the records"
    assert turn.end() == 1
    journal.end_case(later, [record(1, "last")])
    journal.end_groups()
    assert [line.data for line in journal.reader.records(1)] == ["first", "last"]
    assert [line.data for line in journal.reader.records(0)] == ["x"]
    journal.close()


def test_a_record_that_cannot_be_encoded_costs_no_other_case_of_its_group(tmp_path: Path) -> None:
    journal, turn = open_group(tmp_path)
    journal.end_case(end(0), [record(0)])
    with pytest.raises(TypeError):
        journal.end_case(end(1), [record(1), record(1, object())])
    journal.end_case(end(2), [record(2)])
    turn.end()
    assert [journal.index.ask.code(index) for index in range(3)] == [1, 0, 1]
    assert [line.data for line in journal.reader.records(2)] == ["x"]
    journal.close()


def test_a_group_that_cannot_be_written_is_told_and_no_line_follows_it(tmp_path: Path) -> None:
    journal, turn = open_group(tmp_path)
    journal.end_case(end(0), [record(0)])
    journal.end_scoring(end(0, SCORER), [score(0)])
    journal._records._sync_error = OSError(5, "Input/output error")
    turn.end()
    assert [str(error).count("Input/output error") for error in turn.errors] == [1]
    journal._records._sync_error = None
    with pytest.raises(StopRun, match="Input/output error"):
        journal.end_case(end(1), [record(1)])
    with pytest.raises(StopRun, match="Input/output error"):
        journal.write_records([record(1)])
    with pytest.raises(StopRun, match="Input/output error"):
        journal.end_groups()
    journal.close()
    assert [journal.index.ask.code(index) for index in range(2)] == [0, 0]
    assert len((tmp_path / "scores.jsonl").read_bytes().splitlines()) == 1, "the header"
    assert done(tmp_path, 2) == b"\0\0"


def test_records_of_another_case_find_the_error_of_the_group_before_them(tmp_path: Path) -> None:
    """Its code may swallow the error: the ends of the group are not forgotten."""
    journal, turn = open_group(tmp_path)
    journal.end_case(end(0), [record(0)])
    journal.end_scoring(end(0, SCORER), [score(0)])
    journal._records._sync_error = OSError(5, "Input/output error")
    with pytest.raises(StopRun, match="Input/output error"):
        journal.write_records([record(1)])
    journal._records._sync_error = None
    turn.end()
    assert len(turn.errors) == 1
    journal.close()
    assert done(tmp_path, 1) == b"\0"


def test_closing_writes_the_last_group(tmp_path: Path) -> None:
    journal, turn = open_group(tmp_path)
    journal.end_case(end(0), [record(0)])
    journal.end_scoring(end(0, SCORER), [score(0)])
    journal.close()
    assert done(tmp_path, 1) == b"\1"
    turn.end()
    assert not turn.errors, "nothing is left to write"


def test_a_line_that_cannot_be_decoded_costs_only_its_own_case(tmp_path: Path) -> None:
    journal = Journal(tmp_path, [SCORER], [])
    deep: list[object] = []
    for _ in range(900):
        deep = [deep]
    for index in range(4):
        journal.end_case(end(index), [record(index, deep if index == 2 else "x")])

    def read(index: int, frames: int) -> list[Record]:
        return read(index, frames - 1) if frames else journal.reader.records(index)

    for index in (0, 1, 3):
        assert [line.data for line in read(index, 300)] == ["x"]
    with pytest.raises(DamagedRun, match="maximum recursion depth"):
        read(2, 300)
    journal.close()


@pytest.mark.parametrize("order", ["forward", "backward", "mixed"])
@pytest.mark.parametrize("size", [10, 3000, WINDOW_BYTES // 2, WINDOW_BYTES + 10])
def test_cases_are_read_in_any_order_and_as_often_as_one_likes(tmp_path: Path, order: str, size: int) -> None:
    """Lines are decoded in blocks; a block ends between two lines, and a line may be longer than a block."""
    journal = Journal(tmp_path, [SCORER], [])
    count = max(6, min(400, 4 * WINDOW_BYTES // size) // 2 * 2)
    for position in range(count):
        index = position ^ 1  # cases end nearly in data order
        journal.end_case(end(index), [record(index, "first"), record(index, [f"{index}", "x" * size])])
    indexes = {
        "forward": range(count),
        "backward": range(count - 1, -1, -1),
        "mixed": [index * 7 % count if count % 7 else index for index in range(count)],
    }[order]
    for _ in range(2):
        for index in indexes:
            first, last = journal.reader.records(index)
            assert (first.data, last.data) == ("first", [f"{index}", "x" * size])
            ended = journal.reader.end(index)
            assert ended is not None
            assert ended.case == f"k{index}"
    journal.close()


def test_a_caller_that_changes_a_record_changes_no_later_reading(tmp_path: Path) -> None:
    journal = Journal(tmp_path, [SCORER], [])
    for index in range(4):
        journal.end_case(end(index), [record(index, [index])])
    for index in (0, 1, 2, 2, 3, 0):
        (line,) = journal.reader.records(index)
        assert line.data == [index]
        line.data.append("changed")
    journal.close()
