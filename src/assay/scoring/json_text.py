"""JSON that a model wrote as text: `read_json` is strict, `read_reply` accepts what models write around it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

_FENCE = "```"
_THOUGHT = "</think>"
_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"'
_PIECE = re.compile(rf'{_STRING}|[{{}}"]', re.DOTALL)
_TRAILING = re.compile(rf"({_STRING})|,(?=\s*[}}\]])", re.DOTALL)


def unfenced(text: str) -> str:
    """The text without white space around it, and without one code fence around all of it."""
    text = text.strip()
    opening, newline, body = text.partition("\n")
    if newline and opening.startswith(_FENCE) and body.endswith(_FENCE) and "`" not in opening[3:]:
        return body.removesuffix(_FENCE).strip()
    return text


def read_json(text: str) -> Any:
    """The one value that the text is. ValueError for anything around it, NaN, or a repeated key."""
    return _loads(unfenced(text), strict=True)


def read_reply(text: str, asked: str = "") -> dict[str, Any]:
    """The one JSON object of a reply, with anything around it. Trailing commas and raw line breaks are fine.

    Two objects that differ are no reply, nor is one that breaks off. An object that stands word for word in
    what was `asked` is a quotation, and not what the model says itself. ValueError says why there is none.
    """
    if not text.strip():
        raise ValueError("the reply is empty")
    try:
        whole = read_json(text)
    except ValueError:
        answer = text.rpartition(_THOUGHT)[2]
        return _only_object(
            [
                candidate
                for candidate in _outermost_objects(answer)
                if candidate not in asked and json.dumps(candidate, ensure_ascii=False)[1:-1] not in asked
            ]
        )
    if not isinstance(whole, dict):
        raise ValueError("the reply is no JSON object")  # noqa: TRY004
    return whole


def _only_object(texts: list[str]) -> dict[str, Any]:
    """The object that all of these texts are, as far as they are JSON at all."""
    objects: list[dict[str, Any]] = []
    error: ValueError | None = None
    for text in texts:
        try:
            value = _loads(_TRAILING.sub(r"\1", text), strict=False)
        except ValueError as caught:
            error = caught
            continue
        if value not in objects:
            objects.append(value)
    if len(objects) == 1:
        return objects[0]
    if objects:
        raise ValueError(f"the reply has {len(objects)} JSON objects that differ")
    raise ValueError(
        f"the reply's JSON cannot be read ({error})" if error else "the reply has no JSON object"
    )


def _outermost_objects(text: str) -> Iterator[str]:
    """Every outermost {…}. Braces inside of JSON strings do not count."""
    start = text.find("{")
    while start >= 0:
        end = _object_end(text, start)
        yield text[start:end]
        start = text.find("{", end)


def _object_end(text: str, start: int) -> int:
    depth = 0
    for piece in _PIECE.finditer(text, start):
        if piece[0] == '"':  # A string that is not closed.
            break
        depth += {"{": 1, "}": -1}.get(piece[0], 0)
        if not depth:
            return piece.end()
    raise ValueError("the reply breaks off in the middle of its JSON")


def _loads(text: str, *, strict: bool) -> Any:
    try:
        return json.loads(
            text, object_pairs_hook=_unique_keys, parse_constant=_refuse_constant, strict=strict
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [key for key, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} stands there twice")
    return values


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
