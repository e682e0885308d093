"""Prompts in text files: parts below lines such as `=== user ===`, with places such as `{text}` in them.

A file's name carries its version, as in `answer.v1.txt`: a new wording is a new version.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from assay.core.errors import InputError, Problem, unreadable

_PART = re.compile(r"^=== (\w+) ===\n", re.MULTILINE)
_PLACE = re.compile(r"\{(\w+)\}")


@cache
def parts_of(path: Path, *needed: str) -> dict[str, str]:
    """By name, in order, read once. Refuses a file without parts, or without a place that is needed."""
    text = _read(path)
    _, *pieces = _PART.split(text)
    if not pieces or any(f"{{{place}}}" not in text for place in needed):
        places = " and ".join(f"{{{place}}}" for place in needed)
        said = "a prompt has parts such as `=== user ===`" + (f", with {places} in them" if needed else "")
        raise InputError(Problem(str(path), said))
    return {name: part.rstrip("\n") for name, part in zip(pieces[::2], pieces[1::2], strict=True)}


def filled(part: str, values: Mapping[str, str]) -> str:
    """In one pass: what is filled in is not looked at again. A place without a value stays as it is."""
    return _PLACE.sub(lambda place: values.get(place[1], place[0]), part)


def fingerprint(version: str, *paths: Path) -> str:
    """The version and the sha256 of these files: another wording may get another reply."""
    texts = "\0".join(map(_read, paths))
    return f"{version}@{hashlib.sha256(texts.encode()).hexdigest()}"


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise InputError(unreadable(path, error)) from None
