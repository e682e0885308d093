"""Pairs of options, such as those of --model-args: `a=1,b=x`, an object of JSON, or the path of a JSON file."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import UsageError
from assay.core.spec import parse_pairs, split_pairs


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("a=1,b=x", {"a": 1, "b": "x"}),
        ('stop=["a","b"],t=0.5', {"stop": ["a", "b"], "t": 0.5}),
        ("note=it's,b='x,y'", {"note": "it's", "b": "x,y"}),
        ('{"a": [1]}', {"a": [1]}),
        ("a=['x', 'y'],b=none,c=True", {"a": ["x", "y"], "b": None, "c": True}),
        ("a=,b==", {"a": "", "b": "="}),
        ("", {}),
    ],
)
def test_values_are_json_or_python_or_text(text: str, pairs: dict[str, Any]) -> None:
    assert parse_pairs(text) == pairs


@pytest.mark.parametrize("value", ["[" * 5000, "(" * 300, "-" * 50_000 + "1", "{[]: 1}", "[\udcff", "9" * 5000])
def test_a_value_that_is_no_literal_is_text(value: str) -> None:
    """Also if Python's parser or the JSON decoder gives up on it."""
    assert parse_pairs(f"a={value}") == {"a": value}


@pytest.mark.parametrize("text", ['{"a":' * 5000, '{"\udcff": 1}', "{1}"])
def test_an_object_that_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not a JSON object"):
        parse_pairs(text)


def test_a_file_that_is_no_object_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "deep.json"
    path.write_text('{"a":' * 5000)
    with pytest.raises(UsageError, match="not a JSON object"):
        parse_pairs(str(path))


def test_a_long_text_is_split_in_linear_time() -> None:
    """Four million characters take a second. Copying the text for every character would take an hour."""
    started = time.process_time()
    assert len(split_pairs("a" * 4_000_000 + ",b=1")) == 2
    assert time.process_time() - started < 60
