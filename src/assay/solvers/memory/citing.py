"""An answer with citations: which memories it rests on, checked against what was found."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from assay.core import prompts
from assay.core.connect import SCHEMA
from assay.core.errors import ModelError
from assay.core.memory import Found, Item
from assay.core.protocols import Asker
from assay.core.types import Failure, Request, Usage
from assay.solvers.memory.answering import NOTHING, dated
from assay.solvers.steps.failing import StepFailed
from assay.solvers.steps.parsing import parse_json

PROMPT = Path(__file__).with_name("prompts") / "cited.v1.txt"
_PARAMS: dict[str, Any] = {"temperature": 0, "max_tokens": 256}
_REPLY = {
    "type": "object",
    "properties": {
        "answer": {"type": "string", "maxLength": 150},
        "citations": {"type": "array", "items": {"type": "integer"}, "maxItems": 10},
    },
    "required": ["answer", "citations"],
}
_NUMBER = re.compile(r"\[?\s*(\d{1,9})\s*\]?")
_SHORTEST = 8
"""Characters of a quotation: a shorter one stands in any text by chance."""


class Said(Struct, frozen=True, omit_defaults=True):
    """An answer. `cited` are places among what was found, from 0, or quoted texts."""

    answer: str
    cited: tuple[int | str, ...] = ()
    dropped: int = 0
    loose: bool = False
    """The reply was no JSON: its text is the answer, and it cites nothing."""
    seconds: float = 0.0
    usage: Usage | None = None
    failure: Failure | None = None


async def answer(asker: Asker, question: str, found: Sequence[Found], prompt: Path, *, quotes: bool) -> Said:
    """The model's word. A failed call is this answer's failure; `quotes`: a part of a text is a citation."""
    try:
        call = await asker.call(_request(asker, question, found, prompt))
    except ModelError as error:
        return Said("", failure=error.failure)
    assert call.response is not None
    said = read(call.response.text, found, quotes=quotes)
    return Said(*said, call.seconds, call.response.usage)


def _request(asker: Asker, question: str, found: Sequence[Found], prompt: Path) -> Request:
    params = _PARAMS
    if SCHEMA in asker.can:
        told = {"name": "reply", "schema": _REPLY}
        params = {**params, "response_format": {"type": "json_schema", "json_schema": told}}
    return Request(
        model=asker.name, endpoint=asker.endpoint, messages=messages(question, found, prompt), params=params
    )


def messages(question: str, found: Sequence[Found], prompt: Path = PROMPT) -> list[dict[str, Any]]:
    """The prompt with the memories numbered from 1, in the order in which they were found."""
    lines = "\n".join(_line(at, one.item) for at, one in enumerate(found, 1)) or NOTHING
    known = {"memories": lines, "question": question}
    parts = prompts.parts_of(prompt, *known)
    return [{"role": role, "content": prompts.filled(text, known)} for role, text in parts.items()]


def _line(number: int, item: Item) -> str:
    return f"[{number}] {dated(item)}"


def read(text: str, found: Sequence[Found], *, quotes: bool) -> tuple[str, tuple[int | str, ...], int, bool]:
    """Answer, citations, how many were dropped, and whether the reply was in another form than asked."""
    try:
        reply = parse_json(text)
    except StepFailed:
        return text.strip(), (), 0, True
    if not isinstance(reply, dict) or not isinstance(reply.get("answer"), (str, int, float)):
        return text.strip(), (), 0, True
    given = reply.get("citations")
    named = given if isinstance(given, list) else [] if given is None else [given]
    cited = [_place(one, found, quotes=quotes) for one in named]
    kept = dict.fromkeys(one for one in cited if one is not None)
    return str(reply["answer"]).strip(), tuple(kept), cited.count(None), False


def _place(citation: Any, found: Sequence[Found], *, quotes: bool) -> int | str | None:
    """A number, or an item's id, text or line in the prompt; a part of a text where quotations count."""
    if isinstance(citation, int) and not isinstance(citation, bool):
        return citation - 1 if 0 < citation <= len(found) else None
    if not isinstance(citation, str):
        return None
    if number := _NUMBER.fullmatch(citation.strip()):
        return _place(int(number[1]), found, quotes=quotes)
    text = citation.strip()
    same = next((at for at, one in enumerate(found) if _is(text, at, one.item)), None)
    if same is not None or not quotes or len(text) < _SHORTEST:
        return same
    return text if any(text in one.item.text for one in found) else None


def _is(text: str, at: int, item: Item) -> bool:
    """A model copies what it was shown: with the date, and with the number too."""
    return text in (item.id, item.text.strip(), dated(item).strip(), _line(at + 1, item).strip())


def fingerprint(prompt: Path = PROMPT) -> str:
    """Another wording may get another answer."""
    return prompts.fingerprint(prompt.stem, prompt)
