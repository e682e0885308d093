"""One question, answered from what a memory found. The prompt is a text file with a version."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from assay.core import prompts
from assay.core.errors import ModelError
from assay.core.memory import Found, Item
from assay.core.protocols import Asker
from assay.core.types import Failure, Request, Usage

PROMPT = Path(__file__).with_name("prompts") / "answer.v1.txt"
_PARAMS: dict[str, Any] = {"temperature": 0, "max_tokens": 64}
NOTHING = "(none)"


class Answer(Struct, frozen=True):
    """What was said. Where nothing could be, the text is empty and the failure says why."""

    text: str
    seconds: float = 0.0
    usage: Usage | None = None
    failure: Failure | None = None


async def answer(asker: Asker, question: str, found: Sequence[Found], prompt: Path = PROMPT) -> Answer:
    """The model's word; a failed call is this answer's failure."""
    request = Request(
        model=asker.name,
        endpoint=asker.endpoint,
        messages=messages(question, found, prompt),
        params=_PARAMS,
    )
    try:
        call = await asker.call(request)
    except ModelError as error:
        return Answer("", failure=error.failure)
    assert call.response is not None
    return Answer(call.response.text.strip(), call.seconds, call.response.usage)


def messages(question: str, found: Sequence[Found], prompt: Path = PROMPT) -> list[dict[str, Any]]:
    """The prompt with the memories in the order in which they were found."""
    lines = "\n".join(f"- {dated(one.item)}" for one in found) or NOTHING
    known = {"memories": lines, "question": question}
    parts = prompts.parts_of(prompt, *known)
    return [{"role": role, "content": prompts.filled(text, known)} for role, text in parts.items()]


def dated(item: Item) -> str:
    """A memory with its date: without it "yesterday" says nothing."""
    return f"({item.date}) {item.text}" if item.date else item.text


def fingerprint(prompt: Path = PROMPT) -> str:
    """Another wording may get another answer."""
    return prompts.fingerprint(prompt.stem, prompt)
