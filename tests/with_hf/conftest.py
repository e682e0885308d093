"""Tiny models, task files and the real harness, made once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from with_hf.harness import Harness
from with_hf.task_files import write_tasks
from with_hf.tiny_models import make_adapter, make_gpt2, make_llama

# The models are so small that several threads only wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    llama = make_llama(folder / "llama")
    return {
        "gpt2": make_gpt2(folder / "gpt2"),
        "llama": llama,
        "adapter": make_adapter(llama, folder / "adapter"),
    }


@pytest.fixture(scope="session")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tasks")
    write_tasks(folder)
    return folder


@pytest.fixture(scope="session")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    with Harness(tmp_path_factory.mktemp("harness")) as running:
        yield running
