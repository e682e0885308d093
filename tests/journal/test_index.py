"""The index of a large run, and the sidecar that keeps it."""

from __future__ import annotations

import random
from array import array
from pathlib import Path

import msgspec

from assay.core.types import ASK, Call, End, Record, Response
from assay.journal import sidecar
from assay.journal.index import RunIndex
from assay.journal.journal import Journal


class Head(msgspec.Struct):
    """A sidecar needs one."""


def test_a_saved_column_is_loaded_as_a_copy_that_can_grow_or_as_a_view(tmp_path: Path) -> None:
    offsets = array("q", [3, -1, 1 << 40])
    sidecar.save(tmp_path / "saved.bin", Head(), [bytearray(b"abc"), offsets, array("i"), array("d", [0.5])])
    for fill in (sidecar.copy_column, sidecar.map_column):
        loaded = sidecar.load(tmp_path / "saved.bin", Head)
        assert loaded is not None
        codes, content, nothing, values = loaded[1]
        assert (bytes(codes), values.cast("d").tolist()) == (b"abc", [0.5])
        assert list(fill(array("q"), content)) == list(offsets)
        assert list(fill(array("i"), nothing)) == []
    copy = sidecar.copy_column(array("q"), content)
    copy.append(7)
    copy[0] = 4
    assert list(copy) == [4, -1, 1 << 40, 7]


def test_a_large_run_continues_with_the_index_that_its_lines_have(tmp_path: Path) -> None:
    """Cases end in another order than they began, and some of them after the next start."""
    draw = random.Random(1)
    half = sidecar.MIN_LINES * 3 // 4  # with their calls, enough lines for a sidecar
    cases = list(range(2 * half + 100))
    for begin in range(0, len(cases), 50):
        part = cases[begin : begin + 200]
        draw.shuffle(part)
        cases[begin : begin + 200] = part
    late, first, second = cases[:30], cases[30 : half + 30], cases[half + 30 :]
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
    for index in (0, half - 1, half, 2 * half, *late):
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
