"""Builds what is asked of each document: description, few-shot examples and question, as text or as messages.

`DocumentFields` computes the settings of a task from a document (`doc_to_text` and the like). `FewshotSampler`
chooses the examples. `PromptBuilder` puts both together in the order of lm-evaluation-harness.
"""

from __future__ import annotations

import ast
import json
import random
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from typing import Any

from msgspec import Struct

from assay.core.errors import InputError, Problem
from assay.core.templates import Template, TemplateProblem
from assay.core.user_code import UserCodeError, call_here
from assay.core.yamlfile import FunctionRef
from assay.suites.task.config import CHOICE, TaskConfig, import_function

Document = dict[str, Any]
FieldFunction = Callable[[Document], Any]
# Thousands of tasks share their templates.
_compile = lru_cache(4096)(Template)


class BadDocument(Exception):
    """A document that cannot be asked. The message names the setting that fails on it.

    `traceback` is that of the task's own code, if it raised.
    """

    def __init__(self, message: str, traceback: str = "") -> None:
        super().__init__(message)
        self.traceback = traceback


class PromptTurn(Struct, frozen=True):
    """One message. `after` follows it where turns become one text."""

    role: str
    content: str
    after: str = ""


class PromptBuilder:
    """The prompts of one task. Examples that are the same for every document are rendered once."""

    def __init__(
        self, config: TaskConfig, fields: DocumentFields, sampler: FewshotSampler, system: str | None
    ) -> None:
        values, fewshot = config.values, config.values["fewshot_config"]
        self.fields = fields
        self.sampler = sampler
        self._system = system
        self._has_description = bool(values["description"])
        self._has_prefix = bool(values.get("gen_prefix"))
        self._shots = values["num_fewshot"]
        self._target_delimiter = values["target_delimiter"]
        self._fewshot_delimiter = values["fewshot_delimiter"]
        self._shot_target_delimiter = fewshot["target_delimiter"]
        self._shot_fewshot_delimiter = fewshot["fewshot_delimiter"]
        self._fixed_turns: list[PromptTurn] | None = None

    def render_fixed_examples(self) -> None:
        """Render fixed examples now. If they fail, the documents that show them report it."""
        if self._shots and self.sampler.is_fixed:
            with suppress(BadDocument):
                self._example_turns(self.sampler.draw(None))

    def draw(self, document: Document | None) -> list[Document]:
        """The examples for the next document. Must be called for skipped documents too: it is one stream."""
        return self.sampler.draw(document) if self._shots else []

    @property
    def draws_matter(self) -> bool:
        """Whether each document takes from the random stream."""
        return bool(self._shots) and not self.sampler.is_fixed

    def contexts(self, document: Document, examples: list[Document]) -> list[list[PromptTurn]]:
        """Everything that is asked, in order. There are several contexts if the choices are the questions."""
        fields = self.fields
        description = fields.description(document) if self._has_description else ""
        system = join(self._system, description or "", self._fewshot_delimiter)
        before = [PromptTurn("system", system)] if system else []
        if examples:
            before = before + self._example_turns(examples)
        prefix = fields.prefix(document) if self._has_prefix else None
        question = fields.text(document)
        if isinstance(question, int) and fields.has_choices:
            # As in Winogrande: every choice is a question, and there is one continuation.
            return [before + self._question(choice, prefix, "") for choice in choices_of(fields, document)]
        return [before + self._question(self._text(question), prefix, self._target_delimiter)]

    def _example_turns(self, examples: list[Document]) -> list[PromptTurn]:
        if self._fixed_turns is not None:
            return self._fixed_turns
        turns = [turn for example in examples for turn in self._example(example)]
        if self.sampler.is_fixed:
            self._fixed_turns = turns
        return turns

    def _example(self, document: Document) -> list[PromptTurn]:
        fields = self.fields
        question = fields.shot_text(document)
        answer = fields.shot_target(document)
        prefix = fields.shot_prefix(document)
        choices = fields.shot_choice(document) if fields.has_choices else None
        if choices and isinstance(question, int):
            question, choices = self._choice(choices, question), None
        if answer in (None, ""):
            return self._question(self._text(question), prefix, self._shot_target_delimiter)
        if choices and isinstance(answer, int):
            answer = self._choice(choices, answer)
        elif isinstance(answer, list):
            answer = answer[0] if answer else ""
        after = self._shot_target_delimiter
        if prefix and not _needs_delimiter(question, prefix):
            after = ""
        reply = join(prefix, answer if isinstance(answer, str) else str(answer), " ")
        return [
            PromptTurn("user", self._text(question), after),
            PromptTurn("assistant", reply, self._shot_fewshot_delimiter),
        ]

    def _choice(self, choices: list[Any], label: int) -> Any:
        if not -len(choices) <= label < len(choices):
            where = self.fields.where("doc_to_target")
            raise BadDocument(
                f"{where}: the label {label} of an example is outside the {len(choices)} choices"
            )
        return choices[label]

    def _text(self, value: Any) -> str:
        if not isinstance(value, str):
            raise BadDocument(f"{self.fields.where('doc_to_text')}: expected text, found {value!r}")
        return value

    def _question(self, question: str, prefix: str | None, delimiter: str) -> list[PromptTurn]:
        if not prefix:
            return [PromptTurn("user", question)]
        after = delimiter if _needs_delimiter(question, prefix) else ""
        return [PromptTurn("user", question, after), PromptTurn("assistant", prefix)]


