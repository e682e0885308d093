"""Builds the prompt of each document: description, few-shot examples and question, as text or as messages.

`DocumentFields` computes the settings that depend on a document, such as `doc_to_text`. `FewshotSampler`
selects the examples. `PromptBuilder` joins the parts exactly as lm-evaluation-harness does: samples files
contain a hash of the prompt.
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
from assay.files.excerpt import cut_end
from assay.files.yaml_files import FunctionRef
from assay.language.templates import Template, TemplateProblem
from assay.suites.task.config import CHOICE, TaskConfig, import_function
from assay.usercode.errors import UserCodeError
from assay.usercode.user_function import call_here

Document = dict[str, Any]
FieldFunction = Callable[[Document], Any]
# Thousands of tasks of lm_eval share their templates, and compiling one takes much longer than rendering it.
_compile = lru_cache(4096)(Template)


class BadDocument(Exception):
    """A document for which no request can be built. The message names the setting that fails.

    `traceback` is set if the task's own code raised an exception.
    """

    def __init__(self, message: str, traceback: str = "") -> None:
        super().__init__(message)
        self.traceback = traceback


class PromptTurn(Struct, frozen=True):
    """One message of a prompt. `after` is the delimiter that follows if the turns are joined to one text."""

    role: str
    content: str
    after: str = ""


class PromptBuilder:
    """Builds the prompts of one task. Examples that are the same for every document are rendered once."""

    def __init__(self, config: TaskConfig, fields: DocumentFields, sampler: FewshotSampler, system: str | None) -> None:
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
        # The system message of tasks without a description, which may depend on the document.
        self._system_turns = [PromptTurn("system", system)] if system else []

    def render_fixed_examples(self) -> None:
        """Render the examples that all documents share. A failure is reported later, by each document."""
        if self._shots and self.sampler.is_fixed:
            with suppress(BadDocument):
                self._example_turns(self.sampler.draw(None))

    def contexts(self, document: Document, examples: list[Document]) -> list[list[PromptTurn]]:
        """Return the prompts of a document, each a list of turns.

        There is one prompt, or one for each choice if the choices are in the questions.
        """
        fields = self.fields
        before = self._system_turns
        if self._has_description:
            system = join(self._system, fields.description(document) or "", self._fewshot_delimiter)
            before = [PromptTurn("system", system)] if system else []
        if examples:
            before = before + self._example_turns(examples)
        prefix = fields.prefix(document) if self._has_prefix else None
        question = fields.text(document)
        if isinstance(question, int) and fields.has_choices:
            # As in Winogrande: every choice is put into a question, and one text continues all of them.
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
            raise BadDocument(f"{where}: the label {label} of an example is outside the {len(choices)} choices")
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
    """Return the choices of a document. Raises BadDocument if one is not text."""
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
    """Join the turns to one prompt, for models that continue text."""
    if len(turns) == 1:
        return turns[0].content + turns[0].after
    return "".join([turn.content + turn.after for turn in turns])


def as_messages(turns: list[PromptTurn], *, multiturn: bool) -> list[dict[str, str]]:
    """Return the messages for a chat model.

    There is one message per turn. Without `multiturn`, all examples and the question are one user message.
    """
    if not multiturn:
        system = [turn for turn in turns[:1] if turn.role == "system"]
        prefix = [turn for turn in turns[-1:] if turn.role == "assistant"]
        middle = turns[len(system) : len(turns) - len(prefix)]
        text = as_text(middle[:-1]) + middle[-1].content
        turns = [*system, PromptTurn("user", text), *prefix]
    return [{"role": turn.role, "content": turn.content} for turn in turns]


def question_of(turns: list[PromptTurn]) -> str:
    """Return the rendered `doc_to_text`: the prompt without description, examples and `gen_prefix`."""
    for turn in reversed(turns):
        if turn.role == "user":
            return turn.content
    return ""


def messages_json(messages: list[dict[str, str]]) -> str:
    """Return messages as JSON in the harness's format. Samples files show this text and its hash."""
    return json.dumps(messages, ensure_ascii=False)


