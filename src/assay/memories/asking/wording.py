"""What the model is asked, from the text files in `prompts/`. A new wording is a new version of its file."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

VERSION = "v1"
_FOLDER = Path(__file__).parents[1] / "prompts"
_PART = re.compile(r"^=== (\w+) ===\n", re.MULTILINE)
_PLACE = re.compile(r"\{(\w+)\}")

Messages = list[dict[str, Any]]


def messages(name: str, values: Mapping[str, str], *, again: bool = False) -> Messages:
    """The prompt of this name; `again` adds the hint for a model whose first reply was of no use."""
    parts = _parts(name)
    asked = f"{parts['user']}\n\n{parts['again']}" if again else parts["user"]
    return [
        {"role": "system", "content": _filled(parts["system"], values)},
        {"role": "user", "content": _filled(asked, values)},
    ]


def dated(date: str) -> str:
    """An attribute for a tag, where there is a date to name."""
    return f' date="{date}"' if date else ""


def fingerprint(*names: str) -> str:
    """The version and a hash of these prompts: another wording may get another reply."""
    texts = "\0".join(_read(name) for name in names)
    return f"{VERSION}@{hashlib.sha256(texts.encode()).hexdigest()[:16]}"


def _filled(part: str, values: Mapping[str, str]) -> str:
    """In one pass: what is filled in is not looked at again, so a message may contain `{text}`."""
    return _PLACE.sub(lambda place: values[place[1]], part)


@cache
def _parts(name: str) -> dict[str, str]:
    _, *pieces = _PART.split(_read(name))
    return {part: text.rstrip("\n") for part, text in zip(pieces[::2], pieces[1::2], strict=True)}


@cache
def _read(name: str) -> str:
    return (_FOLDER / f"{name}.{VERSION}.txt").read_text("utf-8")
