"""The form that a result is asked in: said to the model, and checked when it comes."""

from __future__ import annotations

from typing import Any

import msgspec

ANYTHING = "whatever fits the task: a text, or a JSON value"


def described(form: Any) -> str:
    """In words for a prompt. A text is the user's own wording; a type is shown as its JSON schema."""
    if form is None:
        return ANYTHING
    if isinstance(form, str):
        return form
    if isinstance(form, dict):
        fields = "; ".join(f"{name!s} ({described(inner)})" for name, inner in form.items())
        return f"a JSON object with all of these fields: {fields}"
    if isinstance(form, list):
        return f"a JSON list; each item: {described(form[0])}" if form else "a JSON list"
    return f"a JSON value that meets this schema: {_schema(form)}"


def mismatch(value: Any, form: Any, where: str = "result") -> str | None:
    """What is wrong with a value, or nothing. A form in words cannot be checked."""
    if form is None or isinstance(form, str):
        return None
    if isinstance(form, dict):
        return _object_mismatch(value, form, where)
    if isinstance(form, list):
        return _list_mismatch(value, form, where)
    try:
        msgspec.convert(value, form)
    except msgspec.ValidationError as error:
        return f"{where}: {error}"
    except TypeError:
        return None  # a type that nothing can check: the model was shown its name
    return None


def _object_mismatch(value: Any, form: dict[Any, Any], where: str) -> str | None:
    if not isinstance(value, dict):
        return f"{where} is not a JSON object"
    if missing := [str(name) for name in form if str(name) not in value]:
        return f"{where} lacks {', '.join(missing)}"
    found = (mismatch(value[str(name)], inner, f"{where}.{name}") for name, inner in form.items())
    return next((each for each in found if each), None)


def _list_mismatch(value: Any, form: list[Any], where: str) -> str | None:
    if not isinstance(value, list):
        return f"{where} is not a JSON list"
    inner = form[0] if form else None
    found = (mismatch(each, inner, f"{where}[{at}]") for at, each in enumerate(value))
    return next((each for each in found if each), None)


def _schema(form: Any) -> str:
    try:
        return msgspec.json.encode(msgspec.json.schema(form)).decode()
    except TypeError:
        return getattr(form, "__name__", None) or repr(form)
