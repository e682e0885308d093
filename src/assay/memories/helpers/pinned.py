"""Fixes the random ids and the clock of packages of other projects.

    pin_package("graphiti_core")         # once, after the import
    pinned = PinnedSources()             # one for each memory
    with pinned.active(moment):
        await graphiti.add_episode(…)    # its uuid4() counts from 1, its utc_now() is `moment`

A conversation is told again after a kill. The package must then send the same requests, so neither chance nor the clock
may reach its prompts or decide the order of its results. Outside of `active` the package behaves as always.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from types import SimpleNamespace

from assay.core.errors import UsageError

_active: ContextVar[PinnedSources | None] = ContextVar("pinned sources of a memory", default=None)
# The clock of a conversation without dates.
NO_DATE = datetime(1970, 1, 1, tzinfo=UTC)


class PinnedSources:
    """Ids in the order of their creation, and a clock that stands still."""

    def __init__(self) -> None:
        self._count = 0
        self.now = NO_DATE

    @contextmanager
    def active(self, now: datetime = NO_DATE) -> Iterator[None]:
        """Be the source for all code of pinned packages that is called from here, in tasks and threads too."""
        self.now = now
        token = _active.set(self)
        try:
            yield
        finally:
            _active.reset(token)

    def next_id(self) -> uuid.UUID:
        """Return the next id, in the form of a random one."""
        self._count += 1
        return uuid.UUID(int=self._count, version=4)


def pin_package(package: str) -> None:
    """Replace `uuid4`, `utc_now` and the module `uuid` in all loaded modules of a package. May be called again.

    Raises UsageError if there is nothing to replace: another version of the package may make its ids elsewhere.
    """
    count = 0
    for name, module in list(sys.modules.items()):
        if name != package and not name.startswith(f"{package}."):
            continue
        for attribute, replacement in (("uuid4", _uuid4), ("uuid", _PINNED_UUID), ("utc_now", _utc_now)):
            if attribute in vars(module):
                setattr(module, attribute, replacement)
                count += 1
    if not count:
        raise UsageError(
            f"this version of {package} makes its ids in a way that assay does not know. "
            "Install the version that its extra names: docs/memories.md"
        )


def _uuid4() -> uuid.UUID:
    source = _active.get()
    return source.next_id() if source else uuid.uuid4()


def _utc_now() -> datetime:
    source = _active.get()
    return source.now if source else datetime.now(UTC)


# Stands for the module `uuid` in packages that call `uuid.uuid4()`.
_PINNED_UUID = SimpleNamespace(**{**vars(uuid), "uuid4": _uuid4})
