from __future__ import annotations

from pathlib import Path

import pytest

from assay.core.errors import InputError, Problem
from assay.files import jsonl


def test_bom_crlf_blank_lines_and_a_missing_last_end_are_fine(tmp_path: Path) -> None:
    """Rows keep the number of their line, however the file is written."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}\r\n\r\n  {"a": "\xc3\xa9"}\n{"a": 3}')
    assert [(row.number, row.value["a"]) for row in jsonl.rows(path)] == [(1, 1), (3, "é"), (4, 3)]


def test_every_problem_is_collected_with_its_line(tmp_path: Path) -> None:
    """NaN, non-objects, broken JSON and broken UTF-8 are problems; good lines around them are still read."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a": NaN}\n[1]\n{"a": 1}\n{"a"\n"x"\n{"a": "\xff"}\nnull\n{"a": Infinity}\n')
    problems: list[Problem] = []
    assert [row.number for row in jsonl.rows(path, problems)] == [3]
    assert [problem.where.rpartition(":")[2] for problem in problems] == ["1", "2", "4", "5", "6", "7", "8"]
    assert "expected an object, found a list" in problems[1].message


def test_without_a_list_the_first_problem_raises(tmp_path: Path) -> None:
    """Who does not collect problems does not miss them."""
    path = tmp_path / "a.jsonl"
    path.write_text("[]\n")
    with pytest.raises(InputError, match="a.jsonl:1: expected an object"):
        list(jsonl.rows(path))
