"""Memories as people name them: settings of one memory, several of one file, repeats."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.core.errors import UsageError
from assay.suites.memory.settings import find_settings, split_settings

TWO = """
from assay.core.memory import AboutMemory

ABOUT = AboutMemory(summary="two in one file", options={"x": 1, "path": ""})

class A:
    def __init__(self, context):
        pass

class B(A):
    pass
"""


@pytest.fixture
def two(tmp_path: Path) -> str:
    (tmp_path / "two.py").write_text(TWO)
    return f"{tmp_path}/two.py"


@pytest.mark.parametrize(
    ("texts", "settings"),
    [
        (["bm25,STMemory"], ["bm25", "STMemory"]),
        (["bm25,k=5", "bm25,k=10"], ["bm25,k=5", "bm25,k=10"]),
        (["bm25,k1=2,b=0.5,STMemory,k=3"], ["bm25,k1=2,b=0.5", "STMemory,k=3"]),
        (["a.py:A,x=1", "a.py:B"], ["a.py:A,x=1", "a.py:B"]),
        (["bm25", " bm25 ", "bm25,k=5,"], ["bm25", "bm25,k=5"]),
        (["a.py:A,words=['x,y','z']"], ["a.py:A,words=['x,y','z']"]),
    ],
)
def test_a_part_with_an_equals_sign_belongs_to_the_memory_before_it(texts: list[str], settings: list[str]) -> None:
    assert split_settings(texts) == settings


def test_an_option_without_a_memory_is_refused() -> None:
    with pytest.raises(UsageError, match="'k=5' is an option of no memory: write NAME,k=5"):
        split_settings(["k=5,bm25"])


def test_settings_of_one_memory_have_names_of_their_own() -> None:
    found = find_settings(["bm25", "bm25,k=5", "bm25,b=0.5"], {"b": 0.9}, "--memory")
    assert {name: (each.k, each.options["b"]) for name, each in found.items()} == {
        "bm25": (0, 0.9),
        "bm25,k=5": (5, 0.9),
        "bm25,b=0.5": (0, 0.5),
    }


def test_two_memories_of_one_file_are_told_apart(two: str) -> None:
    """A single memory of a file has the file's name, as a run of an earlier day."""
    assert list(find_settings([f"{two}:A", f"{two}:B,x=2"], {}, "--memory")) == ["two.A", "two.B,x=2"]
    assert list(find_settings([f"{two}:B"], {}, "--memory")) == ["two"]


def test_a_name_can_be_the_name_of_a_folder(two: str) -> None:
    (name,) = find_settings([f"{two}:A,path='a/b c'"], {}, "--memory")
    assert name == "two,path=_a_b_c_"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bm25,k=0", "--memory bm25,k=0: k is the number of items to retrieve, from 1 up, not 0"),
        ("bm25,k=many", "k is the number of items to retrieve, from 1 up, not 'many'"),
        ("bm25,k2=1", "there is no 'k2', only k1, b, date. Every memory also has k, the number of items"),
        ("bm25,k=1,b=0.5,k=2", "--memory bm25,k=1,b=0.5,k=2: k is given twice"),
        ("bm25,b=x", "--memory bm25,b=x: options of the memory: b is of type float, not 'x'"),
    ],
)
def test_a_wrong_option_is_named_with_its_memory(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        find_settings([text], {}, "--memory")


def test_repeats_of_memories_that_cannot_differ_are_refused() -> None:
    with pytest.raises(UsageError, match="--repeats has no effect: none of these memories calls a model"):
        find_settings(["bm25", "STMemory"], {}, "--memory", repeats=2)


def test_only_memories_that_may_differ_are_repeated(two: str) -> None:
    """A memory that calls no model is the same each time."""
    found = find_settings(["bm25", "GAMemory", f"{two}:A"], {}, "--memory", repeats=2)
    assert {name: (each.group, each.repeat) for name, each in found.items()} == {
        "bm25": ("bm25", 1),
        "GAMemory#1": ("GAMemory", 1),
        "GAMemory#2": ("GAMemory", 2),
        "two#1": ("two", 1),
        "two#2": ("two", 2),
    }
