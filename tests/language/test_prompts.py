"""Prompt files: parts, places, fingerprints, and the prompts that assay comes with."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

import assay
from assay.core.errors import InputError
from assay.language.prompts import fill, prompt_version, read_parts

OWN = sorted(Path(assay.__path__[0]).rglob("*.v[0-9].txt"))


def written(folder: Path, text: str) -> Path:
    path = folder / "ask.v1.txt"
    path.write_text(text, "utf-8")
    return path


def test_parts_come_in_order_without_trailing_line_breaks(tmp_path: Path) -> None:
    """White space in front, and a line that only looks like a heading, belong to the part."""
    path = written(tmp_path, "note\n=== user ===\n\n {text} \n\n=== system ===\na === b ===\nc\n")
    assert list(read_parts(path).items()) == [("user", "\n {text} "), ("system", "a === b ===\nc")]


def test_values_that_look_like_placeholders_are_not_filled() -> None:
    """A value may look like a place, and JSON in a prompt is no place."""
    known = {"text": "{question}", "question": "why"}
    assert fill('{text} {question} {other} {"a": 1} {}', known) == '{question} why {other} {"a": 1} {}'


def test_an_invalid_prompt_file_is_refused_with_its_name(tmp_path: Path) -> None:
    """Missing, without parts, or without a place that is needed."""
    path = tmp_path / "ask.v1.txt"
    with pytest.raises(InputError, match=r"ask.v1.txt.*there is no such file"):
        read_parts(path)
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        read_parts(tmp_path)
    written(tmp_path, "{text}\n")
    with pytest.raises(InputError, match="parts such as `=== user ===`"):
        read_parts(path, "text")
    written(tmp_path, "=== user ===\n{text}\n")
    with pytest.raises(InputError, match="with {text} and {question} in them"):
        read_parts(path, "text", "question")
    assert read_parts(path, "text") == {"user": "{text}"}


def test_a_fingerprint_is_the_version_and_the_hash_of_all_files(tmp_path: Path) -> None:
    """Their order and their borders count."""
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("a")
    two.write_text("b")
    assert prompt_version("v1", one, two) == "v1@" + hashlib.sha256(b"a\0b").hexdigest()
    assert prompt_version("v1", one) != prompt_version("v2", one) != prompt_version("v1", two)


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_every_prompt_of_assay_has_parts_that_say_something(path: Path) -> None:
    assert all(part.strip() for part in read_parts(path).values())
