"""Files that appear whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec


def write_whole(path: Path, data: bytes) -> Path:
    """To a temporary name, to the disk, then under its own name: readers see the old file or the new one."""
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
    """Readable, with keys in their order."""
    return write_whole(path, msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")
