"""The formats of replies: a result in the requested `return_format`, or the choice of a tool.

Each format has three uses: a description in words for the prompt, a JSON schema for endpoints with
structured output, and a check of the reply. Small models often ignore a format that is only described, but
follow a schema.

In the schemas a reason comes before the verdict that it leads to, so that the model reasons first. Reasons
have a maximum length, because a small model may write one without end.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from assay.files.excerpt import cut_end
from assay.suites.hop.result import HopStatus

Schema = dict[str, Any]
Tools = Mapping[str, Callable[..., Any]] | Iterable[Callable[..., Any]]

# An empty schema would allow any value too, but llama.cpp reads it as an object.
ANY_VALUE: Schema = {"type": ["string", "number", "boolean", "array", "object"]}
_SENTENCE: Schema = {"type": "string", "maxLength": 300}
_JSON_TYPES = {bool: "boolean", int: "number", float: "number", str: "string"}
_TYPE_WORDS = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}
_MAX_DOCSTRING = 600  # characters of a tool's docstring in the prompt
_KEYWORD_KINDS = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


# A `form` is the `return_format` of hop_get: words, a type, a dict of field names and forms, a list of one form, or a
# tuple with a form for each item of a list. None means any result. HOP writes a field of a dict as `(form, ...)`.


def describe_form(form: Any) -> str:
    """Return a description of the form for a prompt.

    A text is used as it is. A type without a description in `_TYPE_WORDS` is described by its JSON schema.
    """
    if form is None:
        return "a text, or what the task asks for"
    if isinstance(form, str):
        return form
    if isinstance(form, dict):
        fields = ", ".join(f'"{name!s}" ({describe_form(inner)})' for name, inner in form.items())
        return f"a JSON object with all of these fields: {fields}"
    if isinstance(form, list):
        return f"a JSON list; each item is {describe_form(form[0])}" if form else "a JSON list"
    if isinstance(form, tuple):
        if _is_field(form):
            return describe_form(form[0])
        items = ", ".join(map(describe_form, form))
        return f"a JSON list of exactly {len(form)} items: {items}"
    if isinstance(form, type) and form in _TYPE_WORDS:
        return _TYPE_WORDS[form]
    try:
        schema = msgspec.json.encode(msgspec.json.schema(form)).decode()
    except TypeError:
        adapter = _pydantic_adapter(form)
        if adapter is None:
            schema = getattr(form, "__name__", None) or repr(form)
        else:
            schema = msgspec.json.encode(adapter.json_schema()).decode()
    return f"JSON that meets this schema: {schema}"


def _is_field(form: tuple[Any, ...]) -> bool:
    """Return whether a tuple is a field in HOP's form: `(str, ...)` is a required text."""
    return len(form) == 2 and form[1] is ...


def _pydantic_adapter(form: Any) -> Any:
    """Return pydantic's TypeAdapter of a type that msgspec does not know. None if pydantic does not know it either.

    assay does not need pydantic. A user's model has imported it.
    """
    pydantic = sys.modules.get("pydantic")
    if pydantic is None:
        return None
    try:
        return pydantic.TypeAdapter(form)
    except Exception:  # noqa: BLE001 - an older pydantic, or a type that it does not know
        return None


def form_schema(form: Any, definitions: Schema) -> Schema:
    """Return the JSON schema of a form. A form in words allows any value.

    Adds the types that the schema references as `#/$defs/NAME` to `definitions`.
    """
    if form is None or isinstance(form, str):
        return ANY_VALUE
    if isinstance(form, dict):
        return object_schema({str(name): form_schema(inner, definitions) for name, inner in form.items()})
    if isinstance(form, list):
        return {"type": "array", "items": form_schema(form[0] if form else None, definitions)}
    if isinstance(form, tuple):
        if _is_field(form):
            return form_schema(form[0], definitions)
        items = [form_schema(inner, definitions) for inner in form]
        return {"type": "array", "prefixItems": items, "minItems": len(form), "maxItems": len(form)}
    try:
        (schema,), components = msgspec.json.schema_components([form])
    except TypeError:
        adapter = _pydantic_adapter(form)
        if adapter is None:
            return ANY_VALUE
        schema = adapter.json_schema()
        components = schema.pop("$defs", {})
    definitions.update(components)
    return schema or ANY_VALUE


def object_schema(fields: Schema, optional: frozenset[str] = frozenset()) -> Schema:
    """Return the schema of an object with exactly these fields, in this order."""
    required = [name for name in fields if name not in optional]
    return {"type": "object", "properties": fields, "required": required, "additionalProperties": False}


