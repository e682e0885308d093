"""A line that was changed is never believed. It costs its case, and every other case stays."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from assay.core.errors import DamagedRun
from assay.core.types import ASK, Call, End, Failure, Record, Request, Response, Score, Usage
from assay.journal import lines
from assay.journal.earlier_result import EarlierResult
from assay.journal.index import OK, SUBJECT_ERROR, RunIndex
from assay.journal.integrity import file_problems
from assay.journal.journal import Journal
from assay.journal.merge import create_merged_run
from assay.journal.run_files import RunInfo, read_summary
from assay.store.cases import RunCases

from support.runs import run_of

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
        step.lines.extend(journal.write_records([Record(*key, 1, "step", "a", data={"text": f"ö{index}"})])[0])
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
                _without_places(reader.end(index)),
                [replace(record, end=None) for record in reader.records(index)],
                reader.scores(index, SCORER),
                journal.replies(index, ASK, 0),
            )
            for index in range(CASES)
        ]
    finally:
        journal.close()


def _without_places(end: End | None) -> End | None:
    """The offsets of lines change when a line before them is lost."""
    return end and replace(end, lines=[])


def cases_read(folder: Path) -> tuple[list[tuple[Any, ...]], list[str], list[int]]:
    """What a run reads of each case, the damage that it repaired, and the cases that it would run or score again."""
    journal = Journal(folder, [SCORER], [])
    damage = [str(line) for repair in journal.repairs for line in repair.damage]
    done = journal.done_map(CASES, retry_failed=False)
    journal.close()
    return read(folder), damage, [index for index in range(CASES) if not done[index]]


def case_of_line(path: Path, number: int) -> int:
    """The case of a line, counted from 1; the header has none."""
    return -1 if number == 1 else json.loads(path.read_bytes().splitlines()[number - 1])["index"]


@pytest.mark.parametrize("name", NAMES)
def test_a_changed_byte_costs_its_case_and_nothing_else(folder: Path, name: str) -> None:
    """Whatever byte changes, the line is named, its case is open again, and every other case is as it was."""
    path = folder / f"{name}.jsonl"
    whole, intact = path.read_bytes(), read(folder)
    for place in range(0, len(whole) - 1, 3):
        byte = BYTES[place % len(BYTES) : place % len(BYTES) + 1]
        if byte == whole[place : place + 1]:
            byte = b"#"
        path.write_bytes(whole)
        number = whole.count(b"\n", 0, place) + 1
        case = case_of_line(path, number)
        path.write_bytes(whole[:place] + byte + whole[place + 1 :])
        cases, damage, open_again = cases_read(folder)
        line_begin = whole.rfind(b"\n", 0, place) + 1
        assert damage, (place, byte)
        assert damage[0].startswith(f"{path}:{number}: the line at byte {line_begin} "), damage
        assert open_again == ([case] if case >= 0 and name != "calls" else [])
        for index in range(CASES):
            if index != case:
                assert cases[index] == intact[index]
        (kept,) = (folder / "damaged").iterdir()
        assert kept.read_bytes() == whole[:place] + byte + whole[place + 1 :], "the damaged file is kept"
        shutil.rmtree(folder / "damaged")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("order", "lost"),
    [([0, 1, 2, 2, 3], []), ([0, 2, 1, 3], []), ([0, 3, 2, 1], []), ([0, 1, 3], [2]), ([0, 3], [1, 2])],
    ids=["doubled", "swapped", "turned", "removed", "two removed"],
)
def test_lines_in_another_order_return_to_their_place(
    folder: Path, name: str, order: list[int], lost: list[int]
) -> None:
    """Each line is whole, so only lines that are gone cost their case."""
    path = folder / f"{name}.jsonl"
    intact, whole = read(folder), path.read_bytes().splitlines(keepends=True)
    lost_cases = {case_of_line(path, number + 1) for number in lost}
    path.write_bytes(b"".join([*(whole[place] for place in order), *whole[4:]]))
    cases, damage, open_again = cases_read(folder)
    assert "lines were repeated, moved or removed" in damage[0]
    assert set(open_again) == (set() if name == "calls" else lost_cases)
    for index in range(CASES):
        if index not in lost_cases:
            assert cases[index] == intact[index]


def test_a_reader_does_not_believe_an_end_whose_other_line_was_changed(folder: Path) -> None:
    """The case has no end for the reader, who repairs nothing. The other cases have theirs."""
    path = folder / "records.jsonl"
    path.write_bytes(path.read_bytes().replace("ö1".encode(), "ö7".encode(), 1))
    index = RunIndex.of_run(folder)
    assert len(index.damage) == 1
    assert [index.ask.code(case) for case in range(CASES)] == [OK, 0, SUBJECT_ERROR]


def test_a_run_without_run_json_has_the_id_of_a_file_whose_first_line_is_intact(tmp_path: Path) -> None:
    """So a changed first line of another file costs no line after it."""
    journal = Journal(tmp_path, [SCORER], [], run="5f0c")
    journal.end_case(end(0, ASK), [Record(0, "key0", "set", "model", 1, "answer")])
    journal.close()
    path = tmp_path / "records.jsonl"
    path.write_bytes(path.read_bytes().replace(b"5f0c", b"5f0d", 1))
    index = RunIndex.of_run(tmp_path)
    assert [line.number for line in index.damage.values()] == [1]
    assert index.ask.code(0) == OK


def test_shards_are_not_merged_if_an_end_names_a_line_that_its_file_does_not_have(tmp_path: Path) -> None:
    """The case would be finished in the merged run, without its answer."""
    home, shard = tmp_path / "assay", tmp_path / "shard"
    home.mkdir()
    shard.mkdir()
    journal = Journal(shard, [SCORER], [])
    journal.end_case(replace(end(0, ASK), lines=[7]))
    journal.close()
    info = RunInfo(suite="task", ask="0", started=0.0, version="", total=1, command=[], spec={}, parts={}, facts={})
    with pytest.raises(DamagedRun, match=r"belongs to a case of which another line is missing"):
        create_merged_run(home, info, [shard], [])
    assert list(home.iterdir()) == []


def test_a_line_of_another_run_is_not_believed(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Its checksum starts from the id of the other run."""
    other = tmp_path_factory.mktemp("other")
    journal = Journal(other, [SCORER], [], run="another")
    for index in range(2):
        journal.end_case(end(index, ASK), [Record(index, f"key{index}", "set", "model", 1, "answer")])
    journal.close()
    path = folder / "records.jsonl"
    whole = path.read_bytes().splitlines(keepends=True)
    foreign = (other / "records.jsonl").read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*whole[:2], foreign[2], *whole[3:]]))
    _, damage, open_again = cases_read(folder)
    assert "was changed after it was written" in damage[0]
    assert open_again == [0]


