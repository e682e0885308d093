"""The real LoCoMo, which is not ours to ship."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from assay.suites.memory.test.conversation import Conversation
from assay.suites.memory.test.loaders import find_loader


@pytest.fixture(scope="session")
def locomo() -> Path:
    """The file that `ASSAY_LOCOMO` names."""
    path = Path(os.environ.get("ASSAY_LOCOMO", ""))
    if not path.is_file():
        pytest.fail("ASSAY_LOCOMO must name locomo10.json: make locomo ASSAY_LOCOMO=path/to/locomo10.json")
    return path


@pytest.fixture(scope="session")
def conversations(locomo: Path) -> dict[str, Conversation]:
    return {each.sample_id: each for each in find_loader("locomo").conversations(locomo)}
