"""Builds what is asked of each document: description, few-shot examples and question, as text or as turns."""

from __future__ import annotations

import ast
import json
import random
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from assay.core.errors import InputError, Problem
from assay.core.templates import Template, TemplateProblem
from assay.suites.task.config import TaskConfig

Document = dict[str, Any]
Render = Callable[[Document], Any]


class Turn(Struct, frozen=True):
    """One message; `after` follows it where turns become one text."""

    role: str
    content: str
    after: str = ""


class BadDoc(Exception):
    """A document that cannot be asked, with the setting that fails on it."""


class PromptBuilder:
    """The prompts of one task. Templates are compiled once; a fixed few-shot part is rendered once."""

    def __init__(self, config: TaskConfig, columns: list[str], *, num_fewshot: int, seed: int) -> None:
        self._config = config
        self._columns = frozenset(columns)
        self._shots = num_fewshot
        values, fewshot = config.values, config.values["fewshot_config"]
        self._text = self._field("doc_to_text", values["doc_to_text"])
        self._target = self._field("doc_to_target", values["doc_to_target"])
        self._description = self._field("description", values["description"])
        self._prefix = self._field("gen_prefix", values.get("gen_prefix"))
        self._has_prefix = bool(values.get("gen_prefix"))
        self._shot_text = self._shot_field("doc_to_text", fewshot)
        self._shot_target = self._shot_field("doc_to_target", fewshot)
        self._shot_prefix = self._shot_field("gen_prefix", fewshot)
        self._delimiter = values["target_delimiter"]
        self._sampler = Sampler(config, num_fewshot, seed)
        self._fixed: list[Turn] | None = None

    def give_examples(self, pool: list[Document], *, same_split: bool) -> None:
        """The documents few-shot examples are drawn from."""
        self._sampler.give(pool, same_split=same_split)

    def draw(self, doc: Document | None) -> list[Document]:
        """The examples for the next document. Called for skipped documents too: it is one stream."""
        return self._sampler.draw(doc) if self._shots else []

    @property
    def draws_matter(self) -> bool:
        """Whether each document takes from the random stream."""
        return bool(self._shots) and not self._sampler.fixed

    def turns(self, doc: Document, examples: list[Document]) -> list[Turn]:
        """Everything that is asked, in order."""
        description = self._description(doc) if self._config.values["description"] else ""
        turns = [Turn("system", description)] if description else []
        if examples:
            turns += self._example_turns(examples)
        return turns + self._question(doc)

    def _example_turns(self, examples: list[Document]) -> list[Turn]:
        if self._sampler.fixed:
            if self._fixed is None:
                self._fixed = [turn for example in examples for turn in self._example(example)]
            return self._fixed
        return [turn for example in examples for turn in self._example(example)]

    def _example(self, doc: Document) -> list[Turn]:
        fewshot = self._config.values["fewshot_config"]
        question, answer = self._shot_text(doc), self._shot_target(doc)
        prefix = self._shot_prefix(doc)
        if isinstance(answer, list):
            answer = answer[0] if answer else ""
        after = fewshot["target_delimiter"]
        if answer in (None, ""):
            return [Turn("user", _text(question))]
        if prefix and not _needs_delimiter(question, prefix):
            after = ""
        return [
            Turn("user", _text(question), after),
            Turn("assistant", joined(prefix, _text(answer), " "), fewshot["fewshot_delimiter"]),
        ]

    def _question(self, doc: Document) -> list[Turn]:
        question = _text(self._text(doc))
        prefix = self._prefix(doc) if self._has_prefix else None
        if not prefix:
            return [Turn("user", question)]
        after = self._delimiter if _needs_delimiter(question, prefix) else ""
        return [Turn("user", question, after), Turn("assistant", prefix)]

    def target(self, doc: Document) -> Any:
        """The expected answer: text, or a list where any of several is right."""
        return self._target(doc)

    def _shot_field(self, key: str, fewshot: dict[str, Any]) -> Render:
        inherited = fewshot[key] == self._config.values.get(key)
        place = (key,) if inherited else ("fewshot_config", key)
        return self._field(key, fewshot[key], place)

    def _field(self, key: str, value: Any, place: tuple[str, ...] = ()) -> Render:
        """A setting as a function of the document: a column's name, a template, or a constant."""
        where = self._config.where(*(place or (key,)))
        if value is None or not isinstance(value, str):
            return lambda _doc: value
        if value in self._columns:
            return lambda doc: _column(doc, value, where)
        return _templated(_compiled(value, where), where, as_list=key == "doc_to_target")


