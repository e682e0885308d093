"""A testset that is written loads to equal cases."""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import given, settings, strategies as st

from assay.suites.pipeline import TestCase, TestsetLoader
from assay.suites.pipeline.testset.loader import convert_testset, write_v2
from assay.suites.pipeline.testset.scan import check_testset
from assay.suites.pipeline.testset.validation import FIELDS

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
NAMES = st.one_of(
    st.sampled_from(["text", "tag", "description", "metadata", "expected", "expected_x", "a:b", "//", "{"]),
    TEXT,
)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), TEXT)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=5,
)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=3)
OPTIONAL: dict[str, st.SearchStrategy[Any]] = {
    "tags": st.lists(TEXT, max_size=2),
    "inputs": OBJECTS,
    "step_inputs": st.dictionaries(NAMES, OBJECTS, max_size=2),
    "batch_items": st.none() | st.lists(OBJECTS, max_size=3),
    "expected_outputs": OBJECTS,
    "expected_aggregation": VALUES,
    "intermediate_expectations": OBJECTS,
    "evaluation_config": st.fixed_dictionaries({}, optional={"tolerance": st.floats(0, 9), "own": VALUES}),
    "parameters": st.dictionaries(NAMES, st.lists(st.integers(), min_size=1, max_size=2, unique=True), max_size=2),
    "conditions": st.just("lang == 'en'"),
    "performance_baseline": st.just({"max_seconds": 2, "steps": {"s": {"max_tokens": 5}}}),
    "depends_on": st.just([]),
    "description": VALUES,
    "metadata": VALUES,
    "tag": TEXT | st.integers(),
    "expected": VALUES,
    "expected_output": VALUES,
    "expected_mood": VALUES,
    "custom": VALUES,
    "inputs_": VALUES,
}
IDS = st.integers() | st.text("abc_-1é", min_size=1, max_size=5)
RECORDS = st.fixed_dictionaries({"id": IDS}, optional=OPTIONAL)
encode = msgspec.json.Encoder(order="sorted").encode
PROPERTIES = ("parameters", "depends_on", "conditions", "performance_baseline", "reference")


def loaded(content: bytes) -> TestCase:
    """The one case of a file with this content; no errors in it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a_b.jsonl"
        path.write_bytes(content)
        (case,) = TestsetLoader.load_testset(path)
    return case


def same(one: TestCase, two: TestCase) -> None:
    """Equal in every field and property, and in the types of their values."""
    assert one == two
    for name in (*FIELDS, *PROPERTIES):
        assert encode(getattr(one, name)) == encode(getattr(two, name)), name


def scribbled(record: dict[str, Any], seed: int) -> bytes:
    """Return the record in an arbitrary layout: indentation, comments, either line end."""
    stream = random.Random(seed)
    text = json.dumps(record, indent=stream.choice([None, 0, 1, 4, "\t"]), ensure_ascii=stream.random() < 0.5)
    lines = text.split("\n")
    for _ in range(stream.randrange(3)):
        lines.insert(stream.randrange(len(lines) + 1), stream.choice(["// {", '  // "', "", "\t//]"]))
    end = stream.choice(["\n", "\r\n"])
    return (stream.choice(["", "\ufeff"]) + end.join(lines) + stream.choice(["", end])).encode()


@settings(max_examples=5 * settings().max_examples)
@given(RECORDS, st.booleans())
def test_what_is_written_loads_to_the_same_case(record: dict[str, Any], declared: bool) -> None:
    """All fields and properties, from v1 and v2 records, whatever the pipeline declares."""
    case = TestCase.from_dict(record, frozenset({"description", "metadata", "tag"} if declared else ()))
    out = case.to_dict()
    same(loaded(msgspec.json.encode(out)), case)
    assert msgspec.json.encode(TestCase.from_dict(out).to_dict()) == msgspec.json.encode(out)


@settings(max_examples=5 * settings().max_examples)
@given(RECORDS, st.integers(0, 2**32))
def test_layout_does_not_matter(record: dict[str, Any], seed: int) -> None:
    """Pretty-printed with comments, CRLF and a BOM, it is the same case."""
    same(loaded(scribbled(record, seed)), TestCase.from_dict(json.loads(json.dumps(record))))


@settings(max_examples=2 * settings().max_examples)
@given(
    st.lists(RECORDS, min_size=1, max_size=5, unique_by=lambda record: str(record["id"])),
    st.integers(0, 2**32),
)
def test_a_file_of_mixed_layouts_loads_all_its_cases(records: list[dict[str, Any]], seed: int) -> None:
    """And so does the file that is written from them."""
    stream = random.Random(seed)
    pieces = [scribbled(record, stream.randrange(2**32)).removeprefix(b"\xef\xbb\xbf") for record in records]
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder) / "a_b.jsonl", Path(folder) / "c_d.jsonl"
        path.write_bytes(b"\n".join(pieces))
        cases = TestsetLoader.load_testset(path)
        write_v2(cases, out)
        again = TestsetLoader.load_testset(out)
        assert len(out.read_bytes().splitlines()) == len(records)
    assert [case.key for case in cases] == [str(record["id"]) for record in records]
    for one, two in zip(cases, again, strict=True):
        same(one, two)


def test_custom_keys_stay_where_they_were_in_v2(tmp_path: Path) -> None:
    """In a v1 record they are inputs and move to `inputs`; annotations stay at the top level in both."""
    path = tmp_path / "a_b.jsonl"
    path.write_text(
        '{"own": 1, "id": 1, "inputs": {"x": 2}, "metadata": {}, "expected_output": 3}\n'
        '{"id": "b", "own": 1, "description": "d", "tag": "t", "expected_mood": "good", "expected": "r"}\n'
    )
    moved = '"inputs":{"own":1},"expected_outputs":{"mood":"good"}'
    assert convert_testset(path).decode().splitlines() == [
        '{"own":1,"id":1,"inputs":{"x":2},"metadata":{},"expected_outputs":{"output":3}}',
        f'{{"id":"b","tags":["t"],"description":"d","expected":"r",{moved}}}',
    ]


def test_a_changed_case_is_written_with_its_changes(tmp_path: Path) -> None:
    """Fields win over the original record."""
    case = TestCase.from_dict({"id": "a", "own": 1, "other": 2, "step_inputs": {"s": {}}})
    case.inputs = {"own": 5}
    case.tags = ["new"]
    assert TestCase.from_dict(case.to_dict()) == case
    assert TestCase.from_dict(TestCase("b", inputs={"x": 1}).to_dict()) == TestCase("b", inputs={"x": 1})


def test_converting_a_file_with_errors_writes_nothing(tmp_path: Path) -> None:
    """A converted file has no problems."""
    path, out = tmp_path / "a_b.jsonl", tmp_path / "c_d.jsonl"
    path.write_text('{"id": 1, "tags": "t", "x": 1, "x": 2}')
    assert convert_testset(path, out) == b""
    assert check_testset(out) == []
    assert [item.name for item in sorted(tmp_path.iterdir())] == ["a_b.jsonl", "c_d.jsonl"]


def test_missing_folders_are_created(tmp_path: Path) -> None:
    """As in the example of the command."""
    source = tmp_path / "a_basic.jsonl"
    source.write_text('{"id": 1, "text": "x"}\n')
    assert convert_testset(source, tmp_path / "testsets" / "a_basic_v2.jsonl") == b""
    assert (tmp_path / "testsets" / "a_basic_v2.jsonl").read_text() == '{"id":1,"inputs":{"text":"x"}}\n'
