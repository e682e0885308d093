"""Prompt files: texts with parts below lines such as `=== user ===`, and placeholders such as `{text}`.

    === system ===
    Answer in one word.
    === user ===
    {question}

A file's name has a version, as in `answer.v1.txt`. A changed prompt gets a new version, because it may get other
replies.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from assay.core.encoding import not_utf8
from assay.core.errors import InputError, Problem, unreadable

_PART_LINE = re.compile(r"^=== (\w+) ===\n", re.MULTILINE)
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


# Cached, because a prompt is filled once per request. An edited file is not read again by the same process.
@cache
def read_parts(path: Path, *required: str) -> dict[str, str]:
    """Return the parts of a prompt file by name, in order.

    Raises InputError if the file has no parts, or lacks one of the `required` placeholders.
    """
    text = _read(path)
    _, *pieces = _PART_LINE.split(text)
    if not pieces or any(f"{{{name}}}" not in text for name in required):
        placeholders = " and ".join(f"{{{name}}}" for name in required)
        message = "a prompt file needs parts such as `=== user ===`"
        if required:
            message += f", with {placeholders} in them"
        raise InputError(Problem(str(path), message))
    return {name: part.rstrip("\n") for name, part in zip(pieces[::2], pieces[1::2], strict=True)}


def read_own_parts(path: Path, *required: str) -> dict[str, str]:
    """Return the parts of a user's prompt file by name. A file without part lines is one user message.

    Raises InputError if the file has parts but no `=== user ===`, or lacks a placeholder; the message names it.
    """
    text = _read(path)
    _, *pieces = _PART_LINE.split(text)
    parts = {name: part.rstrip("\n") for name, part in zip(pieces[::2], pieces[1::2], strict=True)}
    if not pieces:
        parts = {"user": text.rstrip("\n")}
    if "user" not in parts:
        raise InputError(
            Problem(str(path), f"the prompt has no part `=== user ===`, only {', '.join(parts)}")
        )
    messages = parts["user"] + parts.get("system", "")
    if missing := [f"{{{name}}}" for name in required if f"{{{name}}}" not in messages]:
        needed = ", ".join(f"{{{name}}}" for name in required)
        raise InputError(
            Problem(
                str(path), f"the prompt lacks {' and '.join(missing)}; it needs the placeholders {needed}"
            )
        )
    return parts


def fill(part: str, values: Mapping[str, str]) -> str:
    """Return the text with its placeholders filled. A placeholder without a value stays.

    One pass fills all of them, so that a value that contains `{text}` is not filled itself.
    """
    return _PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), part)


def fingerprint(version: str, *paths: Path) -> str:
    """Return the version with a hash of the files. A changed prompt changes the run's fingerprint."""
    texts = "\0".join(map(_read, paths))
    return f"{version}@{hashlib.sha256(texts.encode()).hexdigest()}"


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise InputError(unreadable(path, error)) from None
    except UnicodeDecodeError as error:
        raise InputError(Problem(str(path), not_utf8(error))) from None
