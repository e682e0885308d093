"""A fixture for tests of tasks."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.task_project import TaskProject


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TaskProject:
    """An empty folder that is the working directory, with models in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    return TaskProject(tmp_path)
