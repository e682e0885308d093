"""Rows of a file: what is read, what is left out, what is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import InputError
from assay.suites.hop.batch_lines import view_record
from assay.suites.hop.contract import Contract, OutputField
from assay.suites.hop.rows import HopRow, HopRows, read_rows

from support.hop_rows import CONTRACT, META, OBSERVED, errors, file, read, row, warnings


def test_a_row_has_all_its_parts(tmp_path: Path) -> None:
    """Fields for the function, expectations for the scorer, the record for files; and the line."""
    given = row(5, difficulty="hard", description="d", expected_answer="x", top=3)
    (actual,) = read(file(tmp_path, "", META, given))
    assert actual == HopRow(
        5,
        "t",
        "hard",
        "d",
        {"question": "?", "top": 3},
        {"answer": "x"},
        given,
        3,
        actual.key,
        actual.gold,
    )


def test_mixed_files_are_read_right(tmp_path: Path) -> None:
    """Both wrappers, nested ones, meta and observer lines, blank lines and a torn one at the end."""
    wrapped = view_record(view_record(row(2), result="{}"), error="late")
    flat = {**row(3), "hop_result": "{}", "hop_stats": {"status": "OK"}, "profile": "a"}
    around = view_record({**flat, "id": 4}, result="{}")
    path = file(
        tmp_path,
        META,
        row(1),
        "",
        "  ",
        OBSERVED,
        wrapped,
        flat,
        around,
        view_record(META, error="x"),
        '{"id": 9, "ta',
        end="",
    )
    actual = read(path)
    assert [one.id for one in actual] == [1, 2, 3, 4]
    assert all(one.fields == {"question": "?"} for one in actual)
    assert [one.record for one in actual] == [row(1), row(2), row(3), row(4)]
    whole = read_rows(path)
    assert list(whole.skipped.values()) == [[1, 9], [5], [], []]
    assert [str(one) for one in whole.warnings] == [
        f"{path}:1: 2 meta lines describe profiles and were left out: lines 1, 9",
        f"{path}:5: 1 line has the keys of an observer's log (`type`, `run_id`) and was left out: line 5",
        f"{path}:10: the last line is incomplete and is skipped; the file was probably being written",
    ]


def test_encodings_people_have(tmp_path: Path) -> None:
    """A BOM and CRLF are fine."""
    path = tmp_path / "rows.jsonl"
    path.write_bytes("﻿".encode() + '{"id": 1, "tag": "标签", "q": "é"}\r\n{"id": 2, "tag": "t", "q": ""}'.encode())
    assert [(one.id, one.tag, one.fields) for one in read(path)] == [
        (1, "标签", {"q": "é"}),
        (2, "t", {"q": ""}),
    ]


def test_missing_ids_and_tags_are_warnings_told_once(tmp_path: Path) -> None:
    """The number of the line is the id; null is missing too. Text ids are ids."""
    path = file(tmp_path, {"q": 1}, {"id": None, "q": 2}, {"id": "x", "tag": "t", "q": 3})
    actual = read(path)
    assert [(one.id, one.tag) for one in actual] == [(1, "(untagged)"), (2, "(untagged)"), ("x", "t")]
    assert warnings(path) == [
        "1 $.id: the row has no id; its line number is used (on 2 lines)",
        "1 $.tag: the row has no tag; it counts as (untagged) (on 2 lines)",
    ]
    assert actual[0].record == {"id": 1, "q": 1}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": 1.5}, "$.id: expected a whole number or a text, found 1.5"),
        ({"id": True}, "$.id: expected a whole number or a text, found true"),
        ({"id": " "}, '$.id: expected a whole number or a text, found " "'),
        ({"tag": 3}, "$.tag: expected a text, found 3"),
        ({"tag": ["a"]}, '$.tag: expected a text, found ["a"]'),
        ({"difficulty": "hardest"}, '$.difficulty: expected one of easy, medium, hard, found "hardest"'),
        ({"difficulty": ["easy"]}, '$.difficulty: expected one of easy, medium, hard, found ["easy"]'),
        ({"difficulty": "Easy"}, '$.difficulty: expected one of easy, medium, hard, found "Easy"'),
        ({"difficulty": ""}, '$.difficulty: expected one of easy, medium, hard, found ""'),
        ({"difficulty": 1}, "$.difficulty: expected one of easy, medium, hard, found 1"),
        ({"difficulty": {}}, "$.difficulty: expected one of easy, medium, hard, found {}"),
        ({"description": {}}, "$.description: expected a text, found {}"),
        ({"description": 5}, "$.description: expected a text, found 5"),
        ({"description": ["a"]}, '$.description: expected a text, found ["a"]'),
    ],
)
def test_what_is_told_of_a_row_is_checked(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    assert errors(file(tmp_path, {**row(1), **change})) == [f"1 {message}"]


def test_null_is_as_good_as_absent(tmp_path: Path) -> None:
    (actual,) = read(file(tmp_path, row(1, difficulty=None, description=None)))
    assert (actual.difficulty, actual.description) == (None, None)


def test_the_contracts_inputs_must_be_there_with_their_types(tmp_path: Path) -> None:
    """All rows are checked, and all that is wrong is told; an optional input may be absent or null."""
    path = file(
        tmp_path,
        {"id": 1, "tag": "t"},
        row(2, top="many"),
        {**row(3), "question": None},
        row(4),
        row(5, top=None),
        row(6, top=True),
    )
    assert errors(path, CONTRACT) == [
        "1 $.question: the contract requires this input, but the row lacks it",
        '2 $.top: the contract requires int, found "many"',
        "3 $.question: the contract requires string, found null",
        "6 $.top: the contract requires int, found true",
    ]


def test_with_a_contract_the_function_gets_exactly_its_inputs(tmp_path: Path) -> None:
    """Other keys stay in the record; a name such as profile is an input if the contract says so."""
    contract = Contract(inputs={"question": "string", "profile": "string", "difficulty": "int", "tag": "array"})
    given = {
        "id": 1,
        "tag": ["x"],
        "question": "?",
        "profile": "p",
        "difficulty": 3,
        "note": "n",
        "hop_result": "{}",
    }
    (actual,) = read(file(tmp_path, given), contract)
    assert actual.fields == {"question": "?", "profile": "p", "difficulty": 3, "tag": ["x"]}
    assert (actual.tag, actual.difficulty) == ("(untagged)", None)
    assert actual.record == {key: value for key, value in given.items() if key != "hop_result"}


def test_gold_is_kept_back(tmp_path: Path) -> None:
    """`expected_*` never reaches the function; a bare `expected` and a lone `profile` do not either, with a word."""
    path = file(tmp_path, row(1, expected_answer=None, expected="x", profile="mine"))
    (actual,) = read(path)
    assert actual.fields == {"question": "?"}
    assert actual.expected == {"answer": None}
    assert [one.split(" ")[1] for one in warnings(path)] == ["$.expected:", "$.profile:"]


def test_an_expectation_without_an_output_is_told(tmp_path: Path) -> None:
    path = file(tmp_path, row(1, expected_anser="x"), row(2, expected_anser="y", expected_answer="y"))
    assert warnings(path, CONTRACT) == ["1 $.expected_anser: the contract has no such output (on 2 lines)"]


def test_an_input_of_any_type_may_be_null(tmp_path: Path) -> None:
    """If it is there; one of another type may not, unless it is optional."""
    contract = Contract(inputs={"x": "any", "y": "int", "z": "int"}, optional=frozenset({"z"}))
    assert [actual.fields for actual in read(file(tmp_path, row(1, x=None, y=1, z=None)), contract)] == [
        {"x": None, "y": 1, "z": None}
    ]
    assert errors(file(tmp_path, row(1, y=None)), contract) == [
        "1 $.x: the contract requires this input, but the row lacks it",
        "1 $.y: the contract requires int, found null",
    ]


def test_an_input_that_is_called_id(tmp_path: Path) -> None:
    """It goes to the function and into the file as it is, and where it names no row the line's number does."""
    contract = Contract(inputs={"id": "any"})
    first, second = read(file(tmp_path, {"tag": "t", "id": [1]}, {"tag": "t", "id": 7}), contract)
    assert (first.id, first.fields, first.record) == (1, {"id": [1]}, {"tag": "t", "id": [1]})
    assert (second.id, second.fields) == (7, {"id": 7})


