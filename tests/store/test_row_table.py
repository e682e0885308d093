"""Rows of a run: filtered, sorted and read by page, whichever suite wrote them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest

from assay.core.errors import UsageError
from assay.core.report import Entry, Metric, Report
from assay.core.types import ASK, Call, End, Failure, Record, Request, Response, Score, Status, Usage
from assay.journal.journal import Journal
from assay.journal.run_files import FILES, RunInfo, Summary, write_info, write_summary
from assay.journal.spending import CallCounts
from assay.store.row_table import RowTable
from assay.store.search import search

SCORER = "suite@1"


class Writer:
    """Writes a run case by case."""

    def __init__(self, folder: Path, parts: Literal["none", "filters", "rows"]) -> None:
        self.folder, self.parts = folder, parts
        folder.mkdir()
        for name in FILES:
            (folder / name).touch()
        self.journal = Journal(folder, [SCORER], [])
        self.count = 0

    def case(
        self,
        key: str,
        scores: list[Score],
        records: list[Record],
        *,
        reply: str = "",
        try_: int = 1,
        **end: Any,
    ) -> None:
        """Write a case that ended. `scores` and `records` lack their case."""
        head = (self.count, key, "set", end.pop("subject", "m"))
        request = Request(model="m", prompt=f"Was ist {key}?")
        self.journal.call(Call(*head, ASK, try_, "hash", 0, request, Response(reply)))
        failure = end.pop("failure", None)
        status: Status = failure.status if failure else "ok"
        self.journal.end_case(
            End(*head, ASK, try_, status, [], failure, **end),
            [Record(*head, try_, each.kind, each.part, each.data) for each in records],
        )
        if scores:
            placed = [Score(*head, SCORER, *list(_fields(each))) for each in scores]
            self.journal.end_scoring(End(*head, SCORER, try_, "ok", []), placed)
        self.count += 1

    def finish(self) -> Path:
        """Write run.json and summary.json, and return the folder."""
        self.journal.close()
        spec = {"model": "m"}
        info = RunInfo(
            suite="made",
            ask="a",
            started=1.0,
            version="0",
            total=self.count,
            command=[],
            spec=spec,
            parts={},
            facts={},
            score_parts=self.parts,
        )
        write_info(self.folder, info)
        metrics = [Metric(name="errors", value=0.5, denominator=2, higher_is_better=False)]
        summary = Summary(
            state="finished",
            score="s",
            scorers=[SCORER],
            total=self.count,
            ok=self.count,
            subject_error=0,
            infra_error=0,
            exit_code=0,
            seconds=1.0,
            spent=CallCounts(),
            this_start={},
            files=[],
            report=Report(entries=[Entry(name="m", metrics=metrics)]),
        )
        write_summary(self.folder, summary)
        return self.folder


def _fields(score: Score) -> list[Any]:
    names = Score.__struct_fields__[Score.__struct_fields__.index("metric") : -1]
    return [getattr(score, name) for name in names]


def score(metric: str, value: float | None, part: str = "", **fields: Any) -> Score:
    return Score(-1, "", "", "", SCORER, metric, part, value=value, **fields)


def record(part: str, data: Any) -> Record:
    return Record(-1, "", "", "", 1, "answer", part, data)


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    """A run whose rows are its cases."""
    writer = Writer(tmp_path / "cases", "filters")
    right = [score("right", 1.0, "strict"), score("errors", 0.0, "strict"), score("right", 1.0, "loose")]
    writer.case("a", right, [record("", "ÉCOLE")], reply="une École", seconds=3.0, tags=("easy",), usage=Usage(9, 1))
    writer.case("b", [score("right", 0.0, "strict"), score("right", 0.5, "loose")], [record("", "x")], seconds=1.0)
    writer.case("c", [], [], failure=Failure("refusal", "no"), seconds=2.0, tags=("easy", "new"))
    writer.case(
        "d",
        [score("right", None, "strict", status="invalid")],
        [record("", "北京")],
        subject="n",
        seconds=9.0,
    )
    return writer.finish()


def names(table: RowTable, positions: Any) -> list[str]:
    return [row.end.case + row.part for row in table.read(positions)]


def test_rows_are_selected_by_failure_tag_subject_and_time(cases: Path) -> None:
    table = RowTable(cases)
    assert names(table, table.select()) == ["a", "b", "c", "d"]
    # A zero of a metric that is better when lower is no failure.
    assert names(table, table.select(failed=True)) == ["b", "c", "d"]
    assert names(table, table.select(tag="easy")) == ["a", "c"]
    assert names(table, table.select(tag="easy", failed=True)) == ["c"]
    assert names(table, table.select(subject="n")) == ["d"]
    assert names(table, table.select(slower_than=1.5)) == ["a", "c", "d"]
    assert names(table, table.select(status="subject_error")) == ["c"]
    with pytest.raises(UsageError, match="easy"):
        table.select(tag="esy")


def test_rows_without_a_value_are_sorted_last_in_both_directions(cases: Path) -> None:
    table = RowTable(cases)
    assert names(table, table.sort(table.select(), "right,loose")) == ["b", "a", "c", "d"]
    assert names(table, table.sort(table.select(), "right,loose", descending=True)) == ["a", "b", "c", "d"]
    assert names(table, table.sort(table.select(), "seconds")) == ["b", "c", "a", "d"]
    assert names(table, table.sort(table.select(), "input")) == ["a", "b", "c", "d"]
    with pytest.raises(UsageError, match="seconds"):
        table.sort(table.select(), "secnds")


def test_a_row_has_its_texts_and_scores(cases: Path) -> None:
    (row,) = RowTable(cases).read(RowTable(cases).select()[:1])
    assert row.records[0].data == "ÉCOLE"
    assert [(each.metric, each.part, each.value) for each in row.scores] == [
        ("right", "strict", 1.0),
        ("errors", "strict", 0.0),
        ("right", "loose", 1.0),
    ]


def test_parts_are_rows_with_their_own_texts_tags_and_scores(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "parts", "rows")
    scores = [
        score("f1", 0.0, "q1", label="first", tags=("category:1",)),
        score("f1", 1.0, "q2", label="second", tags=("category:2",)),
        score("judged", 1.0, "q1"),
        score("f1", 0.0, "q3", interim=True),
    ]
    writer.case("talk", scores, [record("q1", "one"), record("q2", "two")])
    writer.case("lost", [], [], failure=Failure("timeout", "slow"))
    writer.case("talk2", [score("f1", 1.0, "q1", tags=("category:1",))], [record("q1", "other")])
    table = RowTable(writer.finish())
    rows = table.read(table.select())
    assert [(row.end.case, row.part, row.label) for row in rows] == [
        ("talk", "q1", "first"),
        ("talk", "q2", "second"),
        ("talk", "q3", ""),
        ("lost", "", ""),
        ("talk2", "q1", ""),
    ]
    assert [[each.data for each in row.records] for row in rows] == [["one"], ["two"], [], [], ["other"]]
    assert [[each.metric for each in row.scores] for row in rows] == [
        ["f1", "judged"],
        ["f1"],
        ["f1"],
        [],
        ["f1"],
    ]
    assert names(table, table.select(tag="category:1")) == ["talkq1", "talk2q1"]
    # The question q3 was asked again later, so its zero counts nowhere.
    assert names(table, table.select(failed=True)) == ["talkq1", "lost"]


def test_search_finds_texts_in_any_script_and_case(cases: Path) -> None:
    shares: list[float] = []
    assert [(hit.case, hit.place) for hit in search(cases, "école", progress=shares.append)] == [
        (0, "reply"),
        (0, "record"),
    ]
    assert shares[-1] == 1.0
    assert [(hit.case, hit.excerpt) for hit in search(cases, "北京")] == [(3, "北京")]
    assert [hit.case for hit in search(cases, "WAS IST", ["prompt"])] == [0, 1, 2, 3]
    assert list(search(cases, "nowhere")) == []


def test_search_does_not_find_keys_and_names_of_a_line(cases: Path) -> None:
    assert list(search(cases, "hash")) == []
    with pytest.raises(UsageError, match="reply"):
        list(search(cases, "x", ["replies"]))
    with pytest.raises(UsageError, match="empty"):
        list(search(cases, " "))


def test_search_does_not_show_texts_of_changed_lines(cases: Path) -> None:
    path = cases / "calls.jsonl"
    path.write_bytes(path.read_bytes().replace("une École".encode(), "die École".encode()))
    assert [(hit.case, hit.place) for hit in search(cases, "école")] == [(0, "record")]
