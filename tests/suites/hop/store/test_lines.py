"""The short way for clean lines reads what the rules read, and no line can spoil another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from assay.suites.hop.store.tables import ResultBlock, line_at, read_blocks

from support.hop_result_lines import ERROR, ERRORS, NO_RESULTS, OK, OPENED, TEXT, flat

SHAPES = [
    *(case[0] for case in OPENED.values()),
    *(case[0] for case in ERRORS.values()),
    *NO_RESULTS.values(),
    flat("no JSON"),
    flat('{"a": 1,}'),
    flat(TEXT, profile="a"),
    flat(None, ERROR, profile="a"),
    {"input": {"id": 2, "tag": "x", "input": {"a": 1}, "result": "{}"}, "result": TEXT, "profile": "b"},
    {"input": {"id": "x", "tag": None}, "error": "e" * 5000},
    {"input": {"id": 2, "input": {"id": 5}, "result": "{}"}, "error": "e"},
    flat(TEXT, _type="meta"),
    flat(None, ERROR, _type="meta"),
    flat(TEXT, type="run_end", run_id=1),
    flat(None, ERROR, type="run_end", run_id=1),
]


def read(path: Path, lines: list[bytes], key: str | None = None) -> tuple[list[Any], list[ResultBlock]]:
    """Every result of a file of these lines, in their order."""
    path.write_bytes(b"\n".join(lines) + b"\n")
    blocks = list(read_blocks(path, key))
    return results(blocks), blocks


def results(blocks: list[ResultBlock]) -> list[Any]:
    """Each row with its fields, and what else there is to say of it."""
    odd = {one.start: one[1:] for block in blocks for one in block.odd}
    rows = sorted((row for block in blocks for row in zip(*block.rows, strict=True)), key=lambda row: row[0])
    return [(*row[:4], json.loads(row[4] or "{}"), odd.get(row[0])) for row in rows]


def by_rules(lines: list[bytes], key: str | None = None) -> list[Any]:
    block, start = ResultBlock(), 0
    for line in lines:
        block.add_line(start, line, key)
        start += len(line) + 1
    return results([block])


@pytest.mark.parametrize("key", [None, "score"])
def test_all_shapes_side_by_side_are_read_by_the_rules(tmp_path: Path, key: str | None) -> None:
    """Each alone and all in one file: the short way and the rules agree."""
    lines = [json.dumps(rec).encode() for rec in SHAPES]
    assert read(tmp_path / "all.jsonl", lines, key)[0] == by_rules(lines, key)
    for line in lines:
        assert read(tmp_path / "one.jsonl", [line], key)[0] == by_rules([line], key)


@pytest.mark.parametrize("said", [{"result": TEXT}, {"error": "late"}])
def test_what_a_wrapper_says_of_its_row_wins(tmp_path: Path, said: dict[str, Any]) -> None:
    """An id or a tag beside `input`; null says nothing."""
    inner = {"input": {"id": 1, "tag": "a"}, **said}
    recs = [{**inner, "id": 2}, {**inner, "tag": "b"}, {**inner, "id": None}, {**inner, "id": 0, "tag": ""}]
    lines = [json.dumps(rec).encode() for rec in recs]
    rows = read(tmp_path / "f.jsonl", lines)[0]
    assert rows == by_rules(lines)
    assert [row[1:3] for row in rows] == [(2, "a"), (1, "b"), (1, "a"), (0, "")]


ANY = st.sampled_from([None, "", "e", 5, {}, {"a": 1}, [], TEXT, "no JSON", ["FAIL", TEXT], "{", True, OK, ERROR])
NAMES = (
    "id",
    "tag",
    "input",
    "result",
    "error",
    "hop_result",
    "hop_stats",
    "profile",
    "type",
    "run_id",
    "_type",
)


@given(st.lists(st.dictionaries(st.sampled_from(NAMES), ANY), max_size=4))
def test_any_mixture_of_keys_is_read_by_the_rules(
    tmp_path_factory: pytest.TempPathFactory, recs: list[dict[str, Any]]
) -> None:
    lines = [json.dumps(rec).encode() for rec in recs]
    assert read(tmp_path_factory.getbasetemp() / "any.jsonl", lines)[0] == by_rules(lines)


def test_a_bad_line_costs_that_line_only(tmp_path: Path) -> None:
    """Torn, of another type, not UTF-8, two values: each is counted; blank lines, CRLF and a BOM are fine."""
    good = json.dumps(flat(TEXT)).encode()
    bad = [good[:-9], b"[1]", b'"text"', b"\xff\xfe", good + b" " + good, b"nul", b'{"id": ' + b"[" * 50_000]
    lines = [b"\xef\xbb\xbf" + good, b"", b"  ", *bad, good + b"\r"]
    rows, blocks = read(tmp_path / "f.jsonl", lines)
    assert len(rows) == 2
    assert sum(block.bad for block in blocks) == len(bad)


def test_what_only_python_writes_is_read(tmp_path: Path) -> None:
    """NaN in a line and half a surrogate pair do not lose the result."""
    lines = [
        b'{"id": 1, "x": NaN, "hop_result": "{\\"score\\": 2}", "hop_stats": {"status": "OK"}}',
        b'{"id": "\\ud800", "hop_result": "{\\"label\\": \\"a\\"}", "hop_stats": {"status": "OK"}}',
    ]
    assert [row[4] for row in read(tmp_path / "f.jsonl", lines)[0]] == [{"score": 2}, {"label": "a"}]


def test_a_line_is_found_again(tmp_path: Path) -> None:
    path = tmp_path / "f.jsonl"
    rows, _ = read(path, [b"\xef\xbb\xbf" + json.dumps(flat(TEXT)).encode(), b"", json.dumps(flat("{}")).encode()])
    assert [dict(line_at(path, row[0]))["hop_result"] for row in rows] == [TEXT, "{}"]
    with pytest.raises(ValueError, match="Expecting|no object|Extra"):
        line_at(path, 10)


def test_blocks_join_at_any_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a block ends changes nothing."""
    lines = [json.dumps(rec).encode() for rec in SHAPES]
    monkeypatch.setattr("assay.suites.hop.store.tables._READ_BYTES", 2)
    monkeypatch.setattr("assay.suites.hop.store.tables._BLOCK_BYTES", 300)
    rows, blocks = read(tmp_path / "all.jsonl", lines)
    assert rows == by_rules(lines)
    assert len(blocks) > 5