class FewshotSampler:
    """Selects few-shot examples: the first n, or n at random.

    One random stream serves all documents of a task in data order, as in the harness, so the examples of a
    document depend on the documents before it. With `quirks` a document may be among its own examples.
    """

    def __init__(self, config: TaskConfig, shots: int, seed: int | None, *, quirks: bool = False) -> None:
        fewshot = config.values["fewshot_config"]
        self._where = config.where("fewshot_config", "sampler")
        self._takes_first = fewshot["sampler"] == "first_n"
        if shots and fewshot["sampler"] not in ("first_n", "default"):
            raise InputError(
                Problem(self._where, f"there is no sampler {fewshot['sampler']!r}; use first_n or default")
            )
        # The harness accepts this setting but ignores it.
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
        """Set the documents that examples are taken from. Raises InputError if there are too few.

        With `exclude` a document is not among its own examples.
        """
        if self._indices:
            selected = []
            for index in self._indices:
                try:
                    selected.append(pool[index])
                except (IndexError, TypeError):
                    message = f"fewshot_indices has {index!r}, there are {len(pool)} examples"
                    raise InputError(Problem(self._where, message)) from None
            pool = selected
        needed = self._shots + (1 if exclude and not self._takes_first else 0)
        if len(pool) < needed:
            raise InputError(Problem(self._where, f"{needed} examples are needed, there are {len(pool)}"))
        self._pool = pool
        self._excludes = exclude

    def draw(self, document: Document | None) -> list[Document]:
        """Return the examples for one document.

        Must also be called for skipped documents: all draws come from one random stream.
        """
        shots = self._shots
        if self._takes_first:
            if not self._excludes:
                return self._require_shots(self._pool[:shots])
            others = (other for other in self._pool if other != document)
            return self._require_shots(list(islice(others, shots)))
        if not self._excludes:
            return self._random.sample(self._pool, shots)
        # The harness draws one more and drops the document itself. If several equal documents were dropped, it
        # draws again from a pool without them. The number of draws must be the same here.
        drawn = [other for other in self._random.sample(self._pool, shots + 1) if other != document][:shots]
        if len(drawn) < shots:
            others_list = [other for other in self._pool if other != document]
            drawn = self._random.sample(self._require_shots(others_list), shots)
        return drawn

    def _require_shots(self, pool: list[Document]) -> list[Document]:
        if len(pool) < self._shots:
            raise BadDocument(f"{self._where}: {self._shots} examples are needed, there are {len(pool)} others")
        return pool


class DocumentFields:
    """The settings of one task that depend on a document, such as `doc_to_text`.

    Each attribute is a function of a document, built from a column name, a template, a constant or a
    `!function`. Attributes that start with `shot_` are for few-shot examples.
    """

    def __init__(self, config: TaskConfig, columns: list[str]) -> None:
        self._config = config
        self._columns = frozenset(columns)
        values = config.values
        self.has_choices = values.get("doc_to_choice") is not None
        # With multiple_choice a question "7" is the index of a choice. For other output types it is text.
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
        """Return a setting for few-shot examples: that of `fewshot_config`, else that of the task."""
        task_value, shot_value = self._config.values.get(key), self._config.values["fewshot_config"][key]
        above = () if shot_value == task_value else ("fewshot_config",)
        return self._field(key, task_value if shot_value is None else shot_value, above)

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
        """Return the function that parses a rendered template: to a list of choices, a label, or a list of targets.

        None means that the text is used unchanged.
        """
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
            message = f"{where}: !function {name} raised {error.raised}"
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
        # `source` is no column of the data set, so it was taken for a template. But an inline few-shot example may
        # have a column of that name.
        if source in document:
            return document[source]
        try:
            text = render(document)
        except TemplateProblem as problem:
            columns = f"; the document has {', '.join(document)}" if problem.undefined else ""
            raise BadDocument(f"{where}: {problem}{columns}") from None
        return read(text) if read else text

    return field


def _read_label(text: str) -> Any:
    return int(text) if text.isdecimal() else text


def _read_label_or_list(text: str) -> Any:
    return int(text) if text.isdecimal() else _read_list(text)


def _read_list(text: str) -> Any:
    """Parse a target that looks like a Python list: each item is an accepted answer. Other text is unchanged."""
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
        raise BadDocument(f"{where}: expected a list of choices, found {cut_end(text, 80)!r}")
    return list(value)
