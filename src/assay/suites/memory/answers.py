"""Asks the model to answer a question from retrieved memory items: a plain answer, or an answer with citations.

`answer_prompt.py` has the prompt. `PendingAnswers` collects answers that are requested while the memory stores more
messages.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from assay.core.errors import ModelError
from assay.core.memory import Message, Query, SearchHit
from assay.core.protocols import Asker
from assay.core.roles import SCHEMA
from assay.core.types import Failure, Request, Usage
from assay.core.usage import ANSWER
from assay.suites.memory.answer_prompt import MemoryPrompt, dated_text, numbered_line
from assay.suites.toolkit.json_reply import NoJsonError, find_json

_CITED_SCHEMA = {
    "type": "object",
    "properties": {
        "answer": {"type": "string", "maxLength": 150},
        "citations": {"type": "array", "items": {"type": "integer"}, "maxItems": 10},
    },
    "required": ["answer", "citations"],
}
_NUMBER = re.compile(r"\[?\s*(\d{1,9})\s*\]?")
# A shorter quotation occurs in many texts by chance.
_MIN_QUOTE = 8


class MemoryAnswer(Struct, frozen=True):
    """A plain answer. If the call failed, the text is empty and `failure` has the reason."""

    text: str
    seconds: float = 0.0
    usage: Usage | None = None
    failure: Failure | None = None


async def answer_question(
    asker: Asker,
    question: Query,
    hits: Sequence[SearchHit],
    prompt: MemoryPrompt,
    sessions: Sequence[Sequence[Message]] = (),
) -> MemoryAnswer:
    """Ask the model to answer from the hits. A failed call raises nothing; it sets `failure` of the answer.

    `sessions` is the conversation, for prompts that list items in order of time.
    """
    asker.purpose = ANSWER
    messages = prompt.messages(question, hits, sessions)
    request = Request(model=asker.name, endpoint=asker.endpoint, messages=messages, params=prompt.params)
    try:
        call = await asker.call(request)
    except ModelError as error:
        return MemoryAnswer("", failure=error.failure)
    assert call.response is not None
    return MemoryAnswer(call.response.text.strip(), call.seconds, call.response.usage)


class CitedAnswer(Struct, frozen=True, omit_defaults=True):
    """An answer with citations. `cited` has indices into the hits, from 0, or quoted texts."""

    answer: str
    cited: tuple[int | str, ...] = ()
    dropped: int = 0
    """Number of citations that match none of the hits."""
    loose: bool = False
    """True if the reply was not the requested JSON. The whole reply is then the answer, without citations."""
    plain: bool = False
    """True if the prompt asks for no citations. Coverage of citations then does not apply."""
    seconds: float = 0.0
    usage: Usage | None = None
    failure: Failure | None = None


async def answer_with_citations(
    asker: Asker, question: Query, hits: Sequence[SearchHit], prompt: MemoryPrompt, *, quotes: bool
) -> CitedAnswer:
    """Ask the model to answer from the hits and to cite them. A prompt that asks for no citations gets none.

    With `quotes`, a quoted part of a hit's text is a valid citation too. Raises nothing, as `answer_question`.
    """
    if not prompt.cites:
        plain = await answer_question(asker, question, hits, prompt)
        return CitedAnswer(plain.text, plain=True, seconds=plain.seconds, usage=plain.usage, failure=plain.failure)
    params = prompt.params
    if SCHEMA in asker.can:
        schema = {"name": "reply", "schema": _CITED_SCHEMA}
        params = {**params, "response_format": {"type": "json_schema", "json_schema": schema}}
    asker.purpose = ANSWER
    messages = prompt.messages(question, hits)
    request = Request(model=asker.name, endpoint=asker.endpoint, messages=messages, params=params)
    try:
        call = await asker.call(request)
    except ModelError as error:
        return CitedAnswer("", failure=error.failure)
    assert call.response is not None
    answer = parse_cited_answer(call.response.text, hits, quotes=quotes)
    return replace(answer, seconds=call.seconds, usage=call.response.usage)


def parse_cited_answer(reply: str, hits: Sequence[SearchHit], *, quotes: bool) -> CitedAnswer:
    """Read answer and citations from a reply. A reply that is not the requested JSON has no citations."""
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
        target = _find_citation(citation, hits, quotes=quotes)
        if target is None:
            dropped += 1
        else:
            cited[target] = None
    return CitedAnswer(str(data["answer"]).strip(), tuple(cited), dropped)


def _find_citation(citation: Any, hits: Sequence[SearchHit], *, quotes: bool) -> int | str | None:
    """Return the index of the cited hit, or the quoted text, or None if the citation matches no hit.

    A model may cite a hit by number, id or text, or copy its line of the prompt with date and number.
    """
    if isinstance(citation, int) and not isinstance(citation, bool):
        return citation - 1 if 0 < citation <= len(hits) else None
    if not isinstance(citation, str):
        return None
    text = citation.strip()
    if number := _NUMBER.fullmatch(text):
        return _find_citation(int(number[1]), hits, quotes=quotes)
    for index, hit in enumerate(hits):
        item = hit.item
        if text in (
            item.id,
            item.text.strip(),
            dated_text(item).strip(),
            numbered_line(index + 1, item).strip(),
        ):
            return index
    if quotes and len(text) >= _MIN_QUOTE and any(text in hit.item.text for hit in hits):
        return text
    return None


class PendingAnswers:
    """The answers of one try of a case. Their calls run while the memory stores more messages."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []
        self._failure: Failure | None = None

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a task. `wait` waits for it."""
        self._tasks.append(asyncio.get_running_loop().create_task(work))

    def add_failure(self, failure: Failure) -> None:
        """Record the failure of an answer. Only infrastructure failures make `raise_failure` raise."""
        if failure.status == "infra_error":
            self._failure = self._failure or failure

    async def wait(self) -> None:
        """Wait for all tasks, then raise the first exception of a task.

        The others are not cancelled: their calls are paid for, and their replies should be logged.
        """
        for result in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result

    def raise_failure(self) -> None:
        """Raise the first infrastructure failure. The next start of the run then repeats this case."""
        if self._failure is not None:
            raise ModelError(self._failure)
