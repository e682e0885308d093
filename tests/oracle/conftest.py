"""What lives as long as the session: the endpoint and the real harness."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from oracle.endpoint import Endpoint
from oracle.harness import Harness


@pytest.fixture(scope="session")
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as running:
        yield running


@pytest.fixture(scope="session")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    with Harness(tmp_path_factory.mktemp("harness")) as running:
        yield running
