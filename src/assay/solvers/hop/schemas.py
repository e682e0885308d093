"""What every prompt wants for a reply, as JSON schema, for endpoints that hold a model to one.

A small model keeps to no form that it is only told of: held to these, it does. Reasons come before what they
lead to, and are bounded, since such a model may not find an end.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from assay.core.status import HopStatus
from assay.solvers.hop.formats import ANY_VALUE, fields_schema, schema_of
from assay.solvers.hop.tools import Tool

Schema = dict[str, Any]
_SENTENCE: Schema = {"type": "string", "maxLength": 300}
_PLAIN = {bool: "boolean", int: "number", float: "number", str: "string"}
_KEYWORDS = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)

_STATUS: Schema = {"enum": [each.value for each in HopStatus]}
VERDICT: Schema = fields_schema({"reason": _SENTENCE, "verdict": _STATUS})


def got(form: Any) -> Schema:
    """A result in this form, or what is missing."""
    shared: dict[str, Any] = {}
    schema = _or_missing(fields_schema({"result": schema_of(form, shared)}))
    return {**schema, "$defs": shared} if shared else schema


def judged() -> Schema:
    """One of three texts."""
    said = {"enum": ["True", "False", "Uncertain"]}
    return _or_missing(fields_schema({"reason": _SENTENCE, "result": said}))


def chosen(tools: Mapping[str, Tool]) -> Schema:
    """One of the tools with arguments that it takes."""
    shared: dict[str, Any] = {}
    choices = [
        fields_schema({"tool": {"const": tool.name}, "arguments": _arguments(tool, shared)})
        for tool in tools.values()
    ]
    schema = _or_missing(*(fields_schema({"result": choice}) for choice in choices))
    return {**schema, "$defs": shared} if shared else schema


def vote(result: Any) -> Schema:
    """An own answer of the result's kind, and whether both agree."""
    kind = _PLAIN.get(type(result))
    answer = {"type": kind} if kind else ANY_VALUE
    return fields_schema({"answer": answer, "reason": _SENTENCE, "agrees": {"type": "boolean"}})


def _or_missing(*results: Schema) -> Schema:
    return {"anyOf": [*results, fields_schema({"missing_info": _SENTENCE})]}


def _arguments(tool: Tool, shared: dict[str, Any]) -> Schema:
    """By the tool's signature; one that is not known, or takes any name, takes any object."""
    parameters = list(tool.signature.parameters.values()) if tool.signature else []
    if tool.signature is None or any(each.kind is each.VAR_KEYWORD for each in parameters):
        return {"type": "object"}
    named = [each for each in parameters if each.kind in _KEYWORDS]
    fields = {each.name: _argument(each, shared) for each in named}
    return fields_schema(fields, frozenset(each.name for each in named if each.default is not each.empty))


def _argument(parameter: inspect.Parameter, shared: dict[str, Any]) -> Schema:
    """A parameter without annotation, or with one in words, may be anything."""
    form = None if parameter.annotation is parameter.empty else parameter.annotation
    return schema_of(form, shared)
