"""The columns of a run agree with its journal, however it was written and however often they were extended."""

from __future__ import annotations

import random
import shutil
from math import isnan
from pathlib import Path
from typing import Any, Literal

import pytest

from assay.core.events import on_read
from assay.core.types import ASK, Call, End, Failure, Record, Response, Score, ScoreStatus, Usage
from assay.journal import lines
from assay.journal.columns import INVALID, SCORED, UNKNOWN_TOKENS, RunColumns, score_part_digest
from assay.journal.index import RunIndex
from assay.journal.journal import Journal
from assay.journal.reader import RunReader
from assay.journal.run_files import FILES

from support.runs import Made, passed

OLD, NEW, JUDGE = "task@1", "task@2", "judge@1"
Parts = Literal["none", "filters", "rows"]

# What scorers write about repeats and votes that agree, and about those that do not.
FLAKY: list[dict[str, Any]] = [
    {"repeats": [0.0, 1.0]},
    {"repeats": {"metric": "f1", "n": 3, "right": 2, "votes": "111"}, "votes": [["a", 3]]},
    {"votes": [["a", 2], ["b", 1]]},
    {"votes": [["right", 2], ["wrong", 1]], "stable": False},
]
REPEATS: list[dict[str, Any]] = [
    *FLAKY,
    {"repeats": [0.5, 0.5], "gold": "x"},
    {"repeats": {"metric": "f1", "n": 3, "right": 0}, "votes": [["a", 2], ["b", 1]]},
    {"votes": [["a", 3]]},
    {"votes": [["right", 3]], "stable": True},
]


