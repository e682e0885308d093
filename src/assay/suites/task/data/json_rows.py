"""Rows of JSON files: an object a line, one list, objects over several lines, or the list under a key."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from assay.core.errors import Problem
from assay.suites.task.data.files import lines, opened, readable

Rows = Iterator[tuple[int, bytes]]
_BOM = b"\xef\xbb\xbf"
_SPACE = re.compile(r"[ \t\r\n]*")
_encode = msgspec.json.Encoder().encode


def layout(path: Path, options: dict[str, Any]) -> str:
    """`field`, `list`, `lines`, or `objects` that take several lines; the first line tells."""
    if options.get("field") is not None:
        return "field"
    first = next((raw for _, raw in lines(path)), b"")
    if first[:1] == b"[":
        return "list"
    return "objects" if first[:1] == b"{" and first[-1:] != b"}" else "lines"


def unit(path: Path, options: dict[str, Any]) -> str:
    """What the places of a file are: lines, or items of a list."""
    kind = layout(path, options)
    if kind == "field":
        return " $." + str(options["field"]).replace("{", "{{").replace("}", "}}") + "[{}]"
    return " $[{}]" if kind == "list" else ":{}"


def rows(path: Path, options: dict[str, Any], problems: list[Problem]) -> Rows:
    """Every row's place and bytes."""
    kind = layout(path, options)
    if kind == "lines":
        return lines(path)
    if kind == "objects":
        return _objects(path, problems)
    return _items(path, problems) if kind == "list" else _field(path, str(options["field"]), problems)


def _whole(path: Path, into: Any, problems: list[Problem]) -> Any:
    with readable(path), opened(path) as file:
        content = file.read().removeprefix(_BOM)
    try:
        return msgspec.json.decode(content, type=into)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        problems.append(Problem(str(path), f"not JSON: {error}"))
        return None


def _items(path: Path, problems: list[Problem]) -> Rows:
    """A JSON file that is one list. It has no lines, so places are `$[n]`."""
    return _listed(_whole(path, list[msgspec.Raw], problems) or [])


def _listed(items: list[msgspec.Raw]) -> Rows:
    """Items of a list; a list of plain values is a column `text`."""
    plain = bool(items) and bytes(items[0])[:1] != b"{"
    for position, item in enumerate(items):
        yield position, _encode({"text": item}) if plain else bytes(item)


def _objects(path: Path, problems: list[Problem]) -> Rows:
    """Objects one after the other, each over several lines; its place is the line it begins at."""
    with readable(path), opened(path) as file:
        content = file.read()
    try:
        text = content.decode("utf-8-sig")
        yield from _decoded(text)
    except UnicodeDecodeError as error:
        problems.append(Problem(str(path), f"not UTF-8: {error}"))
    except json.JSONDecodeError as error:
        problems.append(Problem(f"{path}:{error.lineno}", f"not JSON: {error.msg}"))


def _decoded(text: str) -> Rows:
    decode = json.JSONDecoder().raw_decode
    end, line = 0, 1
    while (start := _space(text, end)) < len(text):
        line += text.count("\n", end, start)
        end = decode(text, start)[1]
        yield line, text[start:end].encode()
        line += text.count("\n", start, end)


def _space(text: str, start: int) -> int:
    found = _SPACE.match(text, start)
    return found.end() if found else start


def _field(path: Path, field: str, problems: list[Problem]) -> Rows:
    """The rows under one key of the file's object: a list of them, or a list for each column."""
    whole = _whole(path, dict[str, msgspec.Raw], problems)
    if whole is None:
        return
    if field not in whole:
        found = ", ".join(map(repr, whole))
        problems.append(Problem(str(path), f"there is no field {field!r}; there are {found}"))
        return
    raw = bytes(whole[field])
    if raw[:1] == b"[":
        yield from _listed(msgspec.json.decode(raw, type=list[msgspec.Raw]))
    else:
        yield from _columns(path, field, msgspec.json.decode(raw), problems)


def _columns(path: Path, field: str, value: Any, problems: list[Problem]) -> Rows:
    lists = value.values() if isinstance(value, dict) else ()
    if not lists or not all(isinstance(column, list) for column in lists) or len({*map(len, lists)}) > 1:
        message = f"expected a list of rows or lists of one length under {field!r}"
        problems.append(Problem(f"{path} $.{field}", message))
        return
    for position, cells in enumerate(zip(*lists, strict=True)):
        yield position, _encode(dict(zip(value, cells, strict=True)))
