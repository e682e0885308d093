"""Help that all memories share: what their methods give, their options, and where they are found."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import UsageError
from assay.core.memory import AboutMemory, options_of, resolve
from assay.memories import st_memory
from assay.usercode.plugins import find_memory

from support.memories import around


def test_resolve_awaits_what_is_to_be_awaited() -> None:
    """A value, a coroutine, a future: all the same."""

    async def later() -> list[int]:
        return [1]

    async def work() -> list[list[int]]:
        future: asyncio.Future[list[int]] = asyncio.get_running_loop().create_future()
        future.set_result([1])
        given: list[Awaitable[list[int]] | list[int]] = [[1], later(), future]
        return [await resolve(value) for value in given]

    assert asyncio.run(work()) == [[1], [1], [1]]


ABOUT = AboutMemory(summary="", options={"k": 5, "decay": 0.9, "keep": "tail", "original": False})


def test_options_stand_over_the_defaults() -> None:
    """A whole number will do for a number."""
    assert options_of(ABOUT, {"k": 2, "decay": 1}) == {
        "k": 2,
        "decay": 1,
        "keep": "tail",
        "original": False,
    }
    assert options_of(ABOUT, {"original": True})["original"] is True


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"top": 3}, "there is no 'top', only k, decay, keep, original"),
        ({"k": "3"}, "k is of type int, not '3'"),
        ({"k": 2.5}, "k is of type int, not 2.5"),
        ({"k": True}, "k is of type int, not True"),
        ({"decay": False}, "decay is of type float, not False"),
        ({"original": 1}, "original is of type bool, not 1"),
        ({"k": -1}, "k is a number from 0 up, not -1"),
        ({"decay": float("nan")}, "decay is a number from 0 up, not nan"),
        ({"decay": float("inf")}, "decay is a number from 0 up, not inf"),
        ({"keep": None}, "keep is of type str, not None"),
    ],
)
def test_wrong_options_are_refused_by_name(given: dict[str, Any], told: str) -> None:
    """All at once, each with what it should be."""
    with pytest.raises(UsageError, match=told):
        options_of(ABOUT, given)
    with pytest.raises(UsageError, match=f"{told}; there is no 'x'"):
        options_of(ABOUT, {**given, "x": 1})


def test_a_memory_without_options_takes_none() -> None:
    with pytest.raises(UsageError, match="there is no 'k', only none at all"):
        options_of(AboutMemory(summary=""), {"k": 1})


OWN = """\
from assay.core.memory import AboutMemory
from assay.memories.st_memory import ShortTermMemory

def make(around):
    return ShortTermMemory(1)
"""


def test_a_memory_is_found_by_name_and_by_path(tmp_path: Path) -> None:
    """Without an `ABOUT` beside it, a function of one's own is a memory that declares nothing."""
    assert find_memory("STMemory") == (st_memory.ABOUT, st_memory.make, "STMemory")
    path = tmp_path / "own.py"
    path.write_text(OWN)
    found = find_memory(f"{path}:make")
    assert (found.about.asks, found.about.options) == (False, {})
    assert list(found.make(around()).items()) == []  # type: ignore[arg-type]
    path.write_text(OWN + "\nABOUT = AboutMemory(summary='mine', asks=True)\n")
    assert find_memory(f"{path}:make").about == AboutMemory(summary="mine", asks=True)


@pytest.mark.parametrize("text", ["make = 3", "ABOUT = {}\ndef make(around): ..."])
def test_an_object_that_is_not_a_memory_is_refused(tmp_path: Path, text: str) -> None:
    """With what it would need."""
    path = tmp_path / "own.py"
    path.write_text(text)
    with pytest.raises(UsageError, match="is no memory: it needs make"):
        find_memory(f"{path}:make")
