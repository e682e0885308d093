"""What a reply has to be: a result in the form that was asked for, or the choice of a tool.

Each is said in words for the prompt, as a JSON schema for endpoints that hold a model to one, and checked
when the reply comes. A small model does not keep to a form that is only described: held to a schema, it
does. Reasons stand before what they lead to, and are bounded, since a small model may not find an end.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from assay.core.hop_result import HopStatus
from assay.solvers.hop.messages import shorten

Schema = dict[str, Any]
Tools = Mapping[str, Callable[..., Any]] | Iterable[Callable[..., Any]]

# An empty schema would say the same, but llama.cpp takes it for an object.
ANY_VALUE: Schema = {"type": ["string", "number", "boolean", "array", "object"]}
_SENTENCE: Schema = {"type": "string", "maxLength": 300}
_JSON_TYPES = {bool: "boolean", int: "number", float: "number", str: "string"}
_TYPE_WORDS = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}
_DOCSTRING_CHARACTERS = 600
_KEYWORD_KINDS = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


# The form of a result: words, a type, fields with words or types, or a list of such


def describe_form(form: Any) -> str:
    """In words for a prompt. A text is the user's own wording; a type without a word is shown as a schema."""
    if form is None:
        return "a text, or what the task asks for"
    if isinstance(form, str):
        return form
    if isinstance(form, dict):
        fields = ", ".join(f'"{name!s}" ({describe_form(inner)})' for name, inner in form.items())
        return f"a JSON object with all of these fields: {fields}"
    if isinstance(form, list):
        return f"a JSON list; each item is {describe_form(form[0])}" if form else "a JSON list"
    if isinstance(form, type) and form in _TYPE_WORDS:
        return _TYPE_WORDS[form]
    try:
        schema = msgspec.json.encode(msgspec.json.schema(form)).decode()
    except TypeError:
        schema = getattr(form, "__name__", None) or repr(form)
    return f"JSON that meets this schema: {schema}"


def form_schema(form: Any, definitions: Schema) -> Schema:
    """As a JSON schema. What it refers to as `#/$defs/NAME` is added to `definitions`. Words mean any value."""
    if form is None or isinstance(form, str):
        return ANY_VALUE
    if isinstance(form, dict):
        return object_schema({str(name): form_schema(inner, definitions) for name, inner in form.items()})
    if isinstance(form, list):
        return {"type": "array", "items": form_schema(form[0] if form else None, definitions)}
    try:
        (schema,), components = msgspec.json.schema_components([form])
    except TypeError:
        return ANY_VALUE
    definitions.update(components)
    return schema or ANY_VALUE


def object_schema(fields: Schema, optional: frozenset[str] = frozenset()) -> Schema:
    """An object with these fields, in this order, and no others."""
    required = [name for name in fields if name not in optional]
    return {"type": "object", "properties": fields, "required": required, "additionalProperties": False}


def form_problem(value: Any, form: Any, where: str = "result") -> str | None:
    """What is wrong with a value, or None. A form in words cannot be checked."""
    if form is None or isinstance(form, str):
        return None
    if isinstance(form, dict):
        if not isinstance(value, dict):
            return f"{where} is not a JSON object"
        if missing := [str(name) for name in form if str(name) not in value]:
            return f"{where} lacks {', '.join(missing)}"
        for name, inner in form.items():
            if problem := form_problem(value[str(name)], inner, f"{where}.{name}"):
                return problem
        return None
    if isinstance(form, list):
        if not isinstance(value, list):
            return f"{where} is not a JSON list"
        for index, item in enumerate(value):
            if problem := form_problem(item, form[0] if form else None, f"{where}[{index}]"):
                return problem
        return None
    try:
        msgspec.convert(value, form)
    except msgspec.ValidationError as error:
        return f"{where}: {error}"
    except TypeError:
        return None  # a type that nothing can check: the model was shown its name
    return None


# Schemas of whole replies


VERDICT_SCHEMA: Schema = object_schema(
    {"reason": _SENTENCE, "verdict": {"enum": [status.value for status in HopStatus]}}
)