class Writer:
    """Writes a journal in a random order: retries, new scorings, and lines of tries that never ended."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        folder.mkdir()
        for name in FILES:
            (folder / name).touch()
        self.draw = random.Random(seed)
        self.tries: dict[int, int] = {}
        self.costs: dict[int, float] = {}

    def write(self, steps: int) -> None:
        """Open the run, write some cases and scores, and close it."""
        journal = Journal(self.folder, [OLD, NEW, JUDGE], [])
        for _ in range(steps):
            index = self.draw.randrange(25)
            head = (
                index,
                f"{index:016x}" if index % 3 else f"key {index}",
                f"set{index % 2}",
                f"m{index % 3}",
            )
            if index not in self.tries or self.draw.random() < 0.2:
                self.tries[index] = self.tries.get(index, 0) + 1
                self._end_case(journal, head)
            elif self.draw.random() < 0.1:
                # A start that is killed here leaves these lines without an end.
                journal.write_records([Record(*head, 9, "answer", f"q{index}", "lost")])
            else:
                self._score(journal, head, self.draw.choice([OLD, NEW, JUDGE]))
        journal.close()

    def _end_case(self, journal: Journal, head: tuple[int, str, str, str]) -> None:
        failure = self.draw.choice([None, None, None, Failure("refusal", "no"), Failure("timeout", "slow")])
        usage = Usage(self.draw.randrange(100), 3) if self.draw.random() < 0.7 else None
        number = self.tries[head[0]]
        cost = self.draw.choice([None, 0.0, 0.25, 0.5])
        if cost is not None:
            self.costs[head[0]] = self.costs.get(head[0], 0.0) + cost
        journal.call(Call(*head, ASK, number, "hash", 0, None, Response("text", cost=cost)))
        journal.call(Call(*head, JUDGE, number, "hash", 0, None, Response("text", cost=9.0)))
        status = failure.status if failure else "ok"
        tags = tuple(self.draw.sample(["a", "b", "category:2"], self.draw.randrange(3)))
        end = End(*head, ASK, number, status, [], failure, usage, 2, 0.5 * number, "label", tags)
        records = [Record(*head, number, "answer", f"q{part}", part) for part in range(self.draw.randrange(3))]
        if records and self.draw.random() < 0.5:
            end.lines.extend(journal.write_records(records[:1])[0])
            records = records[1:]
        journal.end_case(end, records)

    def _score(self, journal: Journal, head: tuple[int, str, str, str], scorer: str) -> None:
        scores = []
        for part in range(self.draw.randrange(4)):
            status: ScoreStatus = self.draw.choice(["scored", "scored", "invalid"])
            scores.append(
                Score(
                    *head,
                    scorer,
                    self.draw.choice(["right", "f1"]),
                    f"q{part}",
                    vote=self.draw.randrange(2),
                    status=status,
                    value=self.draw.random() if status == "scored" else None,
                    data=self.draw.choice([None, "text", {"gold": "x"}, {"other": [1]}, *REPEATS]),
                    tags=("part", f"category:{part}"),
                    interim=self.draw.random() < 0.2,
                )
            )
        journal.end_scoring(End(*head, scorer, self.tries[head[0]], "ok", []), scores)


def check(columns: RunColumns, folder: Path, parts: Parts) -> None:
    """Compare every column with what the reader of single cases returns."""
    reader = RunReader(folder, RunIndex.of_run(folder, verify=True))
    assert not columns.damage
    ended = [index for index, code in enumerate(columns.ask.codes) if code]
    for index in ended:
        end = reader.end(index)
        assert end is not None
        usage = end.usage or Usage(UNKNOWN_TOKENS, UNKNOWN_TOKENS)
        assert columns.sets.name(index) == end.set
        assert columns.subjects.name(index) == end.subject
        assert columns.tags.name(index) == end.tags
        assert columns.failures.name(index) == (end.failure.kind if end.failure else "")
        numbers = columns.seconds[index], columns.input[index], columns.calls_made[index]
        assert numbers == (end.seconds, usage.input, end.calls)
    for scorers in ([OLD], [NEW, JUDGE], []):
        expected = []
        for index in range(len(columns.ask.codes)):
            for scorer in scorers:
                for score in reader.scores(index, scorer):
                    name = (score.scorer, score.metric, score.part if parts == "filters" else "")
                    digest = score_part_digest(parts, score.vote, score.part)
                    state = SCORED if score.status == "scored" else INVALID
                    gold = isinstance(score.data, dict) and "gold" in score.data
                    repeats = (score.data in REPEATS, score.data in FLAKY)
                    expected.append((index, name, digest, score.value, state, gold, score.interim, *repeats))
        arrays = columns.scores(scorers)
        found = [
            (
                int(case),
                columns.score_names.names[name],
                int(part),
                None if state == INVALID else float(value),
                int(state),
                bool(gold),
                *map(bool, marks),
            )
            for _, case, name, part, value, state, gold, *marks in zip(*arrays, strict=True)
        ]
        assert sorted(found, key=repr) == sorted(expected, key=repr)
    reader.close()


@pytest.mark.parametrize("parts", ["none", "filters", "rows"])
@pytest.mark.parametrize("seed", range(8))
def test_columns_agree_with_the_journal_while_it_grows(
    tmp_path: Path, seed: int, parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    if seed % 2:
        # Blocks of a few lines, so that many commits are in two of them.
        monkeypatch.setattr(lines, "BLOCK_BYTES", 500)
    folder = tmp_path / "run"
    writer = Writer(folder, seed)
    growing = RunColumns(parts)
    for _ in range(4):
        writer.write(40)
        growing.extend(folder)
        check(growing, folder, parts)
        check(RunColumns.open(folder, parts), folder, parts)
        growing.save(folder)
        loaded = RunColumns(parts)
        assert loaded._load(folder)
        check(loaded, folder, parts)
        costs = loaded.case_costs()
        assert costs is not None
        # A price of 0 is a price. A case without a price is not among them: not measured is never 0.
        assert {index: cost for index, cost in enumerate(costs) if not isnan(cost)} == writer.costs


def test_a_commit_that_is_half_written_is_read_when_it_is_complete(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    writer = Writer(folder, 3)
    writer.write(200)
    whole = (folder / "scores.jsonl").read_bytes()
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    columns = RunColumns("rows")
    # Cuts in the middle of a commit and in the middle of a line, as a reader of a live run sees them.
    for cut in (*range(0, len(whole), 997), len(whole)):
        (copy / "scores.jsonl").write_bytes(whole[:cut])
        columns.extend(copy)
    check(columns, folder, "rows")


def test_a_reader_is_told_how_much_of_the_journal_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "BLOCK_BYTES", 500)
    folder = tmp_path / "run"
    Writer(folder, 3).write(200)
    told: list[tuple[Path, float]] = []
    token = on_read.set(lambda run, share: told.append((run, share)))
    RunColumns.open(folder, "none")
    on_read.reset(token)
    shares = [share for _, share in told]
    assert {run for run, _ in told} == {folder}
    assert len(shares) > 10
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_columns_of_other_parts_or_of_another_journal_are_not_loaded(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    Writer(folder, 5).write(60)
    columns = RunColumns.open(folder, "rows")
    columns.save(folder)
    assert not RunColumns("filters")._load(folder)
    scores = (folder / "scores.jsonl").read_bytes()
    (folder / "scores.jsonl").write_bytes(scores[: scores.rfind(b"\n", 0, -1) + 1])
    assert not RunColumns("rows")._load(folder)
    check(RunColumns.open(folder, "rows"), folder, "rows")


def test_offsets_of_rows_lead_to_their_lines(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    Writer(folder, 7).write(150)
    columns = RunColumns.open(folder, "rows")
    scores = columns.scores([OLD])
    raw = (folder / "scores.jsonl").read_bytes()
    assert len(scores.position)
    for position, case in zip(scores.position.tolist(), scores.case.tolist(), strict=True):
        line = raw[columns.score_offset[position] :]
        assert line.startswith(b'{"type":"score","index":%d,' % case)
        assert columns.tags.names[columns.score_tags[position]][0] == "part"


def test_mapped_columns_have_the_same_values_and_only_for_a_journal_that_they_cover(tmp_path: Path) -> None:
    """A server keeps large runs open as views of their sidecars."""
    made = Made(tmp_path / "run")
    for number in range(5):
        made.case(f"c{number}", [passed(number % 2)], seconds=float(number), tags=("t", str(number)))
    folder = made.finish()
    assert RunColumns.open_mapped(folder, "none") is None  # there is no sidecar yet
    columns = RunColumns.open(folder, "none")
    columns.save(folder)
    mapped = RunColumns.open_mapped(folder, "none")
    assert mapped is not None
    for own, other in zip(columns._arrays(), mapped._arrays(), strict=True):
        assert list(own) == list(other)
    mapped.release_pages()
    scores, same = columns.scores([made.scorer]), mapped.scores([made.scorer])
    assert all((one == two).all() for one, two in zip(scores, same, strict=True))
    assert mapped.tags.name(3) == ("t", "3")
    with (folder / "scores.jsonl").open("ab") as file:
        file.write(b"{}\n")
    assert RunColumns.open_mapped(folder, "none") is None
