"""A Ray cluster of two nodes on this machine, with logical resources, for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from servers.fake_openai import FakeOpenAI
from support.ray_cluster import LocalCluster


@pytest.fixture(scope="session")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(nodes=2) as cluster:
        yield cluster


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    with FakeOpenAI() as server:
        yield server
