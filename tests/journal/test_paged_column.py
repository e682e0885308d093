"""A paged column holds the same numbers as a list, in memory, in its file, and after a sidecar was loaded."""

from __future__ import annotations

import random
import resource
import tracemalloc
from array import array
from pathlib import Path

import msgspec
import pytest

from assay.core.types import ASK, Call, End, Record, Response
from assay.journal import sidecar
from assay.journal.index import RunIndex
from assay.journal.journal import Journal
from assay.journal.paged_column import PAGE, PagedColumn, PageFile, copy_column, map_column

SMALL = 4


class Head(msgspec.Struct):
    """A sidecar needs one."""


def play(column: PagedColumn, expected: list[int], draw: random.Random, steps: int) -> None:
    """Change a column and a list in the same way, and compare them all the time."""
    for _ in range(steps):
        step = draw.choice(["append", "extend", "set", "get", "all"])
        if step == "append":
            expected.append(draw.randrange(1 << 40))
            column.append(expected[-1])
        elif step == "extend":
            values = [draw.randrange(1 << 40) for _ in range(draw.randrange(3 * SMALL))]
            expected += values
            column.extend(iter(values))
        elif step == "all":
            assert list(column) == expected
            assert column.to_numpy().tolist() == expected
        elif expected:
            index = draw.randrange(len(expected))
            if step == "set":
                expected[index] = draw.randrange(1 << 40)
                column[index] = expected[index]
            assert column[index] == expected[index]
        assert len(column) == len(expected)
    for beyond in range(3 * SMALL):
        with pytest.raises(IndexError):
            column[len(expected) + beyond]


@pytest.mark.parametrize("in_file", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_a_paged_column_is_a_list_that_can_be_saved(tmp_path: Path, seed: int, in_file: bool) -> None:
    draw = random.Random(seed)
    column = PagedColumn("q", PageFile(tmp_path) if in_file else None, SMALL)
    expected: list[int] = []
    play(column, expected, draw, 200)
    sidecar.save(tmp_path / "saved.bin", Head(), [bytearray(b"abc"), column, array("d", [0.5])])
    for fill in (copy_column, map_column):
        loaded = sidecar.load(tmp_path / "saved.bin", Head)
        assert loaded is not None
        codes, content, values = loaded[1]
        assert (bytes(codes), values.cast("d").tolist()) == (b"abc", [0.5])
        again = PagedColumn("q", PageFile(tmp_path) if in_file else None, SMALL)
        again.load(content, fill)
        play(again, list(expected), draw, 200)
    play(column, expected, draw, 50)


def test_pages_of_a_long_column_are_not_in_memory(tmp_path: Path) -> None:
    column = PagedColumn("q", PageFile(tmp_path))
    tracemalloc.start()
    try:
        for value in range(12 * PAGE):
            column.append(value)
        assert sum(column) == sum(range(12 * PAGE))
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # Three pages and what arrays have in reserve; all twelve are 1.6 MB.
    assert used < 800_000
    assert list(tmp_path.iterdir()) == []  # the file has no name


def test_pages_stay_in_memory_if_they_cannot_be_written(tmp_path: Path) -> None:
    column = PagedColumn("q", PageFile(tmp_path / "missing"), SMALL)
    column.extend(range(10 * SMALL))
    assert list(column) == list(range(10 * SMALL))


def test_a_changed_page_stays_in_memory_if_it_cannot_be_written_back(tmp_path: Path) -> None:
    column = PagedColumn("q", PageFile(tmp_path), SMALL)
    column.extend(range(10 * SMALL))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        column[0] = -1
        assert column[SMALL] == SMALL
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(column) == [-1, *range(1, 10 * SMALL)]


def test_a_run_of_several_pages_continues_with_the_index_that_its_lines_have(tmp_path: Path) -> None:
    """Cases end in another order than they began, and some of them after the next start."""
    draw = random.Random(1)
    cases = list(range(2 * PAGE + 100))
    for begin in range(0, len(cases), 50):
        part = cases[begin : begin + 200]
        draw.shuffle(part)
        cases[begin : begin + 200] = part
    late, first, second = cases[:30], cases[30 : PAGE + 30], cases[PAGE + 30 :]
    journal = Journal(tmp_path, [], [], "5f0c")
    for index in (*late, *first):
        journal.call(call(index))
    for index in first:
        end_case(journal, index)
    journal.close()
    journal = Journal(tmp_path, [], [], "5f0c")
    for index in second:
        journal.call(call(index))
        end_case(journal, index)
    for index in late:
        assert list(journal.replies(index, ASK, 0).values()) == [call(index)]
        end_case(journal, index)
    journal.close()
    journal = Journal(tmp_path, [], [], "5f0c")
    verified = RunIndex.of_run(tmp_path, verify=True)
    assert list(journal.index.ask.offsets) == list(verified.ask.offsets)
    assert list(journal.index.call_offsets) == list(verified.call_offsets)
    assert list(journal.index.call_cases) == list(verified.call_cases) == cases
    assert journal.done_map(len(cases), retry_failed=False) == b"\x01" * len(cases)
    for index in (0, PAGE - 1, PAGE, 2 * PAGE, *late):
        assert [record.data for record in journal.reader.records(index)] == [index]
        assert verified.calls(index) == [verified.call_offsets[cases.index(index)]]
    journal.close()


def call(index: int) -> Call:
    """Return the only call of a case."""
    return Call(index, f"{index:016x}", "set", "model", ASK, 1, "hash", 0, response=Response(f"reply {index}"))


def end_case(journal: Journal, index: int) -> None:
    """Commit a case with one record."""
    head = (index, f"{index:016x}", "set", "model")
    journal.end_case(End(*head, ASK, 1, "ok", []), [Record(*head, 1, "answer", data=index)])
