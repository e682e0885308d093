"""The server behind every test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from servers.loopback import LoopbackServer
from with_mem0.extracting import reply


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    with LoopbackServer(reply) as running:
        yield running