def form_problem(value: Any, form: Any, where: str = "result") -> str | None:
    """Return what is wrong with a value, or None. A form in words accepts every value.

    The message is feedback for the model, which is asked again.
    """
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
    if isinstance(form, tuple):
        if _is_field(form):
            return form_problem(value, form[0], where)
        if not isinstance(value, list) or len(value) != len(form):
            return f"{where} is not a JSON list of {len(form)} items"
        for index, (item, inner) in enumerate(zip(value, form, strict=True)):
            if problem := form_problem(item, inner, f"{where}[{index}]"):
                return problem
        return None
    try:
        msgspec.convert(value, form)
    except (msgspec.ValidationError, TypeError) as error:
        try:
            msgspec.json.schema(form)
        except TypeError:  # msgspec does not know this type, or a part of it
            return _pydantic_problem(value, form, where)
        return f"{where}: {error}"
    return None


def _pydantic_problem(value: Any, form: Any, where: str) -> str | None:
    """Return what pydantic finds wrong with a value, or None. A type that it does not know accepts every value."""
    adapter = _pydantic_adapter(form)
    if adapter is None:
        return None
    try:
        # Strict, because the function gets the value as it is: "1900" is no whole number.
        adapter.validate_json(msgspec.json.encode(value), strict=True)
    except sys.modules["pydantic"].ValidationError as error:
        errors = error.errors(include_url=False)
        return "; ".join(f"{'.'.join([where, *map(str, each['loc'])])}: {each['msg']}" for each in errors)
    return None


# Schemas of whole replies


VERDICT_SCHEMA: Schema = object_schema(
    {"reason": _SENTENCE, "verdict": {"enum": [status.value for status in HopStatus]}}
)


def result_schema(form: Any) -> Schema:
    """Return the schema of a hop_get reply: `{"result": ...}` or `{"missing_info": ...}`."""
    definitions: Schema = {}
    schema = _or_missing(object_schema({"result": form_schema(form, definitions)}))
    return {**schema, "$defs": definitions} if definitions else schema


def judgement_schema() -> Schema:
    """Return the schema of a hop_judge reply: a reason and a judgement, or `{"missing_info": ...}`."""
    judgement = {"enum": ["True", "False", "Uncertain"]}
    return _or_missing(object_schema({"reason": _SENTENCE, "result": judgement}))


def vote_schema(result: Any) -> Schema:
    """Return the schema of a `cross` vote: an own answer of the result's type, and whether both agree."""
    kind = _JSON_TYPES.get(type(result))
    answer = {"type": kind} if kind else ANY_VALUE
    return object_schema({"answer": answer, "reason": _SENTENCE, "agrees": {"type": "boolean"}})


def _or_missing(*results: Schema) -> Schema:
    return {"anyOf": [*results, object_schema({"missing_info": _SENTENCE})]}


# Tools


class Tool(NamedTuple):
    """A function that a model may choose. `signature` is None for callables that Python cannot inspect."""

    name: str
    function: Callable[..., Any]
    signature: inspect.Signature | None

    def describe(self) -> str:
        """Return one line for the prompt: name, parameters and docstring."""
        docstring = cut_end(" ".join((inspect.getdoc(self.function) or "").split()), _MAX_DOCSTRING)
        line = f"- {self.name}{self.signature or '(...)'}"
        return f"{line}: {docstring}" if docstring else line


def tools_by_name(tools: Tools) -> dict[str, Tool]:
    """Return the tools by name. Raises ValueError if there are none or if two have the same name."""
    if isinstance(tools, Mapping):
        pairs = [(str(name), function) for name, function in tools.items()]
    else:
        pairs = [(str(getattr(each, "__name__", None) or type(each).__name__), each) for each in tools]
    by_name = {name: Tool(name, function, _signature(function)) for name, function in pairs}
    if not by_name or len(by_name) < len(pairs):
        raise ValueError("hop_tool_use needs at least one tool, and each tool needs a unique name")
    return by_name


def choice_problem(choice: Any, tools: Mapping[str, Tool]) -> str | None:
    """Return why the chosen tool cannot be called with the chosen arguments, or None. Does not call it.

    The message is feedback for the model, which is asked again.
    """
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
    """Return the schema of a hop_tool_use reply: a tool with its arguments, or `{"missing_info": ...}`."""
    definitions: Schema = {}
    results = []
    for tool in tools.values():
        arguments = _arguments_schema(tool, definitions)
        choice = object_schema({"tool": {"const": tool.name}, "arguments": arguments})
        results.append(object_schema({"result": choice}))
    schema = _or_missing(*results)
    return {**schema, "$defs": definitions} if definitions else schema


def _arguments_schema(tool: Tool, definitions: Schema) -> Schema:
    """Return the schema of a tool's arguments. Any object is valid without a signature or with `**kwargs`."""
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
    """Return the signature. Annotations written as text are evaluated if possible."""
    for eval_str in (True, False):
        try:
            return inspect.signature(function, eval_str=eval_str)
        except Exception:  # noqa: BLE001, S112 - evaluating an annotation runs user code
            continue
    return None
