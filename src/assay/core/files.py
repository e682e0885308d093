"""Atomic writes: a file is written completely or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec


def write_whole(path: Path, data: bytes) -> Path:
    """Write a file atomically: readers, also those after a crash, see the old content or the new one."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    return path


def write_json(path: Path, value: Any) -> Path:
    """Write a value as indented JSON, with keys in their own order. Returns the path."""
    return write_whole(path, msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")
