"""Tests of a memory that is a whole system, with a model on loopback that answers it.

ASSAY_SYSTEM names the system. Without it, `http` is tested, which needs no package. `make test-mem0` and the like
install the package of a system into an environment of its own and run this folder there.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from servers.memory_model import MemoryModel
from support.memories import Model
from with_system.systems import EXAMPLES, OPTIONS, SYSTEM, SYSTEMS, MakeMemory, make_memory

# The rules of each system stand in a file of its own.
collect_ignore = [f"test_{name}.py" for name in SYSTEMS if name != SYSTEM]


@pytest.fixture(scope="session", autouse=True)
def service() -> Iterator[None]:
    """The reference service of the memory `http`, as a process of its own."""
    if SYSTEM != "http":
        yield
        return
    command = [sys.executable, f"{EXAMPLES}/memory-service/server.py", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        OPTIONS["url"] = process.stdout.readline().strip()
        try:
            yield
        finally:
            process.kill()


@pytest.fixture
def server() -> Iterator[MemoryModel]:
    with MemoryModel() as running:
        yield running


@pytest.fixture
def make(tmp_path: Path, server: MemoryModel) -> MakeMemory:
    """Makes memories of the system, each with a folder of its own."""
    numbers = itertools.count()

    def made(model: Model | None = None, **options: Any) -> Any:
        return make_memory(tmp_path / f"case{next(numbers)}", server, model, **options)

    return made
