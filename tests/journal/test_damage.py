"""A journal that was changed is never believed: it stops with the place of the damage."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import InputError
from assay.core.types import ASK, Call, End, Failure, Record, Request, Response, Score, Usage
from assay.journal import lines
from assay.journal.journal import Journal

SCORER = "task@1"
CASES = 3
BYTES = b'\xff"\n0{x-.e'
NAMES = ["calls", "records", "scores"]


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
        step.lines.extend(journal.write_records([Record(*key, 1, "step", "a", data={"text": f"ö{index}"})]))
        journal.end_case(step, [Record(*key, 1, "answer", data=[[f"ä{index}"]])])
        journal.end_scoring(end(index, SCORER), [Score(*key, SCORER, "exact_match", "first", value=1.0)])
    journal.close()
    return tmp_path


def read(folder: Path) -> list[tuple[Any, ...]]:
    """Everything a run would read of each case."""
    journal = Journal(folder, [SCORER], [])
    try:
        reader = journal.reader
        return [
            (
                reader.end(index),
                reader.records(index),
                reader.scores(index, SCORER),
                journal.replies(index, ASK, 0),
            )
            for index in range(CASES)
        ]
    finally:
        journal.close()


def refused(folder: Path, path: Path, number: int, offset: int, what: str) -> str:
    """The message with which the journal refuses to open; it names file, line and byte."""
    before = path.read_bytes()
    with pytest.raises(InputError) as error:
        read(folder)
    message = str(error.value)
    assert message.startswith(f"{path}:{number}: the line at byte {offset} "), message
    assert what in message
    assert f"`truncate -s {offset} {path}`" in message
    assert "--fresh" in message
    assert path.read_bytes() == before, "what is damaged is not touched"
    return message


@pytest.mark.parametrize("name", NAMES)
def test_every_changed_byte_is_found(folder: Path, name: str) -> None:
    """Whatever byte changes, the line is named. A last line without its end is one that a kill has torn."""
    path = folder / f"{name}.jsonl"
    whole, intact = path.read_bytes(), read(folder)
    header = whole.index(b"\n") + 1
    for place in range(header, len(whole) - 1):
        byte = BYTES[place % len(BYTES) : place % len(BYTES) + 1]
        if byte == whole[place : place + 1]:
            byte = b"#"
        path.write_bytes(whole[:place] + byte + whole[place + 1 :])
        number = whole.count(b"\n", 0, place) + 1
        refused(folder, path, number, whole.rfind(b"\n", 0, place) + 1, "")
    path.write_bytes(whole)
    assert read(folder) == intact


def test_a_changed_value_that_still_parses_is_found(folder: Path) -> None:
    """One digit of a score: the line is good JSON, and its checksum does not match."""
    path = folder / "scores.jsonl"
    whole = path.read_bytes()
    place = whole.index(b'"value":1.0', whole.index(b"key1")) + len(b'"value":')
    path.write_bytes(whole[:place] + b"0" + whole[place + 1 :])
    line = whole.rfind(b"\n", 0, place) + 1
    refused(folder, path, 3, line, "was changed after it was written: its checksum does not match")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("order", "number", "what"),
    [
        ([0, 1, 2, 2, 3], 4, "has the number 3: lines were repeated, moved or removed"),
        ([0, 2, 1, 3], 2, "has the number 3: lines were repeated, moved or removed"),
        ([0, 1, 3], 3, "has the number 4: lines were repeated, moved or removed"),
        ([0, 3], 2, "has the number 4: lines were repeated, moved or removed"),
    ],
    ids=["doubled", "swapped", "removed", "two removed"],
)
def test_lines_in_another_order_are_found(
    folder: Path, name: str, order: list[int], number: int, what: str
) -> None:
    """Each line is whole, and its number or its neighbour is not that of its place."""
    path = folder / f"{name}.jsonl"
    whole = path.read_bytes().splitlines(keepends=True)
    moved = [whole[at] for at in order] + (whole[4:] if order[-1] == 3 else [])
    path.write_bytes(b"".join(moved))
    refused(folder, path, number, sum(map(len, moved[: number - 1])), what)


def test_a_line_of_another_run_is_found(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """It has the right number, and its checksum continues another file."""
    other = tmp_path_factory.mktemp("other")
    journal = Journal(other, [SCORER], [])
    journal.end_case(end(0, ASK), [Record(0, "key9", "set", "model", 1, "answer")])
    journal.end_case(end(1, ASK), [Record(1, "key8", "set", "model", 1, "answer")])
    journal.close()
    path = folder / "records.jsonl"
    whole = path.read_bytes().splitlines(keepends=True)
    foreign = (other / "records.jsonl").read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*whole[:2], foreign[2], *whole[3:]]))
    refused(folder, path, 3, len(whole[0] + whole[1]), "was changed after it was written")


@pytest.mark.parametrize("name", NAMES)
def test_a_file_that_ends_early_at_a_line_is_an_interrupted_run(folder: Path, name: str) -> None:
    """Lines that are not there have not happened. The others count, and the file grows from its end."""
    path = folder / f"{name}.jsonl"
    whole = path.read_bytes()
    last = whole.rindex(b"\n", 0, -1) + 1
    path.write_bytes(whole[:last])
    journal = Journal(folder, [SCORER], [])
    asked = [journal.solved(index, retry_failed=False) for index in range(CASES)]
    assert asked == [True, True, name != "records"]
    scored = [bool(journal.index.stages[SCORER].code(index)) for index in range(CASES)]
    assert scored == [True, True, name == "calls"]
    journal.end_case(end(2, ASK), [])
    journal.close()
    read(folder)


@pytest.mark.parametrize("name", NAMES)
def test_dropping_the_damaged_line_and_all_after_it_makes_the_journal_whole(folder: Path, name: str) -> None:
    """What the message advises works."""
    path = folder / f"{name}.jsonl"
    whole = path.read_bytes()
    place = whole.index(b"key1")
    path.write_bytes(whole[:place] + b"KEY1" + whole[place + 4 :])
    with pytest.raises(InputError) as error:
        read(folder)
    advice = re.search(r"truncate -s (\d+)", str(error.value))
    assert advice
    path.write_bytes(path.read_bytes()[: int(advice[1])])
    assert read(folder)[0][:3] is not None


def test_damage_is_found_in_every_block(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are verified in blocks: the checksum goes on from one to the next."""
    monkeypatch.setattr(lines, "BLOCK_BYTES", 100)
    assert len(read(folder)) == CASES
    path = folder / "records.jsonl"
    whole = path.read_bytes()
    content = whole.splitlines(keepends=True)
    for number in range(2, len(content) + 1):
        begin = sum(map(len, content[: number - 1]))
        path.write_bytes(whole[:begin] + whole[begin:].replace(b'"index"', b'"xndex"', 1))
        refused(folder, path, number, begin, "was changed")
