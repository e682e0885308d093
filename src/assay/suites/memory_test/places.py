"""Where the files of a run go: `{dataset}/{YYMMDD_HHMM}/`, a folder for each of several memories."""

from __future__ import annotations

import time
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

SUMMARY = "summary.json"


def folders(root: Path, memories: list[str], dataset: str, started: float, run: str) -> dict[str, Path]:
    """The folder of each memory; all of one run have the same time in their names.

    A folder belongs to the run that its summary names. Where another run has it, a number is added.
    """
    stamp = stamp_of(started)
    for number in count(1):
        name = stamp if number == 1 else f"{stamp}_{number}"
        found = {
            memory: (root / memory if len(memories) > 1 else root) / dataset / name for memory in memories
        }
        if all(_is_ours(folder, run) for folder in found.values()):
            break
    for folder in found.values():
        folder.mkdir(parents=True, exist_ok=True)
    return found


def stamp_of(started: float) -> str:
    """The minute of the run's first start: 251120_1430."""
    return time.strftime("%y%m%d_%H%M", time.localtime(started))


def _is_ours(folder: Path, run: str) -> bool:
    if not folder.exists() or not any(folder.iterdir()):
        return True
    try:
        summary: Any = msgspec.json.decode((folder / SUMMARY).read_bytes())
    except (OSError, msgspec.DecodeError):
        return False
    return isinstance(summary, dict) and summary.get("run") == run
