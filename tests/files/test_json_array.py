"""JSON arrays are read element by element, whatever the pieces of the file, and errors are those of a whole read."""

from __future__ import annotations

import io
import json
import random
from typing import Any

import msgspec
import pytest

from assay.files.json_array import BrokenArray, JsonArray


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
    ],
)
@pytest.mark.parametrize("piece", [1, 1 << 16])
def test_errors_are_those_of_a_whole_read(text: str, piece: int) -> None:
    """The reason and the byte are those that msgspec tells of the whole file. The line is that of the byte."""
    with pytest.raises(msgspec.DecodeError) as whole:
        msgspec.json.decode(text, type=list[msgspec.Raw])
    with pytest.raises(BrokenArray) as caught:
        elements(text, piece)
    assert caught.value.reason == f"not JSON: {str(whole.value).removeprefix('JSON is malformed: ')}"
    assert caught.value.line in (0, 1 + text.count("\n"))


def test_elements_before_an_error_are_read() -> None:
    array = JsonArray(io.BytesIO(b'[{"a": 1}, {"b": }]')).elements()
    assert next(array) == b'{"a": 1}'
    with pytest.raises(BrokenArray, match="invalid character"):
        next(array)


def test_text_after_the_array_is_refused() -> None:
    with pytest.raises(BrokenArray, match=r"trailing characters \(byte 4\)"):
        elements("[1] 2")


def test_an_element_without_end_is_refused_before_it_fills_the_memory() -> None:
    """A missing quote would otherwise make the rest of a large file one text."""
    endless = io.BytesIO(b'["' + b"x" * 10_000)
    with pytest.raises(BrokenArray, match="longer than 100 bytes; is a bracket or a quote missing"):
        list(JsonArray(endless, longest=100, piece=10).elements())
    assert endless.tell() < 1_000


def test_only_a_piece_of_the_file_is_read_before_the_first_element() -> None:
    file = io.BytesIO(b"[" + b",".join([b'{"a": "' + b"x" * 100 + b'"}'] * 1_000) + b"]")
    assert len(next(JsonArray(file, piece=256).elements())) == 109
    assert file.tell() <= 512