def result_schema(form: Any) -> Schema:
    """A result in this form, or what is missing."""
    definitions: Schema = {}
    schema = _or_missing(object_schema({"result": form_schema(form, definitions)}))
    return {**schema, "$defs": definitions} if definitions else schema


def judgement_schema() -> Schema:
    """One of three texts, or what is missing."""
    judgement = {"enum": ["True", "False", "Uncertain"]}
    return _or_missing(object_schema({"reason": _SENTENCE, "result": judgement}))


def vote_schema(result: Any) -> Schema:
    """An answer of the same kind as the result, and whether both agree."""
    kind = _JSON_TYPES.get(type(result))
    answer = {"type": kind} if kind else ANY_VALUE
    return object_schema({"answer": answer, "reason": _SENTENCE, "agrees": {"type": "boolean"}})


def _or_missing(*results: Schema) -> Schema:
    return {"anyOf": [*results, object_schema({"missing_info": _SENTENCE})]}


# Tools


class Tool(NamedTuple):
    """A function under the name by which the model knows it. The signature is None where Python has none."""

    name: str
    function: Callable[..., Any]
    signature: inspect.Signature | None

    def describe(self) -> str:
        """One line: its name, its parameters, and its docstring."""
        docstring = shorten(" ".join((inspect.getdoc(self.function) or "").split()), _DOCSTRING_CHARACTERS)
        line = f"- {self.name}{self.signature or '(...)'}"
        return f"{line}: {docstring}" if docstring else line


def named_tools(tools: Tools) -> dict[str, Tool]:
    """From functions, or from functions by name. Raises ValueError for none, and for one name twice."""
    if isinstance(tools, Mapping):
        pairs = [(str(name), function) for name, function in tools.items()]
    else:
        pairs = [(str(getattr(each, "__name__", None) or type(each).__name__), each) for each in tools]
    named = {name: Tool(name, function, _signature(function)) for name, function in pairs}
    if not named or len(named) < len(pairs):
        raise ValueError("hop_tool_use needs tools, each with a name of its own")
    return named


def choice_problem(choice: Any, tools: Mapping[str, Tool]) -> str | None:
    """Why this choice of a tool could not be run, as far as can be seen without running it."""
    if not isinstance(choice, dict) or not isinstance(choice.get("tool"), str):
        return 'the result is not {"tool": "<name>", "arguments": {...}}'
    tool, arguments = tools.get(choice["tool"]), choice.get("arguments", {})
    if tool is None:
        return f"there is no tool {choice['tool']!r}; there are: {', '.join(tools)}"
    if not isinstance(arguments, dict):
        return f"the arguments of {tool.name} are not a JSON object"
    if tool.signature is not None:
        try:
            tool.signature.bind(**arguments)
        except TypeError as error:
            return f"{tool.name}: {error}"
    return None


def choice_schema(tools: Mapping[str, Tool]) -> Schema:
    """One of the tools with arguments that it takes, or what is missing."""
    definitions: Schema = {}
    results = []
    for tool in tools.values():
        arguments = _arguments_schema(tool, definitions)
        choice = object_schema({"tool": {"const": tool.name}, "arguments": arguments})
        results.append(object_schema({"result": choice}))
    schema = _or_missing(*results)
    return {**schema, "$defs": definitions} if definitions else schema


def _arguments_schema(tool: Tool, definitions: Schema) -> Schema:
    """By the tool's signature; one without a signature, or with `**names`, takes any object."""
    if tool.signature is None:
        return {"type": "object"}
    fields: Schema = {}
    optional = set()
    for parameter in tool.signature.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            return {"type": "object"}
        if parameter.kind in _KEYWORD_KINDS:
            form = None if parameter.annotation is parameter.empty else parameter.annotation
            fields[parameter.name] = form_schema(form, definitions)
            if parameter.default is not parameter.empty:
                optional.add(parameter.name)
    return object_schema(fields, frozenset(optional))


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    """With the types that annotations name, where these can be looked up."""
    for eval_str in (True, False):
        try:
            return inspect.signature(function, eval_str=eval_str)
        except Exception:  # noqa: BLE001, S112 - an annotation is code of the user's and may raise anything
            continue
    return None
