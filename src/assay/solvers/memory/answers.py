"""Answers from what a memory found: plain ones, and ones that cite the items they rest on.

The prompts are text files with a version. `PendingAnswers` waits for answers while the memory stores more
messages.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from assay.core import prompts
from assay.core.connect import SCHEMA
from assay.core.errors import ModelError
from assay.core.memory import MemoryItem, SearchHit
from assay.core.protocols import Asker
from assay.core.types import Failure, Request, Usage
from assay.solvers.json_reply import NoJsonError, find_json

_FOLDER = Path(__file__).with_name("prompts")
ANSWER_PROMPT = _FOLDER / "answer.v1.txt"
CITED_PROMPT = _FOLDER / "cited.v1.txt"
_ANSWER_PARAMS: dict[str, Any] = {"temperature": 0, "max_tokens": 64}
_CITED_PARAMS: dict[str, Any] = {"temperature": 0, "max_tokens": 256}
_CITED_SCHEMA = {
    "type": "object",
    "properties": {
        "answer": {"type": "string", "maxLength": 150},
        "citations": {"type": "array", "items": {"type": "integer"}, "maxItems": 10},
    },
    "required": ["answer", "citations"],
}
_NO_ITEMS = "(none)"
_NUMBER = re.compile(r"\[?\s*(\d{1,9})\s*\]?")
# A shorter quotation stands in any text by chance.
_MIN_QUOTE = 8


class MemoryAnswer(Struct, frozen=True):
    """A plain answer. If the call failed, the text is empty and `failure` says why."""

    text: str
    seconds: float = 0.0
    usage: Usage | None = None
    failure: Failure | None = None


async def answer_question(
    asker: Asker, question: str, hits: Sequence[SearchHit], prompt: Path = ANSWER_PROMPT
) -> MemoryAnswer:
    """Ask the model to answer from the hits. A failed call is part of the answer, and raises nothing."""
    messages = answer_messages(question, hits, prompt)
    request = Request(model=asker.name, endpoint=asker.endpoint, messages=messages, params=_ANSWER_PARAMS)
    try:
        call = await asker.call(request)
    except ModelError as error:
        return MemoryAnswer("", failure=error.failure)
    assert call.response is not None
    return MemoryAnswer(call.response.text.strip(), call.seconds, call.response.usage)


def answer_messages(
    question: str, hits: Sequence[SearchHit], prompt: Path = ANSWER_PROMPT
) -> list[dict[str, Any]]:
    """Return the prompt with one line for each hit, best first."""
    return _fill(prompt, question, [f"- {_dated(hit.item)}" for hit in hits])


class CitedAnswer(Struct, frozen=True, omit_defaults=True):
    """An answer with citations. `cited` are places among the hits, counted from 0, or quoted texts."""

    answer: str
    cited: tuple[int | str, ...] = ()
    dropped: int = 0
    """Citations of something that was not among the hits."""
    loose: bool = False
    """The reply was not the JSON that was asked for. Its text is the answer, and it cites nothing."""
    seconds: float = 0.0
    usage: Usage | None = None
    failure: Failure | None = None


async def answer_with_citations(
    asker: Asker, question: str, hits: Sequence[SearchHit], prompt: Path, *, quotes: bool
) -> CitedAnswer:
    """Ask the model to answer from the hits and cite them. `quotes`: a part of a text is a citation too."""
    params = _CITED_PARAMS
    if SCHEMA in asker.can:
        schema = {"name": "reply", "schema": _CITED_SCHEMA}
        params = {**params, "response_format": {"type": "json_schema", "json_schema": schema}}
    messages = cited_messages(question, hits, prompt)
    request = Request(model=asker.name, endpoint=asker.endpoint, messages=messages, params=params)
    try:
        call = await asker.call(request)
    except ModelError as error:
        return CitedAnswer("", failure=error.failure)
    assert call.response is not None
    answer = parse_cited_answer(call.response.text, hits, quotes=quotes)
    return replace(answer, seconds=call.seconds, usage=call.response.usage)


def cited_messages(
    question: str, hits: Sequence[SearchHit], prompt: Path = CITED_PROMPT
) -> list[dict[str, Any]]:
    """Return the prompt with one line for each hit, best first, numbered from 1."""
    return _fill(prompt, question, [_numbered(number, hit.item) for number, hit in enumerate(hits, 1)])


def parse_cited_answer(reply: str, hits: Sequence[SearchHit], *, quotes: bool) -> CitedAnswer:
    """Read answer and citations from a reply. A reply in another form is an answer without citations."""
    try:
        data = find_json(reply)
    except NoJsonError:
        return CitedAnswer(reply.strip(), loose=True)
    if not isinstance(data, dict) or not isinstance(data.get("answer"), (str, int, float)):
        return CitedAnswer(reply.strip(), loose=True)
    citations = data.get("citations")
    if citations is None:
        citations = []
    elif not isinstance(citations, list):
        citations = [citations]
    cited: dict[int | str, None] = {}  # an ordered set: an item that is cited twice counts once
    dropped = 0
    for citation in citations:
        place = _find_citation(citation, hits, quotes=quotes)
        if place is None:
            dropped += 1
        else:
            cited[place] = None
    return CitedAnswer(str(data["answer"]).strip(), tuple(cited), dropped)


def _find_citation(citation: Any, hits: Sequence[SearchHit], *, quotes: bool) -> int | str | None:
    """Return the place that a citation means, or the quoted text, or None.

    A model may cite by number, id, text, or by the line of the prompt, with its date and its number.
    """
    if isinstance(citation, int) and not isinstance(citation, bool):
        return citation - 1 if 0 < citation <= len(hits) else None
    if not isinstance(citation, str):
        return None
    text = citation.strip()
    if number := _NUMBER.fullmatch(text):
        return _find_citation(int(number[1]), hits, quotes=quotes)
    for place, hit in enumerate(hits):
        item = hit.item
        if text in (item.id, item.text.strip(), _dated(item).strip(), _numbered(place + 1, item).strip()):
            return place
    if quotes and len(text) >= _MIN_QUOTE and any(text in hit.item.text for hit in hits):
        return text
    return None


def prompt_fingerprint(prompt: Path) -> str:
    """Return name and hash of a prompt file. Another wording makes another run."""
    return prompts.fingerprint(prompt.stem, prompt)


def _fill(prompt: Path, question: str, lines: list[str]) -> list[dict[str, Any]]:
    values = {"memories": "\n".join(lines) or _NO_ITEMS, "question": question}
    parts = prompts.read_parts(prompt, *values)
    return [{"role": role, "content": prompts.fill(text, values)} for role, text in parts.items()]


def _dated(item: MemoryItem) -> str:
    """Return the text with its date. Without a date, "yesterday" means nothing."""
    return f"({item.date}) {item.text}" if item.date else item.text


def _numbered(number: int, item: MemoryItem) -> str:
    return f"[{number}] {_dated(item)}"


class PendingAnswers:
    """The answers of one try of one case. They are asked for while the memory stores more messages."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []
        self._failure: Failure | None = None

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a task. `wait` waits for it."""
        self._tasks.append(asyncio.get_running_loop().create_task(work))

    def add_failure(self, failure: Failure) -> None:
        """Note a failed answer. A failure of the infrastructure makes `raise_failure` raise."""
        if failure.status == "infra_error":
            self._failure = self._failure or failure

    async def wait(self) -> None:
        """Wait for all tasks, since their calls are paid for. Then raises what a task raised."""
        for result in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result

    def raise_failure(self) -> None:
        """Raise the first failure of the infrastructure, so that the next start asks this case again."""
        if self._failure is not None:
            raise ModelError(self._failure)
