"""The real LoCoMo and the votes on answers to it, which are not ours to ship."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from calibration.labelled import Labelled, labelled

_SAYS = "make judges ASSAY_LOCOMO=path/to/locomo10.json ASSAY_VOTES=path/to/locomo_answers_with_judge_votes.json"


def named_by(variable: str) -> Any:
    """The JSON of the file that a variable of the environment names."""
    path = Path(os.environ.get(variable, ""))
    if not path.is_file():
        pytest.fail(f"{variable} must name a file: {_SAYS}")
    return json.loads(path.read_text())


@pytest.fixture(scope="session")
def locomo() -> list[dict[str, Any]]:
    """The ten conversations."""
    conversations: list[dict[str, Any]] = named_by("ASSAY_LOCOMO")
    return conversations


@pytest.fixture(scope="session")
def votes() -> list[Labelled]:
    """Every answer with the majority of its votes."""
    return list(labelled(named_by("ASSAY_VOTES")))
