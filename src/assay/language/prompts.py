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
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from assay.core.errors import InputError, Problem, similar, unreadable
from assay.files.read import not_utf8

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


def read_own_parts(
    path: Path, required: Sequence[str], optional: Sequence[str] = (), extra_parts: Sequence[str] = ()
) -> dict[str, str]:
    """Return the parts of a user's prompt file by name. A file without part lines is one user message.

    Parts are `system`, `user` and the `extra_parts`, each of which also has a placeholder of its name. Raises
    InputError with all problems of the file and their lines, so that a mistake is found before the first request.
    """
    text = _read(path)
    if not text.strip():
        raise InputError(Problem(str(path), f"the file is empty; write a prompt with {_list(required)}"))
    heads = list(_PART_LINE.finditer(text))
    parts = {} if heads else {"user": text.rstrip("\n")}
    problems: list[Problem] = []
    if heads and text[: heads[0].start()].strip():
        problems.append(_at(path, text, 0, "this text belongs to no part; write `=== user ===` above it"))
    ends = [*(head.start() for head in heads), len(text)][1:]
    for head, end in zip(heads, ends, strict=True):
        name = head[1]
        if name in parts:
            problems.append(_at(path, text, head.start(), f"the part `=== {name} ===` is there twice"))
        elif name not in ("system", "user", *extra_parts):
            names = " and ".join(f"`=== {each} ===`" for each in ("system", "user"))
            problems.append(_at(path, text, head.start(), f"there is no part `=== {name} ===`, only {names}"))
        parts[name] = text[head.end() : end].rstrip("\n")
    if "user" not in parts:
        problems.append(Problem(str(path), f"the prompt has no part `=== user ===`, only {', '.join(parts)}"))
    known = (*required, *optional, *(name for name in extra_parts if name in parts))
    for match in _PLACEHOLDER.finditer(text):
        if match[1] not in known:
            advice = similar(match[1], known) or f"; there are {_list(known)}"
            message = f"{match[0]} is no placeholder of this prompt{advice}"
            problems.append(_at(path, text, match.start(), message))
    messages = parts.get("user", "") + parts.get("system", "")
    if missing := [name for name in required if f"{{{name}}}" not in messages]:
        message = f"the prompt lacks {_list(missing)}; it needs the placeholders {_list(required)}"
        problems.append(Problem(str(path), message))
    if problems:
        raise InputError(problems)
    return parts


def _at(path: Path, text: str, position: int, message: str) -> Problem:
    """Return a problem with the line of a position in the text."""
    line = text.count("\n", 0, position) + 1
    return Problem(f"{path}:{line}", message)


def _list(names: Sequence[str]) -> str:
    *first, last = [f"{{{name}}}" for name in names]
    return f"{', '.join(first)} and {last}" if first else last


def fill(part: str, values: Mapping[str, str]) -> str:
    """Return the text with its placeholders filled. A placeholder without a value stays.

    One pass fills all of them, so that a value that contains `{text}` is not filled itself.
    """
    return _PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), part)


def prompt_version(version: str, *paths: Path) -> str:
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
