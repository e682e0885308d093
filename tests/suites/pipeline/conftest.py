"""A fixture for tests of pipelines."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.pipeline_project import PipelineProject


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PipelineProject:
    """An empty folder that is the working directory, with a model in it that follows orders."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    return PipelineProject(tmp_path)
