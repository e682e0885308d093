"""Ids and clocks of other packages stand still while a memory works."""

from __future__ import annotations

import asyncio
import sys
import uuid
from datetime import UTC, datetime
from types import ModuleType
from typing import Any

import pytest

from assay.core.errors import UsageError
from assay.memories.helpers.pinned import NO_DATE, PinnedSources, pin_package

DAY = datetime(2023, 5, 8, tzinfo=UTC)
CODE = """
import uuid
from uuid import uuid4
from datetime import datetime, timezone
def utc_now(): return datetime.now(timezone.utc)
def made(): return str(uuid4()), str(uuid.uuid4()), utc_now()
def derived(): return uuid.uuid5(uuid.NAMESPACE_DNS, "a").hex
"""


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A package of others."""
    module = ModuleType("of_others.inner")
    exec(CODE, vars(module))
    monkeypatch.setitem(sys.modules, "of_others", ModuleType("of_others"))
    monkeypatch.setitem(sys.modules, "of_others.inner", module)
    pin_package("of_others")
    pin_package("of_others")
    return module


def test_ids_count_and_the_clock_stands_still(package: Any) -> None:
    """In the form of random ids; ids that are made of names stay as they were."""
    pinned = PinnedSources()
    with pinned.active(DAY):
        first, second, now = package.made()
    assert [uuid.UUID(text).version for text in (first, second)] == [4, 4]
    assert [uuid.UUID(text).int & 0xFFFF for text in (first, second)] == [1, 2]
    assert now == DAY
    with pinned.active():
        third, _, now = package.made()
    assert uuid.UUID(third).int & 0xFFFF == 3
    assert now == NO_DATE
    assert package.derived() == uuid.uuid5(uuid.NAMESPACE_DNS, "a").hex


def test_outside_the_package_is_as_it_was(package: Any) -> None:
    """Other code of the same process gets random ids and the real clock."""
    assert package.made()[0] != package.made()[0]
    assert (datetime.now(UTC) - package.made()[2]).total_seconds() < 60
    with PinnedSources().active(DAY):
        assert uuid.uuid4() != uuid.uuid4()


def test_memories_at_work_at_once_have_ids_of_their_own(package: Any) -> None:
    """Each task counts for itself."""

    async def one() -> list[str]:
        ids = []
        with PinnedSources().active(DAY):
            for _ in range(3):
                ids.append(package.made()[0])
                await asyncio.sleep(0)
        return ids

    async def both() -> tuple[list[str], list[str]]:
        return await asyncio.gather(one(), one())

    first, second = asyncio.run(both())
    assert first == second
    assert len(set(first)) == 3


def test_a_package_without_ids_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another version may make them elsewhere, and prompts would change from start to start."""
    monkeypatch.setitem(sys.modules, "of_nobody", ModuleType("of_nobody"))
    with pytest.raises(UsageError, match="this version of of_nobody makes its ids"):
        pin_package("of_nobody")