def choices_of(fields: DocumentFields, document: Document) -> list[str]:
    """The choices of a document, every one of them text."""
    choices = fields.choice(document)
    if not isinstance(choices, (list, tuple)) or not choices:
        raise BadDocument(f"{fields.where('doc_to_choice')}: expected a list of choices, found {choices!r}")
    for choice in choices:
        if not isinstance(choice, str):
            where = fields.where("doc_to_choice")
            raise BadDocument(f"{where}: expected text, found {choice!r}; put it in quotes")
    return list(choices)


def join(before: str | None, text: str, delimiter: str) -> str:
    """Join two texts with a delimiter, unless one of them has white space at the join."""
    if not before or not text:
        return (before or "") + text
    if before[-1].isspace() or text[0].isspace():
        return before + text
    return before + delimiter + text


def _needs_delimiter(before: str, after: str) -> bool:
    return bool(before) and not (before[-1].isspace() or after[0].isspace())


def as_text(turns: list[PromptTurn]) -> str:
    """One prompt for models that continue text."""
    return "".join([turn.content + turn.after for turn in turns])


def as_messages(turns: list[PromptTurn], *, multiturn: bool) -> list[dict[str, str]]:
    """Messages for chat models: one for each turn, or everything before the answer as one user message."""
    if not multiturn:
        system = [turn for turn in turns[:1] if turn.role == "system"]
        prefix = [turn for turn in turns[-1:] if turn.role == "assistant"]
        asked = turns[len(system) : len(turns) - len(prefix)]
        text = as_text(asked[:-1]) + asked[-1].content
        turns = [*system, PromptTurn("user", text), *prefix]
    return [{"role": turn.role, "content": turn.content} for turn in turns]


def question_of(turns: list[PromptTurn]) -> str:
    """What is asked last: `doc_to_text` as rendered, without description, examples and prefix."""
    for turn in reversed(turns):
        if turn.role == "user":
            return turn.content
    return ""


def messages_json(messages: list[dict[str, str]]) -> str:
    """The text whose hash is `prompt_hash` for chat."""
    return json.dumps(messages, ensure_ascii=False)


class FewshotSampler:
    """Chooses few-shot examples: the first n, or n at random from one stream over all documents.

    A document is never among its own examples, unless the harness would put it there.
    """

    def __init__(self, config: TaskConfig, shots: int, seed: int | None, *, quirks: bool = False) -> None:
        fewshot = config.values["fewshot_config"]
        self._where = config.where("fewshot_config", "sampler")
        self._takes_first = fewshot["sampler"] == "first_n"
        if shots and fewshot["sampler"] not in ("first_n", "default"):
            raise InputError(
                Problem(self._where, f"there is no sampler {fewshot['sampler']!r}; use first_n or default")
            )
        # The harness has this setting and ignores it.
        self._indices = None if quirks else fewshot["fewshot_indices"]
        self._random = random.Random(seed)  # noqa: S311
        self._shots = shots
        self._pool: list[Document] = []
        self._excludes = False

    @property
    def is_fixed(self) -> bool:
        """Whether every document gets the same examples."""
        return self._takes_first and not self._excludes

    def set_pool(self, pool: list[Document], *, exclude: bool) -> None:
        """Take the pool. A pool that is too small is refused before anything is asked."""
        if self._indices:
            chosen = []
            for index in self._indices:
                try:
                    chosen.append(pool[index])
                except (IndexError, TypeError):
                    message = f"fewshot_indices has {index!r}, there are {len(pool)} examples"
                    raise InputError(Problem(self._where, message)) from None
            pool = chosen
        needed = self._shots + (1 if exclude and not self._takes_first else 0)
        if len(pool) < needed:
            raise InputError(Problem(self._where, f"{needed} examples are needed, there are {len(pool)}"))
        self._pool = pool
        self._excludes = exclude

    def draw(self, document: Document | None) -> list[Document]:
        """The examples for one document. Must be called for skipped documents too: it is one stream."""
        shots = self._shots
        if self._takes_first:
            if not self._excludes:
                return self._require_shots(self._pool[:shots])
            others = (other for other in self._pool if other != document)
            return self._require_shots(list(islice(others, shots)))
        if not self._excludes:
            return self._random.sample(self._pool, shots)
        # The harness draws one more and drops the document itself. It draws again if equal ones were drawn.
        drawn = [other for other in self._random.sample(self._pool, shots + 1) if other != document][:shots]
        if len(drawn) < shots:
            others_list = [other for other in self._pool if other != document]
            drawn = self._random.sample(self._require_shots(others_list), shots)
        return drawn

    def _require_shots(self, pool: list[Document]) -> list[Document]:
        if len(pool) < self._shots:
            raise BadDocument(
                f"{self._where}: {self._shots} examples are needed, there are {len(pool)} others"
            )
        return pool