def _templated(template: Template, where: str, *, as_list: bool) -> Render:
    source, render = template.source, template.render

    def field(doc: Document) -> Any:
        if source in doc:  # a few-shot example given inline may have columns that the data set lacks
            return doc[source]
        try:
            text = render(doc)
        except TemplateProblem as problem:
            raise BadDoc(f"{where}: {problem}") from None
        return _list_or_text(text) if as_list and text[:1] == "[" else text

    return field


def _compiled(source: str, where: str) -> Template:
    try:
        return Template(source)
    except TemplateProblem as problem:
        raise InputError(Problem(where, str(problem))) from None


def _column(doc: Document, name: str, where: str) -> Any:
    if name not in doc:
        raise BadDoc(f"{where}: the document has no column {name!r}")
    return doc[name]


def _list_or_text(text: str) -> Any:
    """A target that reads as a Python list is several targets."""
    if len(text) >= 2 and text[0] == "[" and text[-1] == "]":
        try:
            return ast.literal_eval(text)
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            return text
    return text


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise BadDoc(f"expected text in the prompt, found {value!r}")
    return value


def joined(before: str | None, text: str, delimiter: str) -> str:
    """Two texts with a delimiter between, unless white space is there already."""
    if not before or not text:
        return (before or "") + text
    return before + text if before[-1].isspace() or text[0].isspace() else before + delimiter + text


def _needs_delimiter(before: str, after: str) -> bool:
    return bool(before) and not (before[-1].isspace() or after[0].isspace())


def as_text(turns: list[Turn]) -> str:
    """One prompt for models that continue text."""
    return "".join([turn.content + turn.after for turn in turns])


def as_messages(turns: list[Turn]) -> list[dict[str, str]]:
    """User and assistant turns for chat models, without delimiters."""
    return [{"role": turn.role, "content": turn.content} for turn in turns]


def messages_json(messages: list[dict[str, str]]) -> str:
    """The text whose hash is `prompt_hash` for chat."""
    return json.dumps(messages, ensure_ascii=False)


class Sampler:
    """Chooses few-shot examples: the first n, or n at random from one stream over all documents."""

    def __init__(self, config: TaskConfig, shots: int, seed: int) -> None:
        fewshot = config.values["fewshot_config"]
        self._where = config.where("fewshot_config", "sampler")
        self._first = fewshot["sampler"] == "first_n"
        if shots and fewshot["sampler"] not in ("first_n", "default"):
            raise InputError(
                Problem(self._where, f"there is no sampler {fewshot['sampler']!r}; use first_n or default")
            )
        self._indices = fewshot["fewshot_indices"]
        self._random = random.Random(seed)  # noqa: S311
        self._shots = shots
        self._pool: list[Document] = []
        self._same_split = False

    @property
    def fixed(self) -> bool:
        """Whether every document gets the same examples."""
        return self._first and not self._same_split

    def give(self, pool: list[Document], *, same_split: bool) -> None:
        """Take the pool; too small a pool is refused before anything is asked."""
        if self._indices:
            pool = [pool[index] for index in self._indices if index < len(pool)]
        needed = self._shots + (1 if same_split else 0)
        if len(pool) < needed:
            raise InputError(Problem(self._where, f"{needed} examples are needed, there are {len(pool)}"))
        self._pool = pool
        self._same_split = same_split

    def draw(self, doc: Document | None) -> list[Document]:
        """The examples for one document, which is never among them."""
        shots = self._shots
        if self._first:
            others = self._pool if not self._same_split else [other for other in self._pool if other != doc]
            return others[:shots]
        if not self._same_split:
            return self._random.sample(self._pool, shots)
        drawn = [other for other in self._random.sample(self._pool, shots + 1) if other != doc][:shots]
        if len(drawn) < shots:
            drawn = self._random.sample([other for other in self._pool if other != doc], shots)
        return drawn
