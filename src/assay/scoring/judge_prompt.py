"""Base classes for the prompts of the judges in `judges/`: fill a versioned text file, read the reply.

A judge for one kind of question subclasses `OneLabelPrompt` or `LabelEachPrompt` and returns the values for the
placeholders of its prompt file:

    class UpdateJudge(OneLabelPrompt[UpdateQuestion]):
        def _values(self, question):
            return {"new": question.new, "old": numbered(question.old)}

Texts of the evaluated system are placed between markers or written as JSON strings, so that they cannot be
mistaken for instructions to the judge.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from assay.core.errors import ModelError
from assay.core.types import Response
from assay.files.excerpt import cut_end
from assay.language import prompts
from assay.scoring.json_text import read_reply
from assay.scoring.prompt_budget import CHARACTERS, nearest
from assay.scoring.questions import JudgeQuestion

QuestionT = TypeVar("QuestionT", bound=JudgeQuestion)

# Replaces an empty list in a prompt.
NONE = "(none)"

# The length is limited because a small model that is restricted to a schema may never end its reason.
_REASON = {"type": "string", "maxLength": 400}
# Number of characters of an unreadable reply that an invalid verdict quotes.
_QUOTE_LENGTH = 200
# Failures that depend on the question. A retry would fail in the same way.
_PERMANENT = frozenset({"refusal", "context_overflow"})


class JudgePrompt(ABC, Generic[QuestionT]):
    """Builds the messages for one kind of question, and reads the reply."""

    wants_json: ClassVar[bool] = True
    """Whether a model that can be restricted to a JSON schema is restricted to `schema`."""

    def __init__(self, prompt: Path) -> None:
        self._prompt = prompt
        # Room for a reason and up to 40 labels (prompt_budget.ITEMS).
        self.params: dict[str, Any] = {"temperature": 0, "max_tokens": 2048}

    @property
    def fingerprint(self) -> str:
        """The version of the prompt, and the sha256 of its file."""
        return prompts.prompt_version(self._prompt.stem, self._prompt)

    def split(self, question: QuestionT) -> Sequence[QuestionT]:
        """Split the question into ones that each fit into a prompt. Its labels are those of all of them, in order."""
        return [question]

    def messages(self, question: QuestionT) -> list[dict[str, Any]]:
        """Return system and user message. Equal questions give equal messages, so the log can answer repeats."""
        parts = self.parts_of_file()
        values = self._values(question)
        values["mark"] = unique_marker(*values.values())
        return [
            {"role": role, "content": prompts.fill(parts[role], values)} for role in ("system", "user") if role in parts
        ]

    def parts_of_file(self) -> Mapping[str, str]:
        """Return the parts of the prompt file by name."""
        return prompts.read_parts(self._prompt)

    @abstractmethod
    def _values(self, question: QuestionT) -> dict[str, str]:
        """Return the values for the placeholders of the prompt file."""

    @abstractmethod
    def schema(self, question: QuestionT) -> dict[str, Any]:
        """Return the JSON schema of a reply. The reason comes first, so that the label can follow from it."""

    def read_text(self, text: str, prompt: str, question: QuestionT) -> tuple[tuple[str, ...], str]:
        """Return one label for each item, and the reason. Raises ValueError with the problem of the reply."""
        return self.read(read_reply(text, prompt), question)

    @abstractmethod
    def read(self, reply: Mapping[str, Any], question: QuestionT) -> tuple[tuple[str, ...], str]:
        """Return one label for each item, and the reason. Raises ValueError with the problem of the reply."""

    def _nearest(self, texts: Sequence[str], queries: Sequence[str], budget: int = CHARACTERS) -> tuple[str, str]:
        """Return the most similar texts that fit, numbered, and a sentence for the prompt if some are left out."""
        chosen = nearest(texts, queries, budget)
        if chosen is texts:
            return numbered(texts), ""
        counts = {"shown": str(len(chosen)), "total": str(len(texts))}
        return numbered(chosen), prompts.fill(self.parts_of_file().get("chosen", ""), counts)


class OneLabelPrompt(JudgePrompt[QuestionT]):
    """Asks for one label: `{"reason": …, "label": …}`."""

    def schema(self, question: QuestionT) -> dict[str, Any]:
        """Return the schema of a reason and a label."""
        return _object_schema({"reason": _REASON, "label": {"enum": list(question.labels)}})

    def read(self, reply: Mapping[str, Any], question: QuestionT) -> tuple[tuple[str, ...], str]:
        return (read_label(reply.get("label"), question.labels, {}, "`label`"),), _read_reason(reply)


class LabelEachPrompt(JudgePrompt[QuestionT]):
    """Asks for one label for each item: `{"reason": …, "labels": {"1": …, "2": …}}`."""

    # Other words that a reply may use for a label, in lower case.
    aliases: ClassVar[Mapping[str, str]] = {}

    def schema(self, question: QuestionT) -> dict[str, Any]:
        """Return the schema of a reason and a label for each number.

        Labels are an object instead of a list, so that the schema can require every number exactly once.
        """
        labels = {str(number): {"enum": list(question.labels)} for number in range(1, question.count + 1)}
        return _object_schema({"reason": _REASON, "labels": _object_schema(labels)})

    def read(self, reply: Mapping[str, Any], question: QuestionT) -> tuple[tuple[str, ...], str]:
        """Return the labels in the order of their numbers, and the reason."""
        raw_labels = reply.get("labels")
        if not isinstance(raw_labels, dict):
            raise ValueError("`labels` is not an object")  # noqa: TRY004
        numbers = [str(number) for number in range(1, question.count + 1)]
        by_number = {name.strip(): label for name, label in raw_labels.items()}
        if missing := [number for number in numbers if number not in by_number]:
            raise ValueError(f"{len(missing)} of {len(numbers)} labels are missing, the first is {missing[0]}")
        if len(raw_labels) != len(numbers):
            raise ValueError(f"`labels` has {len(raw_labels)} labels instead of {len(numbers)}")
        labels = [read_label(by_number[number], question.labels, self.aliases, f"label {number}") for number in numbers]
        return tuple(labels), _read_reason(reply)


def unique_marker(*texts: str) -> str:
    """Return a marker that none of the texts can contain, because it is a hash of all texts."""
    return hashlib.sha256("\0".join(texts).encode(errors="surrogatepass")).hexdigest()[:16]


def numbered(texts: Sequence[str]) -> str:
    """Return one numbered line for each text. Texts are JSON strings, so that none can begin a new line."""
    lines = [f"{number}: {json.dumps(text, ensure_ascii=False)}" for number, text in enumerate(texts, 1)]
    return "\n".join(lines) or NONE


def label_count(question: JudgeQuestion) -> dict[str, str]:
    """Return the values of `{count}` and `{ids}` in a prompt: the number of labels, and their range."""
    ids = "1" if question.count == 1 else f"1 to {question.count}"
    return {"count": str(question.count), "ids": ids}


def unreadable_reply(response: Response, problem: str) -> str:
    """Return the reason of an invalid verdict: the problem, and the beginning of the reply."""
    text = cut_end(response.text, _QUOTE_LENGTH)
    cut = " (the reply was cut at its token limit)" if response.finish == "length" else ""
    return f"no verdict: {problem}{cut}: {text!r}"


def refusal_reason(error: ModelError) -> str:
    """Return the reason of an invalid verdict if the judge refused, or the question exceeds its context.

    Such a question would fail again in every later start of the run, so its verdict is invalid for good. Other
    failed calls, and errors in the code of a judge, are raised: the next start of the run repeats them.
    """
    if error.failure.kind not in _PERMANENT:
        raise error
    return f"no verdict: {error}"


def read_label(value: Any, labels: Sequence[str], aliases: Mapping[str, str], place: str) -> str:
    """Return the label that the reply names. Ignores case and spaces around it."""
    by_name = {label.casefold(): label for label in labels} | dict(aliases)
    label = by_name.get(value.strip().casefold()) if isinstance(value, str) else None
    if label is None:
        raise ValueError(f"{place} is {cut_end(repr(value), 60)}, not one of {', '.join(labels)}")
    return label


def _read_reason(reply: Mapping[str, Any]) -> str:
    reason = reply.get("reason", "")
    if not isinstance(reason, str):
        raise ValueError("`reason` is not a text")  # noqa: TRY004
    return reason


def _object_schema(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