def test_an_expectation_that_nothing_can_meet_is_told(tmp_path: Path) -> None:
    """Of another type, or in no band; null may be expected, and a boolean as a text."""
    score = OutputField(type="int", compare="bands", bands={"LOW": [1, 2], "HIGH": [4, 5]})
    sure = OutputField(type="bool", compare="bands", bands={"yes": [True], "no": [False]})
    contract = Contract(outputs={"score": score, "fine": OutputField(type="bool"), "sure": sure})
    path = file(
        tmp_path,
        row(1, expected_score=1, expected_fine="True", expected_sure="false"),
        row(2, expected_score=3, expected_fine=None),
        row(3, expected_score="4", expected_fine=1),
    )
    assert [one.partition("; ")[0] for one in warnings(path, contract)] == [
        "2 $.expected_score: the value is in no band of the contract",
        "3 $.expected_score: the contract declares int for this output, so no result can match this value",
        "3 $.expected_fine: the contract declares bool for this output, so no result can match this value",
    ]


def test_lines_that_are_no_rows_are_all_told(tmp_path: Path) -> None:
    """Lists that are no pairs, texts, NaN, a cut line in the middle, nothing to run on."""
    path = file(
        tmp_path,
        '["OK", "{}", "more"]',
        "[1]",
        '"text"',
        '{"id": NaN}',
        '{"id": 5, ',
        row(6),
        {"id": 7, "tag": "t"},
        "[" * 9999,
    )
    actual = errors(path)
    assert [one.partition(":")[0].partition(" ")[0] for one in actual] == ["1", "2", "3", "4", "5", "7", "8"]
    assert "expected an object, found a list" in actual[0]
    assert "expected an object, found a list" in actual[1]
    assert "not JSON" in actual[3]
    assert "truncated" in actual[4]
    assert "there is no input in this row" in actual[5]


