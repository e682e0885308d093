"""Reads JSON from the replies of models.

`read_json` accepts a JSON value with nothing around it except a code fence. `read_reply` also accepts text before
and after the object, trailing commas and raw line breaks.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

_FENCE = "```"
# Each object is compared with all others, so a reply full of objects would take quadratic time.
_MOST_OBJECTS = 100
_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"'
# Matches whole strings first, so that braces inside strings are skipped.
_PIECE = re.compile(rf'{_STRING}|[{{}}"]', re.DOTALL)
# A comma before a closing bracket. Strings are matched, and kept, so that commas inside them are not removed.
_TRAILING = re.compile(rf"({_STRING})|,(?=\s*[}}\]])", re.DOTALL)


def unfenced(text: str) -> str:
    """Return the text without surrounding white space, and without a code fence around the whole text."""
    text = text.strip()
    opening, newline, body = text.partition("\n")
    if newline and opening.startswith(_FENCE) and body.endswith(_FENCE) and "`" not in opening[3:]:
        return body.removesuffix(_FENCE).strip()
    return text


def read_json(text: str) -> Any:
    """Return the JSON value of a text. Raises ValueError for other text around it, NaN, or a repeated key."""
    return _loads(unfenced(text), strict=True)


def read_reply(text: str, prompt: str = "") -> dict[str, Any]:
    """Return the JSON object of a reply, which may have other text around it.

    Raises ValueError with the reason if there is no object, if it is incomplete, or if there are several
    different objects. An object that occurs literally in the prompt is ignored: the model quotes it.
    """
    if not text.strip():
        raise ValueError("the reply is empty")
    try:
        whole = read_json(text)
    except ValueError:
        return _only_object(
            [
                candidate
                for candidate in _outermost_objects(text)
                if candidate not in prompt and json.dumps(candidate, ensure_ascii=False)[1:-1] not in prompt
            ]
        )
    if not isinstance(whole, dict):
        raise ValueError("the reply is not a JSON object")  # noqa: TRY004
    return whole


def _only_object(texts: list[str]) -> dict[str, Any]:
    """Return the object that the texts contain. Texts that are not JSON are skipped; equal objects count once."""
    objects: list[dict[str, Any]] = []
    error: ValueError | None = None
    for text in texts:
        if len(objects) > _MOST_OBJECTS:
            raise ValueError(f"the reply has more than {_MOST_OBJECTS} JSON objects that differ")
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
    raise ValueError(f"the reply's JSON cannot be read ({error})" if error else "the reply has no JSON object")


def _outermost_objects(text: str) -> Iterator[str]:
    """Yield every outermost {…} of a text. Braces inside JSON strings do not count."""
    start = text.find("{")
    while start >= 0:
        end = _object_end(text, start)
        yield text[start:end]
        start = text.find("{", end)


def _object_end(text: str, start: int) -> int:
    depth = 0
    for piece in _PIECE.finditer(text, start):
        if piece[0] == '"':  # the string has no end
            break
        depth += {"{": 1, "}": -1}.get(piece[0], 0)
        if not depth:
            return piece.end()
    raise ValueError("the reply ends in the middle of its JSON")


def _loads(text: str, *, strict: bool) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_unique_keys, parse_constant=_refuse_constant, strict=strict)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        (repeated, _), *_ = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"the key {repeated!r} appears twice")
    return values


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
