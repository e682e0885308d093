"""The form of a Hoplet's inputs: one widget for each field of the contract, and how its text becomes a value.

widgets = make_widgets(contract, {"claim": "…"})     # to show the form with these values
fields, problems = read_widgets(contract, form)      # what a person has sent
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any, Literal

import msgspec
from msgspec import Struct

from assay.suites.hop.contract import Contract, InputForm
from assay.view.text import as_text

WidgetKind = Literal["text", "number", "choice", "check", "json"]
EVERYTHING = "fields"
"""The name of the only widget of a task without a contract: all inputs as one JSON object."""
_KINDS: dict[str, WidgetKind] = {
    "string": "text",
    "int": "number",
    "float": "number",
    "bool": "check",
    "array": "json",
    "object": "json",
}
_NO_INPUTS = Contract(inputs={EVERYTHING: "object"}, forms={EVERYTHING: InputForm(label="All inputs")})


class Choice(Struct):
    """One choice of a widget. `value` is JSON, so that 1 and "1" differ."""

    value: str
    title: str
    is_selected: bool


class Widget(Struct, kw_only=True):
    """One field of the form. `id` is its name in the form."""

    id: str
    name: str
    label: str
    hint: str
    kind: WidgetKind
    type: str
    is_optional: bool
    value: str = ""
    choices: list[Choice] = []
    problem: str = ""


def make_widgets(
    contract: Contract,
    values: Mapping[str, Any],
    texts: Mapping[str, str] | None = None,
    problems: Mapping[str, str] | None = None,
) -> list[Widget]:
    """Return the widgets with their values. `texts` are what a person typed, by id; they win over `values`."""
    contract, is_whole = (contract, False) if contract.inputs else (_NO_INPUTS, True)
    if is_whole and values:
        values = {EVERYTHING: values}
    widgets = []
    for number, (name, type_) in enumerate(contract.inputs.items()):
        form = contract.forms.get(name, InputForm())
        widget = Widget(
            id=f"in-{number}",
            name=name,
            label=form.label or name,
            hint=form.description,
            kind="choice" if form.choices else _KINDS.get(type_, "json"),
            type=type_,
            is_optional=name in contract.optional,
            problem=(problems or {}).get(name, ""),
        )
        if texts is not None:
            widget.value = texts.get(widget.id, "")
        elif name in values:
            widget.value = _as_input(values[name], widget.kind)
        # A check box cannot say "no value".
        choices = [True, False] if type_ == "bool" and widget.is_optional else form.choices
        if choices:
            widget.kind = "choice"
            if name in values and texts is None:
                widget.value = _json(values[name])
            widget.choices = [
                Choice(_json(choice), as_text(choice), _json(choice) == widget.value) for choice in choices
            ]
        widgets.append(widget)
    return widgets


def read_widgets(contract: Contract, form: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the values of a form, and a problem for each field that has no valid one."""
    fields: dict[str, Any] = {}
    problems: dict[str, str] = {}
    for widget in make_widgets(contract, {}, form):
        text = form.get(widget.id, "")
        if widget.kind == "check":
            fields[widget.name] = text == "true"
            continue
        if not text.strip():
            if not widget.is_optional:
                problems[widget.name] = "This field needs a value."
            continue
        try:
            fields[widget.name] = _read(text, widget)
        except ValueError as error:
            problems[widget.name] = str(error)
    if not contract.inputs and EVERYTHING in fields:
        fields = fields[EVERYTHING]
    return fields, problems


def _read(text: str, widget: Widget) -> Any:
    """Return the value of a text. Raises ValueError with a sentence for people."""
    # Browsers send line breaks as CR LF.
    text = text.replace("\r\n", "\n")
    if widget.kind == "text":
        return text
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        if widget.type == "any":
            return text
        if widget.kind == "number":
            raise ValueError("This field needs a number.") from None
        raise ValueError(f"This is not JSON: {error}") from None
    except UnicodeEncodeError:
        raise ValueError("This text has half a character, which cannot be sent.") from None
    if widget.kind == "choice" and text not in [choice.value for choice in widget.choices]:
        raise ValueError("Choose one of the values.")
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and isfinite(value)
    if widget.type in ("int", "float") and not is_number:
        raise ValueError("This field needs a number.")
    if widget.type == "int" and not isinstance(value, int):
        raise ValueError("This field needs a whole number.")
    for type_, kind, what in (("array", list, "a list [ ]"), ("object", dict, "an object { }")):
        if widget.type == type_ and not isinstance(value, kind):
            raise ValueError(f"This field needs {what}.")
    return value


def _as_input(value: Any, kind: WidgetKind) -> str:
    if kind == "check":
        return "true" if value is True else ""
    return value if kind == "text" and isinstance(value, str) else as_text(value)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
