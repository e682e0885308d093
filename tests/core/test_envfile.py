"""Keys in a `.env` file: which lines say one, and how."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from assay.core.envfile import keys_in


def keys(folder: Path, text: str) -> dict[str, str]:
    (folder / ".env").write_bytes(text.encode())
    return keys_in(folder / ".env")


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("OPENAI_API_KEY=sk-1", "sk-1"),
        ("  export OPENAI_API_KEY = sk-1  ", "sk-1"),
        ("OPENAI_API_KEY='sk 1 # all'  # a comment", "sk 1 # all"),
        (r'OPENAI_API_KEY="a \"b\" \\ c"', r'a "b" \ c'),
        ("OPENAI_API_KEY=sk-1 # a comment", "sk-1"),
        ("OPENAI_API_KEY=sk#1=2", "sk#1=2"),
        ("OPENAI_API_KEY=\ufeffsk", "\ufeffsk"),
        ("\ufeffOPENAI_API_KEY=sk-1\r", "sk-1"),
        ("OPENAI_API_KEY=one\nOPENAI_API_KEY=two", "two"),
        ("OPENAI_API_KEY=one\nOPENAI_API_KEY=", "one"),
        ("nonsense\n\n= 3\nOPENAI_API_KEY=sk-1", "sk-1"),
    ],
)
def test_ways_to_write_a_key(tmp_path: Path, line: str, value: str) -> None:
    assert keys(tmp_path, line) == {"OPENAI_API_KEY": value}


@pytest.mark.parametrize(
    "line",
    [
        "# OPENAI_API_KEY=sk-1",
        "OPENAI_API_KEY",
        "OPENAI_API_KEY=",
        "OPENAI_API_KEY= # sk-1",
        "OPENAI_API_KEY=''",
        'OPENAI_API_KEY="sk-1',
        "OPENAI_API_KEY='sk-1' more",
        "openai_api_key=sk-1",
        "OPENAI_BASE_URL=http://here",
        "PASSWORD=abc",
        "MY_HOP_KEY_X=abc",
    ],
)
def test_lines_that_say_no_key(tmp_path: Path, line: str) -> None:
    """Comments, empty and broken values, and variables of other names: nothing else of the file is read."""
    assert keys(tmp_path, line) == {}


def test_own_keys_have_one_spelling(tmp_path: Path) -> None:
    """In capitals, with `_` for `-` and `.`."""
    assert keys(tmp_path, "HOP_KEY_x-y.z=a\nhop_key_b=c") == {"HOP_KEY_X_Y_Z": "a", "HOP_KEY_B": "c"}


def test_without_a_file_there_are_none(tmp_path: Path) -> None:
    """A folder of that name, and bytes that are no text, break nothing."""
    assert keys_in("") == keys_in(tmp_path / "none") == keys_in(tmp_path) == {}
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\nOPENAI_API_KEY=sk-1")
    assert keys_in(tmp_path / "bytes") == {"OPENAI_API_KEY": "sk-1"}


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1))
def test_any_key_in_double_quotes_is_read_back(tmp_path_factory: pytest.TempPathFactory, key: str) -> None:
    quoted = key.replace("\\", "\\\\").replace('"', '\\"')
    found = keys(tmp_path_factory.getbasetemp(), f'export HOP_KEY_A="{quoted}" # "x"')
    assert found == {"HOP_KEY_A": key}
