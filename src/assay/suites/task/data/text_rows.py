"""Rows of text files: one for each line, paragraph or file, in a column `text`."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from assay.core.errors import InputError, Problem
from assay.suites.task.data.files import opened, readable

Rows = Iterator[tuple[int, bytes]]
OPTIONS = frozenset({"encoding", "keep_linebreaks", "sample_by"})
_encode = msgspec.json.Encoder().encode


def unit(path: Path, options: dict[str, Any]) -> str:
    """Lines can be named by their number, other parts by theirs."""
    by = str(options.get("sample_by", "line"))
    return ":{}" if by == "line" else f" {by} {{}}"


def rows(path: Path, options: dict[str, Any], problems: list[Problem]) -> Rows:
    """Every kind of line end is one; a file's last line may have none."""
    with readable(path), opened(path) as file:
        text = io.TextIOWrapper(file, options.get("encoding") or "utf-8")
        try:
            for number, part in enumerate(_parts(text, options), 1):
                yield number, _encode({"text": part})
        except UnicodeDecodeError as error:
            raise InputError(Problem(str(path), f"not text in UTF-8: {error}")) from None


def _parts(text: io.TextIOWrapper, options: dict[str, Any]) -> Iterator[str]:
    by = options.get("sample_by", "line")
    if by == "document":
        return iter([text.read()])
    if by == "paragraph":
        return (part for part in text.read().split("\n\n") if part)
    if options.get("keep_linebreaks"):
        return text
    return (line.removesuffix("\n") for line in text)