def test_pairs_are_left_out_with_a_word(tmp_path: Path) -> None:
    """A pair is a result without its row; the rows beside it run, and keep their lines."""
    pairs = ['["OK", "{}"]', ["FAIL", "why"], ["UNCERTAIN", {"a": 1}], ["LACK_OF_INFO", None]]
    path = file(tmp_path, pairs[0], row(1), *pairs[1:], row(2), *pairs)
    assert [(one.id, one.line) for one in read(path)] == [(1, 2), (2, 6)]
    assert read_rows(path).skipped["bare [status, result] pairs"] == [1, 3, 4, 5, 7, 8, 9, 10]
    assert warnings(path) == [
        "1: 8 bare [status, result] pairs have no inputs to run and were left out: lines 1, 3, 4, 5, 7, 8, 9, 10"
    ]
    assert warnings(file(tmp_path, row(1), pairs[0])) == [
        "2: 1 bare [status, result] pair has no inputs to run and was left out: line 2"
    ]


def test_a_pair_in_a_wrapper_is_a_result(tmp_path: Path) -> None:
    """Beside inputs it says what came of them; a list called `input` is an input like others."""
    path = file(
        tmp_path,
        {"input": row(1), "result": ["OK", "{}"]},
        {**row(2), "hop_result": ["FAIL", "why"]},
        {"id": 3, "tag": "t", "input": ["OK", "{}"]},
    )
    assert [one.fields for one in read(path)] == [{"question": "?"}] * 2 + [{"input": ["OK", "{}"]}]
    assert warnings(path) == []


def test_nothing_but_pairs_is_refused_with_the_reason(tmp_path: Path) -> None:
    (actual,) = errors(file(tmp_path, META, ["OK", "{}"], ["FAIL", "why"]))
    assert "there is no row in this file: bare [status, result] pairs have no inputs" in actual
    assert "pass the file that the batch was run on" in actual


