"""What the model is asked, from the text files in `prompts/`. A new wording is a new version of its file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from assay.core import prompts

VERSION = "v1"
_FOLDER = Path(__file__).parents[1] / "prompts"

Messages = list[dict[str, Any]]


def messages(name: str, values: Mapping[str, str], *, again: bool = False) -> Messages:
    """The prompt of this name; `again` adds the hint for a model whose first reply was of no use."""
    parts = prompts.parts_of(_path(name))
    asked = f"{parts['user']}\n\n{parts['again']}" if again else parts["user"]
    return [
        {"role": "system", "content": prompts.filled(parts["system"], values)},
        {"role": "user", "content": prompts.filled(asked, values)},
    ]


def dated(date: str) -> str:
    """An attribute for a tag, where there is a date to name."""
    return f' date="{date}"' if date else ""


def fingerprint(*names: str) -> str:
    """Of these prompts: what a memory never asks does not make its runs others."""
    return prompts.fingerprint(VERSION, *map(_path, names))


def _path(name: str) -> Path:
    return _FOLDER / f"{name}.{VERSION}.txt"
