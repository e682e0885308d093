"""Builds the prompts of the operators and reads the replies.

The prompts are text files in `prompts/`. A changed prompt gets a new version number in its file name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from assay.files.excerpt import cut_end
from assay.language import prompts
from assay.suites.toolkit.json_reply import NoJsonError, find_json

VERSION = "v1"
_FOLDER = Path(__file__).with_name("prompts")
_MAX_REJECTED = 4_000  # characters of a rejected answer, and of the reason, that the next prompt repeats
_MIN_MARK = 4
_JUDGEMENTS = {"true": "True", "false": "False", "uncertain": "Uncertain"}

Messages = list[dict[str, Any]]


class TaskText(NamedTuple):
    """The task of an operator and the context for it, both as text."""

    task: str
    context: str


class RejectedAnswer(NamedTuple):
    """An earlier answer, and the reason why it was not accepted."""

    answer: str
    reason: str


class UnreadableReply(Exception):
    """The reply does not have the requested format. The message is feedback for the next attempt."""


class OperatorReply(NamedTuple):
    """The result, or the information that the model needs for one (`missing`)."""

    result: Any
    missing: str | None = None


def task_text(task: Any, context: Any) -> TaskText:
    """Return task and context as text. A context of None becomes ""."""
    return TaskText(as_text(task), as_text(context) if context is not None else "")


def as_text(value: Any) -> str:
    """Return a text unchanged, a JSON value as JSON, and any other object as its repr."""
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.encode(value).decode()
    except Exception:  # noqa: BLE001 - an object of user code may raise anything while it is encoded
        return repr(value)


def build_messages(name: str, text: TaskText, values: Mapping[str, str], rejected: list[RejectedAnswer]) -> Messages:
    """Return the messages of the prompt `name`. Equal arguments give equal messages, so replies can be replayed.

    Context and earlier answers are enclosed in markers that occur in none of the texts. A text can therefore
    not end its section early and inject instructions.
    """
    mark = _unused_mark([text.task, text.context, *values.values(), *(part for answer in rejected for part in answer)])
    shared = _prompt_parts("parts")
    context = ""
    if text.context:
        context = prompts.fill(shared["context"], {"mark": mark, "context": text.context}) + "\n\n"
    feedback = ""
    for answer in rejected:
        variables = {
            "mark": mark,
            "answer": cut_end(answer.answer, _MAX_REJECTED),
            "reason": cut_end(answer.reason, _MAX_REJECTED),
        }
        feedback += "\n\n" + prompts.fill(shared["feedback"], variables)
    places = {**values, "mark": mark, "task": text.task, "context": context, "feedback": feedback}
    parts = _prompt_parts(name)
    return [{"role": role, "content": prompts.fill(parts[role], places)} for role in ("system", "user")]


def fingerprint() -> str:
    """Return one fingerprint of all prompts, because a run may use any of them."""
    return prompts.prompt_version(VERSION, *sorted(_FOLDER.glob(f"*.{VERSION}.txt")))


def _prompt_parts(name: str) -> dict[str, str]:
    return prompts.read_parts(_FOLDER / f"{name}.{VERSION}.txt")


def _unused_mark(texts: list[str]) -> str:
    """Return a marker that occurs in none of the texts.

    It is the shortest usable prefix of the hash of the texts, because each digit costs tokens.
    """
    digest = hashlib.sha256("\0".join(texts).encode(errors="surrogatepass")).hexdigest()
    for size in range(_MIN_MARK, len(digest)):
        mark = digest[:size]
        if not any(mark in text for text in texts):
            return mark
    return digest


# Replies


def read_object(text: str) -> dict[str, Any]:
    """Return the JSON object of a reply. It may be in a code fence or surrounded by text."""
    try:
        value = find_json(text)
    except NoJsonError:
        # The reply was cut off, usually by the token limit.
        if text.lstrip().startswith("{"):
            raise UnreadableReply("the JSON object had no end; keep it short") from None
        raise UnreadableReply("the answer was not one JSON object") from None
    if not isinstance(value, dict):
        raise UnreadableReply("the answer was not a JSON object")
    return value


def read_reply(text: str, form: Any = None) -> OperatorReply:
    """Read `{"result": ...}` or `{"missing_info": ...}`. Raises UnreadableReply for anything else.

    An object with all fields of the form is accepted without `result` around it: small models often omit it.
    """
    reply = read_object(text)
    if "result" in reply:
        return OperatorReply(reply["result"])
    if missing := reply.get("missing_info"):
        return OperatorReply(None, as_text(missing))
    if isinstance(form, dict) and form and all(str(name) in reply for name in form):
        return OperatorReply(reply)
    raise UnreadableReply('the JSON object had neither "result" nor "missing_info"')


def read_judgement(value: Any) -> str:
    """Return "True", "False" or "Uncertain". Accepts any case, and JSON's true and false."""
    judgement = _JUDGEMENTS.get(str(value).strip().lower()) if isinstance(value, (str, bool)) else None
    if judgement is None:
        text = cut_end(as_text(value), 100)
        raise UnreadableReply(f'the result was {text}, not "True", "False" or "Uncertain"')
    return judgement
