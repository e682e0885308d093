"""Records of JSON files as people write them."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from assay.core.errors import InputError, Problem
from assay.files.json_objects import TORN, FileObject, JsonArray, key_line, read_objects, repeated_keys
from assay.files.read import BrokenJson, explain

PRETTY = '{\n  "id": "a",\n  "inputs": {\n    "url": "http://x//y"\n  }\n}\n'


def read(tmp_path: Path, text: str | bytes) -> tuple[list[tuple[int, Any]], list[tuple[str, str]]]:
    """(line, value) of every record, and (line, message) of every problem."""
    path = tmp_path / "a_b.jsonl"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    problems: list[Problem] = []
    found = [(record.line, record.value) for record in read_objects(path, problems)]
    return found, [(problem.where.rpartition(":")[2], problem.message) for problem in problems]


def test_compact_and_pretty_records_mix(tmp_path: Path) -> None:
    """A record begins at its line, however many it takes."""
    found, problems = read(tmp_path, '{"id": 1}\n' + PRETTY + "\n" + PRETTY.replace("a", "b", 1) + '{"id": 2}')
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
    """It is told, not removed; the record counts."""
    found, problems = read(tmp_path, '{"id": 1} // why\n{"id": 2}\n')
    assert [value["id"] for _, value in found] == [1, 2]
    assert problems == [("1", "expected an object, found '// why'")]


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
        ('{"id": 1, "x": [1,]}', "expecting value in line 2, column 19"),
        ('{"id": 1, "x": "a}', "invalid control character in line 2, column 19"),
        ('{"id": 1, "x": [1}', "expecting ',' delimiter in line 2, column 18"),
        ('{"id": 1, "x": {"a": 1}', "expecting ',' delimiter in line 3, column 1"),
        ('{"id": 1, "x": [', "expecting ',' delimiter in line 4, column 1"),
        ('{"id": 1,', "expecting property name enclosed in double quotes in line 3, column 1"),
        ('{\n  "id": 1,\n  "x": [1, 2\n}', "expecting ',' delimiter in line 5, column 1"),
        ('{"id": 1}}', "expected an object, found '}'"),
        ("[1, 2]", "found a list"),
        ('[\n{"id": 5},\n{"id": 6}\n]', "found a list"),
        ("17", "found a number"),
        ("null", "found null"),
        ("words", "found 'words'"),
        ('{\n  "id": 1,\n  "x": "a\n  b",\n  "y": 2\n}', "invalid control character in line 4, column 10"),
        ('{"id": 1, "x": "\\ud800"}', "half of a surrogate pair (\\ud800)"),
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
def test_text_between_records_is_reported(tmp_path: Path, between: str) -> None:
    """It hides none of them."""
    found, problems = read(tmp_path, f'{{"id": 1}}{between}{{"id": 2}}\n')
    assert [value["id"] for _, value in found] == [1, 2]
    assert len(problems) == 1


def test_bytes_that_are_no_text_are_told(tmp_path: Path) -> None:
    """Broken UTF-8 spoils its record only; UTF-16 is named."""
    found, problems = read(tmp_path, b'{"id": 1}\n{"id": "\xff"}\n{"id": 3}\n')
    assert [value["id"] for _, value in found] == [1, 3]
    ((line, message),) = problems
    assert line == "2"
    assert message.startswith("not UTF-8: byte 0xff on line 2, perhaps GBK, Latin-1")
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
def test_repeated_keys_are_found_exactly(tmp_path: Path, text: str, paths: list[tuple[str | int, ...]]) -> None:
    """Colons in texts and escaped ones do not deceive."""
    path = tmp_path / "a.jsonl"
    path.write_text(text)
    (record,) = read_objects(path, [])
    assert repeated_keys(record.raw, record.value) == paths


def test_a_key_has_a_line_of_its_own(tmp_path: Path) -> None:
    """Only keys of the record itself count, not equal names below it or equal texts."""
    path = tmp_path / "a.jsonl"
    path.write_text('\n{"a": {\n"tags": 1},\n"b": "tags",\n// c\n"tags": [],\n"c": 1,\n"c": 2}\n')
    (record,) = read_objects(path, [])
    assert [key_line(record, key) for key in ("a", "b", "tags", "c", "nothing")] == [2, 4, 6, 8, 2]


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    """Also a folder in place of a file."""
    with pytest.raises(InputError, match="there is no such file"):
        list(read_objects(tmp_path / "no.jsonl", []))
    with pytest.raises(InputError, match="cannot be read"):
        list(read_objects(tmp_path, []))


def test_the_hint_says_which_option_names_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such file; --labels names it"):
        list(read_objects(tmp_path / "no.jsonl", [], hint="--labels names it"))


def test_every_problem_is_collected_with_its_line(tmp_path: Path) -> None:
    """NaN, non-objects, broken JSON and broken UTF-8 are problems; good lines around them are still read."""
    text = b'{"a": NaN}\n[1]\n{"a": 1}\n{"a"\n"x"\n{"a": "\xff"}\nnull\n{"a": Infinity}\n'
    found, problems = read(tmp_path, text)
    assert [line for line, _ in found] == [3]
    assert [line for line, _ in problems] == ["1", "2", "4", "6", "7", "8"]


def test_lines_that_hold_no_object_are_told(tmp_path: Path) -> None:
    _, problems = read(tmp_path, '17\n"x"\nnull\ntrue\n')
    assert [message.rpartition("found ")[2] for _, message in problems] == [
        "a number",
        "a text",
        "null",
        "a boolean",
    ]


@pytest.mark.parametrize("cut", ['{"id": 2, "x', '{"id": 2, "x": [1', '{"id": 2,', "{"])
def test_a_torn_last_line_is_an_error_or_a_warning(tmp_path: Path, cut: str) -> None:
    """A program that writes the file right now leaves half a line. Data that people write may not have one."""
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"id": 1}}\n{cut}')
    levels: list[Literal["error", "warning"]] = ["error", "warning"]
    for level in levels:
        problems: list[Problem] = []
        assert [record.value for record in read_objects(path, problems, torn=level)] == [{"id": 1}]
        assert [(problem.where, problem.level) for problem in problems] == [(f"{path}:2", level)]
    assert problems[0].message == TORN


def test_a_broken_line_in_the_middle_is_never_torn(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": 1,\n{"id": 2}\n')
    problems: list[Problem] = []
    assert [record.value["id"] for record in read_objects(path, problems, torn="warning")] == [2]
    assert [problem.level for problem in problems] == ["error"]


def test_an_object_of_several_lines_is_never_torn(tmp_path: Path) -> None:
    """Programs write one on each line, so a person has not closed it."""
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": 1}\n{"id": 2,\n"x": [1')
    problems: list[Problem] = []
    assert [record.value["id"] for record in read_objects(path, problems, torn="warning")] == [1]
    assert [str(problem) for problem in problems] == [
        f"{path}:2: is not JSON: expecting ',' delimiter in line 3, column 8"
    ]


def test_a_json_file_holds_a_list_or_one_object(tmp_path: Path) -> None:
    """A byte order mark is no value. The place of a record is its JSON path."""
    path = tmp_path / "a.json"
    for text, places in ((b'\xef\xbb\xbf {"a": 1}', ["$"]), (b'[{}, {"b": 1}]', ["$[0]", "$[1]"])):
        path.write_bytes(text)
        records = list(read_objects(path, []))
        assert [record.where() for record in records] == [f"{path} {place}" for place in places]
        assert records[-1].where(("x", 2)) == f"{path} {places[-1]}.x[2]"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("3", " $: must be a list of things, or one as an object"),
        ("[]", ": there is no thing in it"),
        ("[{},\n oh]", ":2: is not JSON: invalid character"),
        ('[{"a": 1}, 2]', " $[1]: must be an object, not a number"),
        ('{"a": 1', ": is not JSON: Input data was truncated"),
    ],
)
def test_a_json_file_of_something_else_is_told(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    problems: list[Problem] = []
    list(read_objects(path, problems, thing="thing"))
    assert [str(problem).startswith(f"{path}{message}") for problem in problems] == [True], problems


def test_a_json_file_may_hold_objects_one_after_another(tmp_path: Path) -> None:
    """Then their places are lines, as in a .jsonl file."""
    path = tmp_path / "a.json"
    path.write_text('{"id": 1}\n{"id": 2}\n')
    assert [record.where() for record in read_objects(path, [])] == [f"{path}:1", f"{path}:2"]


def test_a_place_is_the_line_of_the_key(tmp_path: Path) -> None:
    """Keys that are no plain names stand in brackets."""
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1,\n "b c": [1]}\n')
    (record,) = read_objects(path, [])
    assert isinstance(record, FileObject)
    assert (record.where(), record.where(("b c", 0))) == (f"{path}:1", f'{path}:2 $["b c"][0]')
    problem = record.problem(("a",), "odd", "warning")
    assert problem == Problem(f"{path}:1 $.a", "odd", "warning")


def test_many_pretty_records_take_time_in_proportion(tmp_path: Path) -> None:
    """Ten thousand of them: a scan that starts again from the top would take minutes."""
    found, problems = read(tmp_path, PRETTY * 10_000)
    assert (len(found), found[-1][0], problems) == (10_000, 59_995, [])


def elements(text: str | bytes, piece: int = 3, longest: int = 1 << 20) -> list[bytes]:
    data = text.encode() if isinstance(text, str) else text
    return list(JsonArray(io.BytesIO(data), piece=piece, longest=longest).elements())


def some_value(rng: random.Random, depth: int) -> Any:
    texts = ["", "\\", 'a"b', "]}", '\\\\"', "[{", "ü 你", "x\n" * 5]
    kind = rng.randrange(6 if depth else 4)
    if kind == 4:
        return [some_value(rng, depth - 1) for _ in range(rng.randrange(4))]
    if kind == 5:
        return {rng.choice(texts): some_value(rng, depth - 1) for _ in range(rng.randrange(4))}
    return [rng.choice(texts), rng.randrange(-9, 10**9), rng.random(), rng.choice([True, False, None])][kind]


@pytest.mark.parametrize("piece", [1, 2, 7, 1 << 16])
@pytest.mark.parametrize("indent", [None, 1])
def test_elements_are_those_of_the_array(piece: int, indent: int | None) -> None:
    """A piece may end anywhere: in a text, an escape, a number or between elements."""
    rng = random.Random(5)
    for _ in range(60):
        value = [some_value(rng, 3) for _ in range(rng.randrange(6))]
        text = json.dumps(value, indent=indent, ensure_ascii=rng.random() < 0.5)
        found = [json.loads(raw) for raw in elements(f" {text}\n", piece)]
        assert found == value


@pytest.mark.parametrize(
    "text",
    [
        "[1,\n oh]",
        '[{"a": 1} {}]',
        '[{"a": 1},]',
        '[{"a": 1}',
        '[{"a": "x}, {"b": 1}]',
        '[{"a": [1}]',
        '[{"a": "x\\\\\\"',
        "[",
        "[1",
        "[1,",
        "[-]",
        "[1., 2]",
        "[1 2]",
        "[tru, 1]",
        "[true0]",
    ],
)
@pytest.mark.parametrize("piece", [1, 1 << 16])
def test_errors_are_those_of_a_whole_read(text: str, piece: int) -> None:
    """The reason, the line and the column are those of the whole file."""
    with pytest.raises(msgspec.DecodeError) as whole:
        msgspec.json.decode(text, type=list[msgspec.Raw])
    with pytest.raises(BrokenJson) as caught:
        elements(text, piece)
    # A second line, because the place of a line is told without its number.
    expected = explain(f"{text}\n".encode(), whole.value)
    assert (caught.value.reason, caught.value.line) == (expected.reason, expected.line)


@pytest.mark.parametrize("piece", [1, 1 << 16])
def test_half_of_a_surrogate_pair_is_no_element(piece: int) -> None:
    with pytest.raises(BrokenJson, match="unexpected end of hex escape in line 1, column 15"):
        elements('[{"a": "\\ud800"}, {"b": "a text that goes on"}]', piece)


def test_elements_before_an_error_are_read() -> None:
    array = JsonArray(io.BytesIO(b'[{"a": 1}, {"b": }]')).elements()
    assert next(array) == b'{"a": 1}'
    with pytest.raises(BrokenJson, match="invalid character"):
        next(array)


def test_text_after_the_array_is_refused() -> None:
    with pytest.raises(BrokenJson, match="trailing characters in line 1, column 5"):
        elements("[1] 2")


def test_an_element_without_end_is_refused_before_it_fills_the_memory() -> None:
    """A missing quote would otherwise make the rest of a large file one text."""
    endless = io.BytesIO(b'["' + b"x" * 10_000)
    with pytest.raises(BrokenJson, match="longer than 100 bytes; is a bracket or a quote missing"):
        list(JsonArray(endless, longest=100, piece=10).elements())
    assert endless.tell() < 1_000


def test_only_a_piece_of_the_file_is_read_before_the_first_element() -> None:
    file = io.BytesIO(b"[" + b",".join([b'{"a": "' + b"x" * 100 + b'"}'] * 1_000) + b"]")
    assert len(next(JsonArray(file, piece=256).elements())) == 109
    assert file.tell() <= 512
