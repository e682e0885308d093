"""Rows that stand in a file more than once, or nearly so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from assay.suites.hop.rows import read_rows

from support.hop_rows import META, errors, file, read, row, warnings


def test_equal_rows_are_one(tmp_path: Path) -> None:
    """The output of several profiles has each row several times; ids, keys and digests are those of the input."""
    plain = file(tmp_path, row(1, expected_answer="a"), row(2))
    whole, keys = read_rows(plain), [one.key for one in read(plain)]
    results = [
        {**each, "hop_result": "{}", "hop_stats": {}, "profile": profile}
        for profile in "abc"
        for each in (row(1, expected_answer="a"), row(2))
    ]
    path = file(tmp_path, META, META, META, *results)
    again = read_rows(path)
    assert len(again.rows) == 2
    assert (again.keys_sha256, again.gold_sha256) == (whole.keys_sha256, whole.gold_sha256)
    assert again.skipped["repeated rows"] == [6, 7, 8, 9]
    assert [one.key for one in read(path)] == keys
    assert [one.line for one in read(path)] == [4, 5]


def test_equal_rows_are_one_wherever_they_stand(tmp_path: Path) -> None:
    """A row keeps its place whatever is repeated between rows."""
    path = file(tmp_path, row(1), row(1), META, row(2), row(1), row(3), row(2))
    assert [(one.id, one.line) for one in read(path)] == [(1, 1), (2, 4), (3, 6)]


def test_one_id_with_different_inputs_is_refused(tmp_path: Path) -> None:
    """Both lines are named, and a row after an equal one is not blamed."""
    path = file(tmp_path, row(1), row(2), row(1), row(2, "other"), row(3), row("3"))
    assert errors(path) == [
        "4 $.id: line 2 has the same id '2' with other inputs",
        "6 $.id: line 5 has the same id, written as 3; write both the same way",
    ]


def test_a_line_number_that_is_anothers_id_is_explained(tmp_path: Path) -> None:
    (found,) = errors(file(tmp_path, {"tag": "t", "q": 1}, {"id": 1, "tag": "t", "q": 2}))
    assert "line 1 has the same id '1' with other inputs; a row without an id uses its line number" in found


def test_equal_rows_with_other_expectations_are_told(tmp_path: Path) -> None:
    """The first one counts."""
    path = file(tmp_path, row(1, expected_answer="a"), row(2), row(2), row(1, expected_answer="b"))
    assert warnings(path) == [
        "4 $.id: an earlier line has the same row with other expected values; the earlier ones count",
        "3: 2 rows equal to others were left out: lines 3, 4",
    ]
    assert [one.expected for one in read(path)] == [{"answer": "a"}, {}]


def test_digests_tell_what_is_asked_from_what_is_expected(tmp_path: Path) -> None:
    """Tags, descriptions and the order of keys change neither."""

    def digests(*rows: dict[str, Any]) -> tuple[str, str]:
        whole = read_rows(file(tmp_path, *rows))
        return whole.keys_sha256, whole.gold_sha256

    asked, gold = digests(row(1, expected_answer="a"), row(2))
    assert digests({"question": "?", "expected_answer": "a", "tag": "u", "id": 1}, row(2, description="d")) == (
        asked,
        gold,
    )
    assert digests(row(1, expected_answer="b"), row(2))[0] == asked
    assert digests(row(1, expected_answer="b"), row(2))[1] != gold
    for other in (
        (row(1, "x", expected_answer="a"), row(2)),
        (row(9, expected_answer="a"), row(2)),
        (row(2), row(1, expected_answer="a")),
    ):
        assert digests(*other)[0] != asked


def test_large_files_collapse_as_small_ones_do(tmp_path: Path) -> None:
    path = file(tmp_path, *(row(n % 30_000) for n in range(60_000)))
    whole = read_rows(path)
    assert len(whole.rows) == 30_000
    assert len(whole.skipped["repeated rows"]) == 30_000
    assert [one.id for one in whole.rows[29_998:]] == [29_998, 29_999]
