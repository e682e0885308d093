"""Damage to a journal costs the cases it touches, and never the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assay.core.types import ASK, Call, Case, End, Failure, Record, Request, Response, Score, Usage
from assay.journal.journal import Journal

SCORER = "task@1"
CASES = 3
BYTES = b'\xff"\n0{x-.e'


def case(index: int) -> Case:
    """A case; its key differs from its place."""
    return Case(index, f"key{index}", "set", "model", str(index), None)


def end(index: int, stage: str) -> End:
    """How it ended; the last one badly."""
    failed = index == CASES - 1 and stage == ASK
    failure = Failure("refusal", "I will not", "here") if failed else None
    status: Any = failure.status if failure else "ok"
    return End(index, f"key{index}", "set", "model", stage, 1, status, [], failure, Usage(7, 5), 1, 0.25)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A journal in which every case has ended, with two records and a score each."""
    journal = Journal(tmp_path, [SCORER], [])
    for index in range(CASES):
        key = (index, f"key{index}", "set", "model")
        request = Request(model="m", prompt=f"é{index}")
        journal.call(Call(*key, ASK, 1, "hash", 0, request, Response(f"ü{index}", "stop", Usage(7, 5))))
        step = end(index, ASK)
        step.lines.extend(journal.written([Record(*key, 1, "step", "a", data={"text": f"ö{index}"})]))
        journal.end(step, [Record(*key, 1, "answer", data=[[f"ä{index}"]])])
        journal.scored(end(index, SCORER), [Score(*key, SCORER, "exact_match", "first", value=1.0)])
    journal.close()
    return tmp_path


def read(folder: Path, stages: list[str]) -> list[tuple[Any, ...]]:
    """Everything a run would read of each case; raises if opening called a case whole that cannot be read."""
    journal = Journal(folder, stages, [])
    try:
        reader = journal.reader
        return [
            (reader.end(at), reader.records(at), reader.scores(at, SCORER), journal.replies(at, ASK, 0))
            for at in range(CASES)
        ]
    finally:
        journal.close()


@pytest.mark.parametrize("name", ["calls", "records", "scores"])
def test_one_damaged_byte_costs_at_most_its_neighbours(folder: Path, name: str) -> None:
    """Whatever byte changes, the journal opens, and cases whose lines are not touched read as before."""
    path = folder / f"{name}.jsonl"
    whole, intact = path.read_bytes(), read(folder, [SCORER])
    touched = lines_of(whole)
    for at in range(whole.index(b"key1"), len(whole), 2):
        path.write_bytes(whole[:at] + BYTES[at % len(BYTES) : at % len(BYTES) + 1] + whole[at + 1 :])
        found = read(folder, [SCORER])
        for index in range(CASES):
            if index not in touched[at]:
                assert found[index][:3] == intact[index][:3], f"byte {at} is not of case {index}"


def lines_of(data: bytes) -> dict[int, set[int]]:
    """For each byte the cases whose line it belongs to, or, at a line's end, separates."""
    owners: dict[int, set[int]] = {}
    offset, previous = 0, -1
    for line in data.splitlines(keepends=True):
        found = line.find(b'"index":')
        index = int(line[found + 8 : found + 9]) if found >= 0 else previous
        for at in range(len(line)):
            owners[offset + at] = {index, index + 1} if at == len(line) - 1 else {index}
        offset += len(line)
        previous = index
    return owners


def test_damage_is_named(folder: Path) -> None:
    """A line that cannot be read is named with its file and place, and its case is unfinished."""
    path = folder / "records.jsonl"
    whole = path.read_bytes()
    at = whole.index("ä1".encode())
    path.write_bytes(whole[:at] + b"\xff\xff" + whole[at + 2 :])
    journal = Journal(folder, [SCORER], [])
    try:
        problem = journal.problems[0]
        assert problem.where == str(path)
        assert str(whole.rindex(b"\n", 0, at) + 1) in problem.message
        assert [journal.asked(index, retry_failed=False) for index in range(CASES)] == [True, False, True]
        assert not journal.index.stages[SCORER].code(1), "what is asked again is scored again"
    finally:
        journal.close()
