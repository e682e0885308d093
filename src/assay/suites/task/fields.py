"""`doc_to_text` and its like as functions of a document: a column, a template, a constant or Python."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from assay.core.errors import InputError, Problem
from assay.core.templates import Template, TemplateProblem
from assay.core.yamlfile import FunctionRef
from assay.suites.task import functions
from assay.suites.task.config import CHOICE, TaskConfig

Document = dict[str, Any]
Render = Callable[[Document], Any]
_compiled = lru_cache(4096)(Template)


class BadDoc(Exception):
    """A document that cannot be asked, with the setting that fails on it."""


class Fields:
    """The settings of one task that are computed from a document, with those for few-shot examples."""

    def __init__(self, config: TaskConfig, columns: list[str]) -> None:
        self._config = config
        self._columns = frozenset(columns)
        values, shots = config.values, config.values["fewshot_config"]
        self.has_choices = values.get("doc_to_choice") is not None
        # Only there the question may be the number of a choice; elsewhere "7" is a text.
        self._inputs = self.has_choices and config.output == CHOICE
        self.text = self._field("doc_to_text", values["doc_to_text"], numbers=self._inputs)
        self.target = self._field("doc_to_target", values.get("doc_to_target"), numbers=self.has_choices)
        self.choice = self._field("doc_to_choice", values.get("doc_to_choice"))
        self.description = self._field("description", values["description"])
        self.prefix = self._field("gen_prefix", values.get("gen_prefix"))
        self.shot_text = self._shot("doc_to_text", shots)
        self.shot_target = self._shot("doc_to_target", shots)
        self.shot_choice = self._shot("doc_to_choice", shots)
        self.shot_prefix = self._shot("gen_prefix", shots)

    def where(self, key: str) -> str:
        """`file:line key` of a setting."""
        return self._config.where(key)

    def _shot(self, key: str, shots: dict[str, Any]) -> Render:
        """An example's setting: the task's own where it was not written for examples."""
        inherited = shots[key] == self._config.values.get(key)
        value = self._config.values.get(key) if shots[key] is None else shots[key]
        numbers = self._inputs if key == "doc_to_text" else self.has_choices
        return self._field(key, value, () if inherited else ("fewshot_config",), numbers=numbers)

    def _field(self, key: str, value: Any, above: tuple[str, ...] = (), *, numbers: bool = False) -> Render:
        where = self._config.where(*above, key)
        if isinstance(value, FunctionRef):
            return _called(functions.resolve(value, where), value.name, where)
        if isinstance(value, dict):
            value = list(value.values())
        if not isinstance(value, str):
            return lambda _doc: value
        if value in self._columns:
            return lambda doc: _column(doc, value, where)
        return _rendered(template(value, where), where, _reading(key, where, numbers=numbers))


def template(source: str, where: str) -> Template:
    """A compiled template. Tasks share them: each is compiled once."""
    try:
        return _compiled(source)
    except TemplateProblem as problem:
        raise InputError(Problem(where, str(problem))) from None


def _called(function: Callable[[Document], Any], name: str, where: str) -> Render:
    def field(doc: Document) -> Any:
        try:
            return function(doc)
        except Exception as error:
            raise BadDoc(f"{where}: !function {name} raised {type(error).__name__}: {error}") from error

    return field


def _rendered(compiled: Template, where: str, read: Callable[[str], Any] | None) -> Render:
    source, render = compiled.source, compiled.render

    def field(doc: Document) -> Any:
        if source in doc:  # a few-shot example given inline may have columns that the data set lacks
            return doc[source]
        try:
            text = render(doc)
        except TemplateProblem as problem:
            raise BadDoc(f"{where}: {problem}") from None
        return read(text) if read else text

    return field


def _reading(key: str, where: str, *, numbers: bool) -> Callable[[str], Any] | None:
    """What is made of a rendered text: a list for choices, a number or a list for targets."""
    if key == "doc_to_choice":
        return lambda text: _list(text, where)
    if key == "doc_to_target":
        return _number_or_list if numbers else _list_or_text
    return _number if key == "doc_to_text" and numbers else None


def _column(doc: Document, name: str, where: str) -> Any:
    if name not in doc:
        raise BadDoc(f"{where}: the document has no column {name!r}")
    return doc[name]


def _number(text: str) -> Any:
    return int(text) if text.isdecimal() else text


def _number_or_list(text: str) -> Any:
    return int(text) if text.isdecimal() else _list_or_text(text)


def _list_or_text(text: str) -> Any:
    """A target that reads as a Python list is several targets."""
    if len(text) >= 2 and text[0] == "[" and text[-1] == "]":
        try:
            return ast.literal_eval(text)
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            return text
    return text


def _list(text: str, where: str) -> list[Any]:
    try:
        value = ast.literal_eval(text)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        value = None
    if not isinstance(value, (list, tuple)):
        raise BadDoc(f"{where}: expected a list of choices, found {text[:80]!r}")
    return list(value)