def test_a_score_of_a_lost_answer_is_not_taken_for_a_score_of_the_next(folder: Path) -> None:
    """The case runs again as its second try; the score of the first does not belong to it."""
    path = folder / "records.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole.replace("ä1".encode(), "ä7".encode(), 1))
    journal = Journal(folder, [SCORER], [])
    assert not journal.solved(1, retry_failed=False)
    assert journal.last_try(1) == 1
    again = Record(1, "key1", "set", "model", 2, "answer", data="another")
    journal.end_case(End(1, "key1", "set", "model", ASK, 2, "ok", []), [again])
    assert journal.reader.scores(1, SCORER) == []
    assert not journal.done_map(CASES, retry_failed=False)[1]
    journal.close()


def test_a_score_is_not_believed_when_all_records_and_calls_are_lost(folder: Path) -> None:
    """The run looks like a new one, but its cases run as a second try: the scores belong to answers that are lost."""
    for name in ("records", "calls"):
        (folder / f"{name}.jsonl").unlink()
    journal = Journal(folder, [SCORER], [])
    assert not journal.empty
    assert journal.last_try(0) == 1
    journal.close()


def test_a_line_that_a_sidecar_covers_is_verified_when_it_is_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sidecar promised the line. It is removed, so the next start finds the damage and repairs it."""
    monkeypatch.setattr("assay.journal.journal.MIN_LINES", 1)
    Journal(folder, [SCORER], []).close()
    path = folder / "records.jsonl"
    path.write_bytes(path.read_bytes().replace("ä1".encode(), "ä7".encode(), 1))
    assert list(folder.glob("*.bin"))
    journal = Journal(folder, [SCORER], [])
    assert not journal.repairs
    with pytest.raises(DamagedRun, match=r"records.jsonl:5: the line at byte \d+ was changed"):
        journal.reader.records(1)
    assert not list(folder.glob("*.bin"))
    _, damage, open_again = cases_read(folder)
    assert (len(damage), open_again) == (1, [1])


def test_an_end_that_was_superseded_is_not_believed_when_the_later_one_is_lost(tmp_path: Path) -> None:
    """The first try failed, the second was right and its end is damaged: the calls of the second try show it."""
    journal = Journal(tmp_path, [SCORER], [])
    key = (0, "key0", "set", "model")
    failure = Failure("refusal", "I will not")
    for number, status in ((1, "subject_error"), (2, "ok")):
        journal.call(Call(*key, ASK, number, "hash", 0, None, Response("text")))
        lost = End(*key, ASK, number, status, [], failure if number == 1 else None)  # type: ignore[arg-type]
        journal.end_case(lost, [Record(*key, number, "answer", data=f"try {number}")])
    journal.close()
    path = tmp_path / "records.jsonl"
    path.write_bytes(path.read_bytes().replace(b"try 2", b"try 8"))
    journal = Journal(tmp_path, [SCORER], [])
    assert not journal.solved(0, retry_failed=False)
    assert journal.last_try(0) == 2
    journal.close()


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
        _, damage, _ = cases_read(folder)
        assert damage[0].startswith(f"{path}:{number}: the line at byte {begin} was changed")


def test_a_line_that_is_written_while_the_file_is_read_is_not_damaged(folder: Path) -> None:
    """A reader that meets the beginning of a line ends there, although the rest of it is written a moment later."""
    path = folder / "records.jsonl"
    content = path.read_bytes()
    decoder = msgspec.json.Decoder(End | Record)
    whole = list(lines.read_lines(path, decoder))
    for missing in (1, 20, 150):
        path.write_bytes(content[:-missing])
        found = []
        for begin, _, block in lines.read_blocks(path, decoder):
            found += [(begin, line) for line in block]
            path.write_bytes(content)  # the writer goes on
        assert 0 < len(found) < len(whole)
        assert list(lines.read_lines(path, decoder)) == whole


def test_scores_after_the_present_scoring_are_no_damage_while_it_is_replaced(tmp_path: Path) -> None:
    """The start that replaces it was killed in the middle of a line. Lines that are missing are still found."""
    folder = run_of(tmp_path / "run", {"a": True})
    EarlierResult(folder).begin("another0scoring", asks_nothing=True, has_all_lines=True)
    scores = folder / "scores.jsonl"
    whole = scores.read_bytes()
    scores.write_bytes(whole + b'{"type":"score","ind')

    assert file_problems(folder, read_summary(folder)) == []
    assert [case.failed for case in RunCases(folder)] == [False]

    scores.write_bytes(whole[:-20])
    (problem,) = file_problems(folder, read_summary(folder))
    assert "lines are missing" in problem.message
