"""The form that a result is asked in: said in words and as a schema, and checked when it comes."""

from __future__ import annotations

from typing import Any

import msgspec

ANYTHING = "a text, or what the task asks for"
ANY_VALUE: dict[str, Any] = {"type": ["string", "number", "boolean", "array", "object"]}
"""The schema of any value. An empty one would say the same, but llama.cpp takes that for an object."""
_NAMED = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}


def described(form: Any) -> str:
    """In words for a prompt. A text is the user's own wording; a type without a word is shown as schema."""
    if form is None:
        return ANYTHING
    if isinstance(form, str):
        return form
    if isinstance(form, dict):
        fields = ", ".join(f'"{name!s}" ({described(inner)})' for name, inner in form.items())
        return f"a JSON object with all of these fields: {fields}"
    if isinstance(form, list):
        return f"a JSON list; each item is {described(form[0])}" if form else "a JSON list"
    if isinstance(form, type) and form in _NAMED:
        return _NAMED[form]
    return f"JSON that meets this schema: {_shown(form)}"


def schema_of(form: Any, shared: dict[str, Any]) -> dict[str, Any]:
    """As JSON schema; what it refers to as `#/$defs/NAME` is added to `shared`. Words are any value."""
    if form is None or isinstance(form, str):
        return ANY_VALUE
    if isinstance(form, dict):
        return fields_schema({str(name): schema_of(inner, shared) for name, inner in form.items()})
    if isinstance(form, list):
        return {"type": "array", "items": schema_of(form[0] if form else None, shared)}
    try:
        (found,), named = msgspec.json.schema_components([form])
    except TypeError:
        return ANY_VALUE
    shared.update(named)
    return found or ANY_VALUE


def fields_schema(fields: dict[str, Any], optional: frozenset[str] = frozenset()) -> dict[str, Any]:
    """An object with these fields, in this order, and no others."""
    needed = [name for name in fields if name not in optional]
    return {"type": "object", "properties": fields, "required": needed, "additionalProperties": False}


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


def _shown(form: Any) -> str:
    try:
        return msgspec.json.encode(msgspec.json.schema(form)).decode()
    except TypeError:
        return getattr(form, "__name__", None) or repr(form)