class DocumentFields:
    """The settings of one task that are computed from a document, and those for few-shot examples.

    Each is a function of the document, made of a column name, a template, a constant or Python.
    """

    def __init__(self, config: TaskConfig, columns: list[str]) -> None:
        self._config = config
        self._columns = frozenset(columns)
        values = config.values
        self.has_choices = values.get("doc_to_choice") is not None
        # Only there the question may be the number of a choice; elsewhere "7" is a text.
        self._text_may_be_label = self.has_choices and config.output == CHOICE
        self.text = self._field("doc_to_text", values["doc_to_text"])
        self.target = self._field("doc_to_target", values.get("doc_to_target"))
        self.choice = self._field("doc_to_choice", values.get("doc_to_choice"))
        self.description = self._field("description", values["description"])
        self.prefix = self._field("gen_prefix", values.get("gen_prefix"))
        self.shot_text = self._shot_field("doc_to_text")
        self.shot_target = self._shot_field("doc_to_target")
        self.shot_choice = self._shot_field("doc_to_choice")
        self.shot_prefix = self._shot_field("gen_prefix")

    def where(self, key: str) -> str:
        """Return `file:line key` of a setting."""
        return self._config.where(key)

    def _shot_field(self, key: str) -> FieldFunction:
        """An example's setting: the task's own unless it was written for examples."""
        own, shot = self._config.values.get(key), self._config.values["fewshot_config"][key]
        above = () if shot == own else ("fewshot_config",)
        return self._field(key, own if shot is None else shot, above)

    def _field(self, key: str, value: Any, above: tuple[str, ...] = ()) -> FieldFunction:
        where = self._config.where(*above, key)
        if isinstance(value, FunctionRef):
            return _call_field(import_function(value, where), value.name, where)
        if isinstance(value, dict):
            value = list(value.values())
        if not isinstance(value, str):
            return lambda _document: value
        if value in self._columns:
            return _column_field(value, where)
        try:
            template = _compile(value)
        except TemplateProblem as problem:
            raise InputError(Problem(where, str(problem))) from None
        return _template_field(template, where, self._reader(key, where))

    def _reader(self, key: str, where: str) -> Callable[[str], Any] | None:
        """What is made of a rendered text: a list for choices, a number or a list for targets."""
        if key == "doc_to_choice":
            return lambda text: _read_choices(text, where)
        if key == "doc_to_target":
            return _read_label_or_list if self.has_choices else _read_list
        if key == "doc_to_text" and self._text_may_be_label:
            return _read_label
        return None


def _call_field(function: FieldFunction, name: str, where: str) -> FieldFunction:
    def field(document: Document) -> Any:
        try:
            return call_here(function, (document,))
        except UserCodeError as error:
            message = f"{where}: !function {name} raised {error.type_name}: {error.text}"
            raise BadDocument(message, error.traceback) from error

    return field


def _column_field(name: str, where: str) -> FieldFunction:
    def field(document: Document) -> Any:
        if name not in document:
            raise BadDocument(f"{where}: the document has no column {name!r}")
        return document[name]

    return field


def _template_field(template: Template, where: str, read: Callable[[str], Any] | None) -> FieldFunction:
    source, render = template.source, template.render

    def field(document: Document) -> Any:
        # A few-shot example that is written in the task file may have columns that the data set lacks.
        if source in document:
            return document[source]
        try:
            text = render(document)
        except TemplateProblem as problem:
            raise BadDocument(f"{where}: {problem}") from None
        return read(text) if read else text

    return field


def _read_label(text: str) -> Any:
    return int(text) if text.isdecimal() else text


def _read_label_or_list(text: str) -> Any:
    return int(text) if text.isdecimal() else _read_list(text)


def _read_list(text: str) -> Any:
    """A target that reads as a Python list is several targets."""
    if len(text) >= 2 and text[0] == "[" and text[-1] == "]":
        try:
            return ast.literal_eval(text)
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            return text
    return text


def _read_choices(text: str, where: str) -> list[Any]:
    try:
        value = ast.literal_eval(text)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        value = None
    if not isinstance(value, (list, tuple)):
        raise BadDocument(f"{where}: expected a list of choices, found {text[:80]!r}")
    return list(value)
