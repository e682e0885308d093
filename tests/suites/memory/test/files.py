"""Files of conversations for tests, and what a loader says of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.core.errors import InputError
from assay.suites.memory.test.conversation import Conversation
from assay.suites.memory.test.loaders import find_loader

EXAMPLES = Path(__file__).parents[4] / "examples" / "memory"


def loaded(name: str, path: Path, value: Any) -> list[Conversation]:
    """What a loader makes of a value as a file."""
    path.write_bytes(msgspec.json.encode(value))
    return list(find_loader(name).conversations(path))


def problems(name: str, path: Path, value: Any) -> list[str]:
    """What it says is wrong, without the file's name."""
    with pytest.raises(InputError) as caught:
        loaded(name, path, value)
    return [str(problem).removeprefix(f"{path} ") for problem in caught.value.problems]
