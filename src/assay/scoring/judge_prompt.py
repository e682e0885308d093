"""Prompts of the judges in `judges/`: versioned text files, filled with a question. Replies are read back.

A judge of one kind of question subclasses `OneLabelPrompt` or `LabelEachPrompt` and says what fills the
places of its prompt file:

    class UpdateJudge(OneLabelPrompt[UpdateQuestion]):
        def _values(self, question):
            return {"new": question.new, "old": numbered(question.old)}

Texts of the evaluated system stand between markers or as JSON strings, so that none of them can pass for an
instruction to the judge.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from assay.core import prompts
from assay.core.errors import ModelError
from assay.core.types import Response
from assay.scoring.prompt_budget import CHARACTERS, nearest
from assay.scoring.questions import JudgeQuestion

QuestionT = TypeVar("QuestionT", bound=JudgeQuestion)

NONE = "(none)"
"""Stands in a prompt for a list without texts."""

# Bounded, because a small model that is held to a schema may write a reason without end.
_REASON = {"type": "string", "maxLength": 400}
# How much of an unreadable reply the reason of an invalid verdict quotes.
_QUOTED = 200
# Failures by which the judge itself declined the question. A retry would end the same way.
_DECLINED = frozenset({"refusal", "context_overflow"})


class JudgePrompt(ABC, Generic[QuestionT]):
    """How one kind of question is put into words, and how a reply is read."""

    def __init__(self, prompt: Path) -> None:
        self._prompt = prompt
        self.params: dict[str, Any] = {"temperature": 0, "max_tokens": 2048}

    @property
    def fingerprint(self) -> str:
        """The version of the prompt and the sha256 of its file."""
        return prompts.fingerprint(self._prompt.stem, self._prompt)

    def parts(self, question: QuestionT) -> Sequence[QuestionT]:
        """The question in pieces that fit one prompt each. The pieces' labels in a row are its labels."""
        return [question]

    def messages(self, question: QuestionT) -> list[dict[str, Any]]:
        """The system and the user message. Equal questions give equal messages, so they are paid once."""
        parts = prompts.read_parts(self._prompt)
        values = self._values(question)
        values["mark"] = unique_marker(*values.values())
        return [{"role": role, "content": prompts.fill(parts[role], values)} for role in ("system", "user")]

    @abstractmethod
    def _values(self, question: QuestionT) -> dict[str, str]:
        """What fills the places of the prompt file."""

    @abstractmethod
    def schema(self, question: QuestionT) -> dict[str, Any]:
        """The JSON schema of a reply. The reason comes first, so that a model weighs before it decides."""

    @abstractmethod
    def read(self, reply: Mapping[str, Any], question: QuestionT) -> tuple[tuple[str, ...], str]:
        """One label for each thing, and the reason. ValueError says what is wrong with the reply."""

    def _nearest(
        self, texts: Sequence[str], wanted: Sequence[str], budget: int = CHARACTERS
    ) -> tuple[str, str]:
        """The numbered texts that fit, and a sentence for the prompt where some were left out."""
        chosen = nearest(texts, wanted, budget)
        if chosen is texts:
            return numbered(texts), ""
        counts = {"shown": str(len(chosen)), "total": str(len(texts))}
        return numbered(chosen), prompts.fill(prompts.read_parts(self._prompt)["chosen"], counts)


class OneLabelPrompt(JudgePrompt[QuestionT]):
    """Asks for one label: `{"reason": …, "label": …}`."""

    def schema(self, question: QuestionT) -> dict[str, Any]:
        """A reason and a label."""
        return _object_schema({"reason": _REASON, "label": {"enum": list(question.labels)}})

    def read(self, reply: Mapping[str, Any], question: QuestionT) -> tuple[tuple[str, ...], str]:
        """The label and the reason."""
        return (_read_label(reply.get("label"), question.labels, {}, "`label`"),), _read_reason(reply)


class LabelEachPrompt(JudgePrompt[QuestionT]):
    """Asks for one label for each thing: `{"reason": …, "labels": {"1": …, "2": …}}`."""

    aliases: ClassVar[Mapping[str, str]] = {}
    """Other words for a label that a reply may use, in lower case."""

    def schema(self, question: QuestionT) -> dict[str, Any]:
        """A reason and a label for each number. The schema wants all numbers; an object has none twice."""
        labels = {str(number): {"enum": list(question.labels)} for number in range(1, question.count + 1)}
        return _object_schema({"reason": _REASON, "labels": _object_schema(labels)})

    def read(self, reply: Mapping[str, Any], question: QuestionT) -> tuple[tuple[str, ...], str]:
        """The labels in the order of their numbers, exactly one for each, and the reason."""
        raw_labels = reply.get("labels")
        if not isinstance(raw_labels, dict):
            raise ValueError("`labels` is no object")  # noqa: TRY004
        numbers = [str(number) for number in range(1, question.count + 1)]
        by_number = {name.strip(): label for name, label in raw_labels.items()}
        if missing := [number for number in numbers if number not in by_number]:
            raise ValueError(
                f"{len(missing)} of {len(numbers)} labels are missing, the first is {missing[0]}"
            )
        if len(raw_labels) != len(numbers):
            raise ValueError(f"`labels` has {len(raw_labels)} labels in place of {len(numbers)}")
        labels = [
            _read_label(by_number[number], question.labels, self.aliases, f"label {number}")
            for number in numbers
        ]
        return tuple(labels), _read_reason(reply)


def unique_marker(*texts: str) -> str:
    """A marker that none of the texts can contain, because it is a hash of all of them."""
    return hashlib.sha256("\0".join(texts).encode(errors="surrogatepass")).hexdigest()[:16]


def numbered(texts: Sequence[str]) -> str:
    """One numbered line for each text. As a JSON string no text can start a line with a number of its own."""
    lines = [f"{number}: {json.dumps(text, ensure_ascii=False)}" for number, text in enumerate(texts, 1)]
    return "\n".join(lines) or NONE


def label_count(question: JudgeQuestion) -> dict[str, str]:
    """The places `{count}` and `{ids}` of a prompt: how many labels are wanted, and their numbers."""
    ids = "1" if question.count == 1 else f"1 to {question.count}"
    return {"count": str(question.count), "ids": ids}


def unreadable_reply(response: Response, problem: str) -> str:
    """The reason of an invalid verdict: the problem, whether the reply was cut, and how the reply begins."""
    text = response.text
    if len(text) > _QUOTED:
        text = f"{text[:_QUOTED]}…"
    cut = ", which was cut at its limit of tokens" if response.finish == "length" else ""
    return f"no verdict: {problem}{cut}: {text!r}"


def refusal_reason(error: ModelError) -> str:
    """The reason of an invalid verdict where the judge declined. Any other failed call is raised again.

    A judge that declines would decline tomorrow too, so waiting for its verdict would never end. A failed
    call, or an error in a judge's own code, is reported and asked again once it is mended.
    """
    if error.failure.kind not in _DECLINED:
        raise error
    return f"no verdict: {error}"


def _read_label(value: Any, labels: Sequence[str], aliases: Mapping[str, str], place: str) -> str:
    """The label that the reply names. Case and spaces around it may differ."""
    by_name = {label.casefold(): label for label in labels} | dict(aliases)
    label = by_name.get(value.strip().casefold()) if isinstance(value, str) else None
    if label is None:
        raise ValueError(f"{place} is {value!r:.60}, not one of {', '.join(labels)}")
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
