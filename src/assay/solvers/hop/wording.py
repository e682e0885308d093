"""What models are asked, from the text files in `prompts/`. A new wording is a new version of its file."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from assay.core import prompts

VERSION = "v1"
_FOLDER = Path(__file__).with_name("prompts")
_SHOWN = 4_000
_MARK = 4

Messages = list[dict[str, Any]]


class Asked(NamedTuple):
    """What an operator was asked to do: the task, and what it may be based on as text."""

    task: str
    context: str


class Rejected(NamedTuple):
    """An earlier answer and why it was not accepted."""

    answer: str
    reason: str


def asked(task: Any, context: Any) -> Asked:
    """A context that is no text is shown as JSON."""
    return Asked(as_text(task), as_text(context) if context is not None else "")


def as_text(value: Any) -> str:
    """Text as it is, JSON values as JSON, and anything else as Python shows it."""
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.encode(value).decode()
    except Exception:  # noqa: BLE001 - any object may be handed in, and its encoding raise anything
        return repr(value)


def messages(name: str, what: Asked, values: Mapping[str, str], rejected: list[Rejected]) -> Messages:
    """The prompt of this name. Equal arguments give equal messages."""
    mark = _mark(what.task, what.context, *values.values(), *(text for each in rejected for text in each))
    shared = _parts("parts")
    feedback = [prompts.filled(shared["feedback"], {"mark": mark, **_shown(each)}) for each in rejected]
    context = (
        prompts.filled(shared["context"], {"mark": mark, "context": what.context}) if what.context else ""
    )
    known = {**values, "mark": mark, "task": what.task, "context": f"{context}\n\n" if context else ""}
    known["feedback"] = "".join(f"\n\n{each}" for each in feedback)
    parts = _parts(name)
    return [{"role": role, "content": prompts.filled(parts[role], known)} for role in ("system", "user")]


def fingerprint() -> str:
    """Of all prompts, since one run may ask with any of them."""
    return prompts.fingerprint(VERSION, *sorted(_FOLDER.glob(f"*.{VERSION}.txt")))


def _parts(name: str) -> dict[str, str]:
    return prompts.parts_of(_FOLDER / f"{name}.{VERSION}.txt")


def _shown(rejected: Rejected) -> dict[str, str]:
    return {"answer": cut(rejected.answer, _SHOWN), "reason": cut(rejected.reason, _SHOWN)}


def cut(text: str, most: int) -> str:
    """Its beginning, with a sign that there is more."""
    return text if len(text) <= most else f"{text[:most]}…"


def _mark(*values: str) -> str:
    """The shortest beginning of their hash that none of the texts holds: each digit is a token to a model."""
    full = hashlib.sha256("\0".join(values).encode(errors="surrogatepass")).hexdigest()
    found = (full[:size] for size in range(_MARK, len(full)))
    return next((mark for mark in found if not any(mark in text for text in values)), full)