@pytest.mark.parametrize("lines", [[], [""], [META], [OBSERVED]])
def test_a_file_without_a_row_is_refused(tmp_path: Path, lines: list[Any]) -> None:
    path = file(tmp_path, *lines)
    with pytest.raises(InputError, match="there is no row in this file"):
        read_rows(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such file"):
        read_rows(tmp_path / "gone.jsonl")
    with pytest.raises(InputError, match="cannot be read"):
        read_rows(tmp_path)


def test_rows_can_be_skipped(tmp_path: Path) -> None:
    """A number stays that of the row."""
    path = file(tmp_path, META, *(row(n) for n in range(5)), row(0))
    rows = HopRows(read_rows(path).rows, "set", {})
    assert rows.count == 5
    assert [(one.number, one.data.id) for one in rows.iterate(lambda at: at % 2 == 0)] == [(1, 1), (3, 3)]
    assert [one.number for one in rows.iterate()] == [0, 1, 2, 3, 4]


def test_a_file_that_changes_while_it_is_run_changes_nothing(tmp_path: Path) -> None:
    """The rows are those that were checked."""
    whole = read_rows(file(tmp_path, row(1), row(2)))
    file(tmp_path, row(3))
    assert [one.id for one in whole.rows] == [1, 2]


def test_many_errors_and_warnings_stay_few(tmp_path: Path) -> None:
    path = file(tmp_path, *({"id": n, "tag": n, "q": 1} for n in range(1005)))
    actual = errors(path)
    assert len(actual) == 1001
    assert actual[-1].endswith("and 5 more errors")


@pytest.mark.parametrize("text", ["\\ud83d", "\\ud83d and more text", "a \\ude00"])
@pytest.mark.parametrize("end", ["", "\n"])
def test_half_of_a_surrogate_pair_is_refused_wherever_the_row_stands(tmp_path: Path, text: str, end: str) -> None:
    """It is not JSON that ends early, so the last row is not taken for one that is being written."""
    half = f'{{"id": 2, "tag": "t", "question": "{text}"}}'
    (last,) = errors(file(tmp_path, row(1), half, end=end))
    (between,) = errors(file(tmp_path, row(1), half, row(3), end=end))
    assert last == between
    assert re.match(r"2: a text has half of a surrogate pair \((\\ud83d|\\ude00)\), which is no character", last)


def test_a_whole_surrogate_pair_is_a_character(tmp_path: Path) -> None:
    (one,) = read(file(tmp_path, '{"id": 1, "tag": "t", "question": "\\ud83d\\ude00"}'))
    assert one.fields == {"question": "\U0001f600"}


def test_a_complete_last_line_that_ends_early_is_refused(tmp_path: Path) -> None:
    """A program that is still writing has not written the line break yet."""
    (actual,) = errors(file(tmp_path, row(1), '{"id": 2, "tag"'))
    assert actual == "2: is not JSON: Input data was truncated"


def test_every_row_that_does_not_run_is_counted_and_named(tmp_path: Path) -> None:
    rows = [row(n % 3) for n in range(6)]
    path = file(tmp_path, *rows, {"type": "step", "run_id": 1, "id": 7, "question": "?"})
    assert warnings(path) == [
        "7: 1 line has the keys of an observer's log (`type`, `run_id`) and was left out: line 7",
        "4: 3 rows equal to others were left out: lines 4, 5, 6",
    ]
    many = file(tmp_path, *(row(1) for _ in range(1300)))
    assert warnings(many) == ["2: 1,299 rows equal to others were left out: lines 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, …"]


def test_a_row_with_the_keys_of_a_log_runs_if_the_contract_has_them(tmp_path: Path) -> None:
    contract = Contract(inputs={"type": "string", "run_id": "int"})
    (one,) = read(file(tmp_path, {"id": 1, "tag": "t", "type": "step", "run_id": 3}), contract)
    assert one.fields == {"type": "step", "run_id": 3}


def test_a_field_with_the_beginning_of_a_result_key_is_an_input(tmp_path: Path) -> None:
    """Only the three keys that a batch adds are results of an earlier batch."""
    given = {**row(1), "hop_count": 3, "hop_result": "{}", "hop_stats": {}, "profile": "a"}
    (one,) = read(file(tmp_path, given))
    assert one.fields == {"question": "?", "hop_count": 3}
    assert one.record == {**row(1), "hop_count": 3}
