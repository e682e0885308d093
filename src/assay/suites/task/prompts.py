"""Builds what is asked of each document: description, few-shot examples and question, as text or as turns."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from msgspec import Struct

from assay.suites.task.config import TaskConfig
from assay.suites.task.fields import BadDoc, Document, Fields
from assay.suites.task.sampling import Sampler


class Turn(Struct, frozen=True):
    """One message; `after` follows it where turns become one text."""

    role: str
    content: str
    after: str = ""


class PromptBuilder:
    """The prompts of one task. Templates are compiled once; a fixed few-shot part is rendered once."""

    def __init__(self, config: TaskConfig, fields: Fields, sampler: Sampler, system: str | None) -> None:
        values, fewshot = config.values, config.values["fewshot_config"]
        self.fields = fields
        self.sampler = sampler
        self._system = system
        self._describes = bool(values["description"])
        self._prefixes = bool(values.get("gen_prefix"))
        self._shots = values["num_fewshot"]
        self._delimiter = values["target_delimiter"]
        self._between = values["fewshot_delimiter"]
        self._shot_delimiter = fewshot["target_delimiter"]
        self._shot_between = fewshot["fewshot_delimiter"]
        self._fixed: list[Turn] | None = None

    def settle(self) -> None:
        """Render fixed examples now. What is wrong with them is said of the documents that show them."""
        if self._shots and self.sampler.fixed:
            with suppress(BadDoc):
                self._example_turns(self.sampler.draw(None))

    def draw(self, doc: Document | None) -> list[Document]:
        """The examples for the next document. Called for skipped documents too: it is one stream."""
        return self.sampler.draw(doc) if self._shots else []

    @property
    def draws_matter(self) -> bool:
        """Whether each document takes from the random stream."""
        return bool(self._shots) and not self.sampler.fixed

    def contexts(self, doc: Document, examples: list[Document]) -> list[list[Turn]]:
        """Everything that is asked, in order. There are several where the choices are the questions."""
        before = self._before(doc, examples)
        prefix = self.fields.prefix(doc) if self._prefixes else None
        question = self.fields.text(doc)
        if isinstance(question, int) and self.fields.has_choices:
            return [before + self._question(choice, prefix, "") for choice in choices(self.fields, doc)]
        return [before + self._question(self._text(question), prefix, self._delimiter)]

    def _before(self, doc: Document, examples: list[Document]) -> list[Turn]:
        description = self.fields.description(doc) if self._describes else ""
        system = joined(self._system, description or "", self._between)
        turns = [Turn("system", system)] if system else []
        return turns + self._example_turns(examples) if examples else turns

    def _example_turns(self, examples: list[Document]) -> list[Turn]:
        if not self.sampler.fixed:
            return [turn for example in examples for turn in self._example(example)]
        if self._fixed is None:
            self._fixed = [turn for example in examples for turn in self._example(example)]
        return self._fixed

    def _example(self, doc: Document) -> list[Turn]:
        fields = self.fields
        question, answer, prefix = fields.shot_text(doc), fields.shot_target(doc), fields.shot_prefix(doc)
        options = fields.shot_choice(doc) if fields.has_choices else None
        if options and isinstance(question, int):
            question, options = self._chosen(options, question), None
        if answer in (None, ""):
            return self._question(self._text(question), prefix, self._shot_delimiter)
        if options and isinstance(answer, int):
            answer = self._chosen(options, answer)
        elif isinstance(answer, list):
            answer = answer[0] if answer else ""
        after = self._shot_delimiter
        if prefix and not _needs_delimiter(question, prefix):
            after = ""
        said = joined(prefix, answer if isinstance(answer, str) else str(answer), " ")
        return [Turn("user", self._text(question), after), Turn("assistant", said, self._shot_between)]

    def _chosen(self, options: list[Any], label: int) -> Any:
        if not -len(options) <= label < len(options):
            where = self.fields.where("doc_to_target")
            raise BadDoc(f"{where}: the label {label} of an example is outside the {len(options)} choices")
        return options[label]

    def _text(self, value: Any) -> str:
        if not isinstance(value, str):
            raise BadDoc(f"{self.fields.where('doc_to_text')}: expected text, found {value!r}")
        return value

    def _question(self, question: str, prefix: str | None, delimiter: str) -> list[Turn]:
        if not prefix:
            return [Turn("user", question)]
        after = delimiter if _needs_delimiter(question, prefix) else ""
        return [Turn("user", question, after), Turn("assistant", prefix)]


def choices(fields: Fields, doc: Document) -> list[str]:
    """The choices of a document, every one of them text."""
    found = fields.choice(doc)
    if not isinstance(found, (list, tuple)) or not found:
        raise BadDoc(f"{fields.where('doc_to_choice')}: expected a list of choices, found {found!r}")
    strange = next((choice for choice in found if not isinstance(choice, str)), None)
    if strange is not None:
        raise BadDoc(f"{fields.where('doc_to_choice')}: expected text, found {strange!r}; put it in quotes")
    return list(found)


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


def as_messages(turns: list[Turn], *, multiturn: bool) -> list[dict[str, str]]:
    """Messages for chat models: a turn each, or all before the answer as one user message."""
    if not multiturn:
        turns = _single(turns)
    return [{"role": turn.role, "content": turn.content} for turn in turns]


def question_of(turns: list[Turn]) -> str:
    """What is asked last: `doc_to_text` as it was rendered, without description, examples and prefix."""
    return next((turn.content for turn in reversed(turns) if turn.role == "user"), "")


def _single(turns: list[Turn]) -> list[Turn]:
    system = [turn for turn in turns[:1] if turn.role == "system"]
    rest = turns[len(system) :]
    last = [turn for turn in rest[-1:] if turn.role == "assistant"]
    asked = rest[: len(rest) - len(last)]
    text = as_text(asked[:-1]) + asked[-1].content
    return [*system, Turn("user", text), *last]


def messages_json(messages: list[dict[str, str]]) -> str:
    """The text whose hash is `prompt_hash` for chat."""
    return json.dumps(messages, ensure_ascii=False)
