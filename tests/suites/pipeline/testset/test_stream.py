"""Records out of files as people write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import InputError, Problem
from assay.suites.pipeline.testset.stream import Spot, key_line, record_at, records, repeated_keys

PRETTY = '{\n  "id": "a",\n  "inputs": {\n    "url": "http://x//y"\n  }\n}\n'


def read(tmp_path: Path, text: str | bytes) -> tuple[list[tuple[int, Any]], list[tuple[str, str]]]:
    """(line, value) of every record, and (line, message) of every problem."""
    path = tmp_path / "a_b.jsonl"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    problems: list[Problem] = []
    found = [(record.line, record.value) for record in records(path, problems.append)]
    return found, [(problem.where.rpartition(":")[2], problem.message) for problem in problems]


def test_compact_and_pretty_records_mix(tmp_path: Path) -> None:
    """A record begins at its line, however many it takes."""
    found, problems = read(
        tmp_path, '{"id": 1}\n' + PRETTY + "\n" + PRETTY.replace("a", "b", 1) + '{"id": 2}'
    )
    assert [line for line, _ in found] == [1, 2, 9, 15]
    assert found[1][1]["inputs"] == {"url": "http://x//y"}
    assert problems == []


def test_several_records_stand_on_a_line(tmp_path: Path) -> None:
    """Also where one of them goes on below."""
    found, problems = read(tmp_path, '{"id": 1} {"id": 2}{"id": 3,\n"x": 1} {"id": 4}\n')
    assert [(line, value["id"]) for line, value in found] == [(1, 1), (1, 2), (1, 3), (2, 4)]
    assert problems == []


def test_comment_lines_stand_anywhere(tmp_path: Path) -> None:
    """Between and inside records; a `//` in a text or behind a value is none."""
    text = '// one\n{"id": 1,\n   // two {\n"u": "a // b"}\n\t// three\n{"id": 2}\n'
    found, problems = read(tmp_path, text)
    assert found == [(2, {"id": 1, "u": "a // b"}), (6, {"id": 2})]
    assert problems == []


def test_a_comment_behind_a_record_is_a_problem(tmp_path: Path) -> None:
    """It is said, not stripped; the record counts."""
    found, problems = read(tmp_path, '{"id": 1} // why\n{"id": 2}\n')
    assert [value["id"] for _, value in found] == [1, 2]
    assert problems == [("1", "a comment stands behind a record; give it a line of its own")]


@pytest.mark.parametrize("begin", ["", "// c\r\n", "\r\n"])
def test_bom_and_crlf_are_fine(tmp_path: Path, begin: str) -> None:
    """Before a record, a comment and a blank line."""
    text = "\ufeff" + begin + PRETTY.replace("\n", "\r\n") + '{"id": 2}\r\n'
    found, problems = read(tmp_path, text)
    assert [value["id"] for _, value in found] == ["a", 2]
    assert problems == []


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ('{"id": 1, "x": NaN}', "NaN is not JSON"),
        ('{"id": 1, "x": -Infinity}', "-Infinity is not JSON"),
        ('{"id": 1, "x": 1e999}', "out of range"),
        ('{"id": 1, "x": [1,]}', "expecting value on line 2, column 19"),
        ('{"id": 1, "x": "a}', "a text is not closed on line 2"),
        ('{"id": 1, "x": [1}', "'}' on line 2 closes nothing"),
        ('{"id": 1, "x": {"a": 1}', "it is not closed before line 3"),
        ('{"id": 1, "x": [', "it is not closed before line 4"),
        ('{"id": 1,', "it is not closed before line 3"),
        ('{\n  "id": 1,\n  "x": [1, 2\n}', "'}' on line 5 closes nothing"),
        ('{"id": 1}}', "expected an object, found '}'"),
        ("[1, 2]", "found a list"),
        ('[\n{"id": 5},\n{"id": 6}\n]', "found a list"),
        ("17", "found a number"),
        ("null", "found null"),
        ("words", "found 'words'"),
        ('{\n  "id": 1,\n  "x": "a\n  b",\n  "y": 2\n}', "a text is not closed on line 4"),
        ('{"id": 1, "x": "\\ud800"}', "half of a pair"),
        ('{"x": ' * 300 + "1" + "}" * 300, ""),
    ],
)
def test_one_fault_never_hides_another(tmp_path: Path, bad: str, message: str) -> None:
    """Whatever stands between them, the records before and after are read and the fault is told once."""
    found, problems = read(tmp_path, f'{{"id": "before"}}\n{bad}\n{{"id": "after"}}\n{{"id": "last"}}\n')
    ids = [value.get("id") for _, value in found]
    assert (ids[0], ids[-2:]) == ("before", ["after", "last"])
    assert not {5, 6} & set(ids)
    assert len(problems) == bool(message)
    for line, told in problems:
        assert line == "2"
        assert message in told


def test_indented_records_are_found_again(tmp_path: Path) -> None:
    """Reading goes on as far to the left as the broken record stood."""
    found, problems = read(tmp_path, '  {"id": 1,\n    "x": [\n  {"id": 2}\n  {"id": 3}\n{"id": 4}\n')
    assert [value["id"] for _, value in found] == [2, 3, 4]
    assert len(problems) == 1


@pytest.mark.parametrize("between", [",", ";", " x "])
def test_what_stands_between_records_is_told(tmp_path: Path, between: str) -> None:
    """It hides none of them."""
    found, problems = read(tmp_path, f'{{"id": 1}}{between}{{"id": 2}}\n')
    assert [value["id"] for _, value in found] == [1, 2]
    assert len(problems) == 1


def test_bytes_that_are_no_text_are_told(tmp_path: Path) -> None:
    """Broken UTF-8 spoils its record only; UTF-16 is named."""
    found, problems = read(tmp_path, b'{"id": 1}\n{"id": "\xff"}\n{"id": 3}\n')
    assert [value["id"] for _, value in found] == [1, 3]
    assert problems == [("2", "not UTF-8: byte 0xff on line 2")]
    assert "UTF-16" in read(tmp_path, '{"id": 1}\n'.encode("utf-16"))[1][0][1]


def test_unindented_lists_are_no_new_records(tmp_path: Path) -> None:
    """An object in the first column may be an item of a list that is still open."""
    found, problems = read(tmp_path, '{"id": 1, "batch_items": [\n{"a": 1},\n{"a": 2}\n], "x":\n{"b": 1}}\n')
    assert found == [(1, {"id": 1, "batch_items": [{"a": 1}, {"a": 2}], "x": {"b": 1}})]
    assert problems == []


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ('{"id": 1, "t": "12:30", "u": "http://a"}', []),
        ('{"id": 1, "id": 2}', [("id",)]),
        ('{"a": {"b": [{"c": 1, "c": {"d": 2}}]}}', [("a", "b", 0, "c")]),
        ('{"a": "x\\u003ay", "b": 1, "b": 2}', [("b",)]),
        ('{"a": "x\\u003ay"}', []),
        ('{"a": 1, "\\u0061": 2}', [("a",)]),
    ],
)
def test_repeated_keys_are_found_exactly(
    tmp_path: Path, text: str, paths: list[tuple[str | int, ...]]
) -> None:
    """Colons in texts and escaped ones do not deceive."""
    path = tmp_path / "a.jsonl"
    path.write_text(text)
    (record,) = records(path, lambda _: None)
    assert repeated_keys(record) == paths


def test_a_key_has_a_line_of_its_own(tmp_path: Path) -> None:
    """Only keys of the record itself count, not equal names below it or equal texts."""
    path = tmp_path / "a.jsonl"
    path.write_text('\n{"a": {\n"tags": 1},\n"b": "tags",\n// c\n"tags": [],\n"c": 1,\n"c": 2}\n')
    (record,) = records(path, lambda _: None)
    assert [key_line(record, key) for key in ("a", "b", "tags", "c", "nothing")] == [2, 4, 6, 8, 2]


def test_a_record_can_be_read_from_its_place(tmp_path: Path) -> None:
    """By offset and line; a file that has changed is refused."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + b'{"id": 1} {"id": 2,\n"x": 1}\n' + b'{"id": 3}\n')
    found = list(records(path, lambda _: None))
    for record in found:
        assert record_at(path, Spot(record.offset, record.line)) == record
    path.write_text("\n\n\n")
    with pytest.raises(InputError, match="has changed"):
        record_at(path, Spot(found[1].offset, 1))


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    """Also a folder in place of a file."""
    with pytest.raises(InputError, match="there is no such file"):
        list(records(tmp_path / "no.jsonl", lambda _: None))
    with pytest.raises(InputError, match="cannot be read"):
        list(records(tmp_path, lambda _: None))
