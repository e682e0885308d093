"""What the operators ask models, and how the replies are read.

The wording stands in the text files of `prompts/`. A new wording is a new version of its file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from assay.core import prompts
from assay.solvers.json_reply import NoJsonError, find_json

VERSION = "v1"
_FOLDER = Path(__file__).with_name("prompts")
_REJECTED_CHARACTERS = 4_000
_MARK_CHARACTERS = 4
_JUDGEMENTS = {"true": "True", "false": "False", "uncertain": "Uncertain"}

Messages = list[dict[str, Any]]


class TaskText(NamedTuple):
    """What an operator has to do, and the context it may use, both as text."""

    task: str
    context: str


class RejectedAnswer(NamedTuple):
    """An earlier answer and why it was not accepted."""

    answer: str
    reason: str


class UnreadableReply(Exception):
    """The reply is not in the form that was asked for; the message is feedback for the next attempt."""


class OperatorReply(NamedTuple):
    """A result, or what is missing to have one."""

    result: Any
    missing: str | None = None


def task_text(task: Any, context: Any) -> TaskText:
    """Task and context as text; a context of None is empty."""
    return TaskText(as_text(task), as_text(context) if context is not None else "")


def as_text(value: Any) -> str:
    """Text as it is, JSON values as JSON, and anything else as Python shows it."""
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.encode(value).decode()
    except Exception:  # noqa: BLE001 - any object may be handed in, and its encoding raise anything
        return repr(value)


def build_messages(
    name: str, text: TaskText, values: Mapping[str, str], rejected: list[RejectedAnswer]
) -> Messages:
    """The prompt of this name, filled in. Equal arguments give equal messages.

    Context and earlier answers stand between markers that none of the texts contains, so that no text can
    pretend to end before it does.
    """
    mark = _unused_mark(
        [text.task, text.context, *values.values(), *(part for answer in rejected for part in answer)]
    )
    shared = _prompt_parts("parts")
    context = ""
    if text.context:
        context = prompts.filled(shared["context"], {"mark": mark, "context": text.context}) + "\n\n"
    feedback = ""
    for answer in rejected:
        shown = {
            "mark": mark,
            "answer": shorten(answer.answer, _REJECTED_CHARACTERS),
            "reason": shorten(answer.reason, _REJECTED_CHARACTERS),
        }
        feedback += "\n\n" + prompts.filled(shared["feedback"], shown)
    places = {**values, "mark": mark, "task": text.task, "context": context, "feedback": feedback}
    parts = _prompt_parts(name)
    return [{"role": role, "content": prompts.filled(parts[role], places)} for role in ("system", "user")]


def fingerprint() -> str:
    """Of all prompts together, since one run may ask with any of them."""
    return prompts.fingerprint(VERSION, *sorted(_FOLDER.glob(f"*.{VERSION}.txt")))


def shorten(text: str, most: int) -> str:
    """Its beginning, with a sign that there is more."""
    return text if len(text) <= most else f"{text[:most]}…"


def _prompt_parts(name: str) -> dict[str, str]:
    return prompts.parts_of(_FOLDER / f"{name}.{VERSION}.txt")


def _unused_mark(texts: list[str]) -> str:
    """The shortest beginning of their hash that none of the texts contains: every digit is a token to a model."""
    digest = hashlib.sha256("\0".join(texts).encode(errors="surrogatepass")).hexdigest()
    for size in range(_MARK_CHARACTERS, len(digest)):
        mark = digest[:size]
        if not any(mark in text for text in texts):
            return mark
    return digest


# Replies


def read_object(text: str) -> dict[str, Any]:
    """The one JSON object of a reply, perhaps in a code fence or with words around it."""
    try:
        value = find_json(text)
    except NoJsonError:
        if text.lstrip().startswith("{"):
            raise UnreadableReply("the JSON object had no end; keep it short") from None
        raise UnreadableReply("the answer was not one JSON object") from None
    if not isinstance(value, dict):
        raise UnreadableReply("the answer was not a JSON object")
    return value


def read_reply(text: str, form: Any = None) -> OperatorReply:
    """`{"result": ...}` or `{"missing_info": ...}`; the fields of the form without `result` around them do too."""
    reply = read_object(text)
    if "result" in reply:
        return OperatorReply(reply["result"])
    if missing := reply.get("missing_info"):
        return OperatorReply(None, as_text(missing))
    if isinstance(form, dict) and form and all(str(name) in reply for name in form):
        return OperatorReply(reply)
    raise UnreadableReply('the JSON object had neither "result" nor "missing_info"')


def read_judgement(value: Any) -> str:
    """One of "True", "False" and "Uncertain"; JSON's true and false are accepted."""
    judgement = _JUDGEMENTS.get(str(value).strip().lower()) if isinstance(value, (str, bool)) else None
    if judgement is None:
        raise UnreadableReply(f'the result was {as_text(value)[:100]}, not "True", "False" or "Uncertain"')
    return judgement