@pytest.mark.parametrize(
    "rec",
    [
        {"id": "outer", "tag": "t", "input": {"id": 1, "tag": "x"}, "result": TEXT},
        {"id": "outer", "input": {"id": 1}, "error": "e"},
        {"input": {"id": 1}, "result": TEXT, "error": ""},
        flat(None, {"status": "ERROR", "error": ""}),
        flat(None, {"status": "OK", "error": "e"}),
        flat(TEXT, {"status": "OK", "error": "e"}, input={"id": 5}, error="e"),
        flat('{"a": {"result": "{}"}}'),
        flat('{"r\\u0065sult": "{\\"a\\": 1}"}'),
    ],
)
def test_what_stands_beside_a_result_is_read_by_the_rules(tmp_path: Path, rec: dict[str, Any]) -> None:
    """Names on a wrapper win, an empty error is none, and only a `result` on top is one more wrapper."""
    lines = [json.dumps(rec).encode()]
    assert read(tmp_path / "f.jsonl", lines)[0] == by_rules(lines)


def test_without_names_all_else_is_the_same(tmp_path: Path) -> None:
    """Ids and tags are not looked at where nobody sorts by them, however odd they are."""
    lines = [json.dumps(rec).encode() for rec in SHAPES]
    rows, _ = read(tmp_path / "all.jsonl", lines)
    nameless = results(list(read_blocks(tmp_path / "all.jsonl", with_names=False)))
    assert [(row[0], *row[3:]) for row in nameless] == [(row[0], *row[3:]) for row in rows]


def test_files_of_both_wrappers_in_turns_are_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever shape most lines before had, the next ones may have the other."""
    monkeypatch.setattr("assay.suites.hop.store.tables._READ_BYTES", 200)
    wrapped = {"input": {"id": 1, "tag": "t"}, "result": TEXT}
    lines = [json.dumps(rec).encode() for rec in ([flat(TEXT)] * 9 + [wrapped] * 9 + [flat(None, ERROR)]) * 3]
    assert read(tmp_path / "f.jsonl", lines)[0] == by_rules(lines)
