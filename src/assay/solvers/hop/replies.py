"""What a model answered: a result, that information is missing, or nothing that can be read."""

from __future__ import annotations

from typing import Any, NamedTuple

from assay.solvers.hop.wording import as_text
from assay.solvers.json_reply import NoJsonError, find_json

_JUDGEMENTS = {"true": "True", "false": "False", "uncertain": "Uncertain"}


class Unreadable(Exception):
    """The reply is not in the form that was asked for; the message is feedback for the next attempt."""


class Reply(NamedTuple):
    """A result, or what is missing to have one."""

    result: Any
    missing: str | None = None


def read_object(text: str) -> dict[str, Any]:
    """The one JSON object of a reply, perhaps in a code fence or with words around it."""
    try:
        found = find_json(text)
    except NoJsonError:
        cut_off = text.lstrip().startswith("{")
        told = (
            "the JSON object had no end; keep it short" if cut_off else "the answer was not one JSON object"
        )
        raise Unreadable(told) from None
    if not isinstance(found, dict):
        raise Unreadable("the answer was not a JSON object")
    return found


def read_reply(text: str, form: Any = None) -> Reply:
    """`{"result": ...}` or `{"missing_info": ...}`; the asked fields without `result` around them will do."""
    found = read_object(text)
    if "result" in found:
        return Reply(found["result"])
    if missing := found.get("missing_info"):
        return Reply(None, as_text(missing))
    if isinstance(form, dict) and form and all(str(name) in found for name in form):
        return Reply(found)
    raise Unreadable('the JSON object had neither "result" nor "missing_info"')


def read_judgement(value: Any) -> str:
    """One of "True", "False" and "Uncertain"; JSON's true and false are taken as meant."""
    found = _JUDGEMENTS.get(str(value).strip().lower()) if isinstance(value, (str, bool)) else None
    if found is None:
        raise Unreadable(f'the result was {as_text(value)[:100]}, not "True", "False" or "Uncertain"')
    return found
