from __future__ import annotations

from pathlib import Path

import pytest

from assay.core.errors import InputError, Problem
from assay.files.read import (
    BY_PEOPLE,
    BY_PROGRAMS,
    ENDS_EARLY,
    Bounds,
    BrokenJson,
    decode,
    json_lines,
    line_at,
    object_lines,
)


def test_bom_crlf_blank_lines_and_a_missing_last_end_are_fine(tmp_path: Path) -> None:
    """Rows keep the number of their line, however the file is written."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}\r\n\r\n  {"a": "\xc3\xa9"}\n{"a": 3}')
    assert [(row.number, row.value["a"]) for row in object_lines(path)] == [(1, 1), (3, "é"), (4, 3)]


def test_every_problem_is_collected_with_its_line(tmp_path: Path) -> None:
    """NaN, non-objects, broken JSON and broken UTF-8 are problems; good lines around them are still read."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a": NaN}\n[1]\n{"a": 1}\n{"a"\n"x"\n{"a": "\xff"}\nnull\n{"a": Infinity}\n')
    problems: list[Problem] = []
    assert [row.number for row in object_lines(path, problems)] == [3]
    assert [problem.where.rpartition(":")[2] for problem in problems] == ["1", "2", "4", "5", "6", "7", "8"]
    assert "expected an object, found a list" in problems[1].message


def test_without_a_list_the_first_problem_raises(tmp_path: Path) -> None:
    """Who does not collect problems does not miss them."""
    path = tmp_path / "a.jsonl"
    path.write_text("[]\n")
    with pytest.raises(InputError, match="a.jsonl:1: expected an object"):
        list(object_lines(path))


@pytest.mark.parametrize(
    ("raw", "reason", "line"),
    [
        (b'{"a": x}', "is not JSON: invalid character in column 7", 1),
        (b'{"a":\n"\xc3\xa9", oh}', "is not JSON: object keys must be strings in line 2, column 6", 2),
        (b'{"a": 1}\n} ', "is not JSON: trailing characters in line 2, column 1", 2),
        (b'{"a"', ENDS_EARLY, 0),
        (b'{"a": 1e999}', "is not JSON: Number out of range", 0),
        (b'{"a":\n"\xe4"}', "not UTF-8: byte 0xe4 on line 2, perhaps GBK", 2),
        (b"\xff\xfe{\x00}\x00", "this is UTF-16; save the file as UTF-8", 1),
        (b"\x1f\x8b\x08\x00", "expected JSON in UTF-8, found gzip", 0),
        (b" \n", "is empty", 0),
    ],
)
@pytest.mark.parametrize("bounds", [BY_PEOPLE, BY_PROGRAMS])
def test_broken_json_has_its_reason_and_its_place(raw: bytes, reason: str, line: int, bounds: Bounds) -> None:
    with pytest.raises(BrokenJson) as caught:
        decode(raw, bounds)
    assert caught.value.reason.startswith(reason)
    assert caught.value.line == line


def test_what_python_writes_beside_json_is_read_of_programs_only() -> None:
    raw = b'{"a": [NaN, -Infinity], "b": "\\ud83d"}'
    assert str(decode(raw, BY_PROGRAMS)) == "{'a': [nan, -inf], 'b': '?'}"
    with pytest.raises(BrokenJson, match="NaN is not JSON; write null or leave it out"):
        decode(raw)
    with pytest.raises(BrokenJson, match=r"half of a surrogate pair \(.ud83d\)"):
        decode(b'{"b": "\\ud83d"}')


def test_a_fault_behind_a_nan_is_told_with_its_own_place() -> None:
    """NaN is none in a file of a program."""
    with pytest.raises(BrokenJson, match="expecting ':' delimiter in line 2, column 11"):
        decode(b'{"a":\n NaN, "b" }', BY_PROGRAMS)


@pytest.mark.parametrize("bounds", [BY_PEOPLE, BY_PROGRAMS])
def test_a_line_is_read_again_at_its_offset(tmp_path: Path, bounds: Bounds) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'\xef\xbb\xbf {"a": 1} \r\n\n{"a": 2}')
    with path.open("rb") as file:
        assert [(line.offset, line_at(file, line.offset)) for line in json_lines(path, bounds)] == [
            (0, b'{"a": 1}'),
            (16, b'{"a": 2}'),
        ]


def test_utf16_is_refused_whoever_wrote_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes('{"a": 1}\n'.encode("utf-16"))
    for bounds in (BY_PEOPLE, BY_PROGRAMS):
        with pytest.raises(InputError, match="a.jsonl:1: this is UTF-16; save the file as UTF-8"):
            list(json_lines(path, bounds))


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    for bounds in (BY_PEOPLE, BY_PROGRAMS):
        with pytest.raises(InputError, match=r"no\.jsonl: there is no such file"):
            list(json_lines(tmp_path / "no.jsonl", bounds))
        with pytest.raises(InputError, match="cannot be read"):
            list(json_lines(tmp_path, bounds))
