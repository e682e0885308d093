"""What each output type asks of the model, and what the right answer is.

`generate_until` asks for text. The others ask how likely a text is after another: every choice after the
question (`multiple_choice`), the target after the question (`loglikelihood`), the whole target
(`loglikelihood_rolling`).
"""

from __future__ import annotations

from typing import Any

import msgspec

from assay.core.types import Request
from assay.suites.task.config import CHOICE, GENERATE, LIKELIHOOD, ROLLING, TaskConfig
from assay.suites.task.prompts import (
    BadDocument,
    Document,
    DocumentFields,
    PromptTurn,
    as_messages,
    as_text,
    choices_of,
)

# Names of the token limit in task files. The harness knows the first and the last.
_TOKEN_LIMITS = ("max_gen_toks", "max_new_tokens", "max_tokens")
_HARNESS_TOKEN_LIMITS = ("max_gen_toks", "max_tokens")
_NOT_SENT = frozenset({"until", "do_sample"})
# What the harness takes for a label outside the choices. Nothing is ever equal to it.
NO_LABEL = -100


class TaskGold(msgspec.Struct, frozen=True):
    """What scorers and files see of a document, and the subject never does.

    `target` is what files show. `label` is what is scored: the index of the right choice, or the text.
    `question` is what a judge is shown: what was asked of this document, without examples.
    """

    doc: Document
    target: Any
    label: Any = None
    choices: list[str] | None = None
    question: str = ""


class RequestSettings(msgspec.Struct, frozen=True):
    """What all requests of a task share: the model, messages or text, parameters."""

    model: str
    endpoint: str
    chat: bool
    multiturn: bool
    params: dict[str, Any]


class RequestBuilder:
    """Makes the requests and the gold of one task's documents."""

    def __init__(
        self, config: TaskConfig, settings: RequestSettings, *, unconditional: bool, quirks: bool
    ) -> None:
        self._output = config.output
        self._where = config.where("doc_to_target")
        self._settings = settings
        self._delimiter = config.values["target_delimiter"]
        self._unconditional = unconditional
        self._quirks = quirks

    def requests(self, contexts: list[list[PromptTurn]], gold: TaskGold) -> list[Request]:
        """All requests of a document, in the order of its replies."""
        settings = self._settings
        if self._output == GENERATE:
            turns = contexts[0]
            if settings.chat:
                messages = as_messages(turns, multiturn=settings.multiturn)
                return [
                    Request(
                        model=settings.model,
                        endpoint=settings.endpoint,
                        messages=messages,
                        params=settings.params,
                    )
                ]
            return [
                Request(
                    model=settings.model,
                    endpoint=settings.endpoint,
                    prompt=as_text(turns),
                    params=settings.params,
                )
            ]
        if self._output == ROLLING:
            return [self._likelihood(None, gold.target)]
        prompts = [as_text(turns) for turns in contexts]
        if self._output == LIKELIHOOD:
            return [self._likelihood(prompts[0], gold.target)]
        choices = gold.choices or []
        if len(prompts) > 1:
            pairs = [(prompt, str(gold.target)) for prompt in prompts]
        else:
            pairs = [(prompts[0], choice) for choice in choices]
        if self._unconditional:
            # For acc_mutual_info: how likely each choice is without a question.
            pairs += [("", choice) for choice in choices]
        return [self._likelihood(prompt, self._delimiter + text) for prompt, text in pairs]

    def _likelihood(self, prompt: str | None, continuation: Any) -> Request:
        if not isinstance(continuation, str):
            raise BadDocument(f"{self._where}: expected text, found {continuation!r}")
        settings = self._settings
        return Request(
            model=settings.model, endpoint=settings.endpoint, prompt=prompt, continuation=continuation
        )

    def gold(self, fields: DocumentFields, document: Document) -> TaskGold:
        """The document with its right answer."""
        target = fields.target(document)
        if not fields.has_choices:
            return TaskGold(document, target, target)
        choices = choices_of(fields, document)
        if self._output == CHOICE:
            # If the choices are the questions, `doc_to_text` holds the label.
            text = fields.text(document)
            label = self._label(text if isinstance(text, int) else target, choices)
            return TaskGold(document, target, label, choices)
        # A generated answer is compared with the choice that the target's number means.
        if isinstance(target, int) and -len(choices) <= target < len(choices):
            return TaskGold(document, target, choices[target], choices)
        if isinstance(target, (str, list)):
            return TaskGold(document, target, target, choices)
        raise self._outside(target, choices)

    def _label(self, label: Any, choices: list[str]) -> Any:
        """The index of the right choice, or the list of all right ones."""
        if isinstance(label, list):
            return [self._label(item, choices) for item in label]
        if isinstance(label, str) and label in choices:
            return choices.index(label)
        if isinstance(label, (int, float)) and label in range(len(choices)):
            return int(label)
        if self._quirks:
            return label if isinstance(label, int) and label < 0 else NO_LABEL
        raise self._outside(label, choices)

    def _outside(self, label: Any, choices: list[str]) -> BadDocument:
        return BadDocument(
            f"{self._where}: the label {label!r} is outside the {len(choices)} choices {choices}"
        )


def wire_params(generation: dict[str, Any] | None, *, quirks: bool, seed: int) -> dict[str, Any]:
    """Return generation parameters as providers take them: `max_tokens` for the limit, `stop` for `until`.

    The harness knows two names of the limit and sends any other on as it is. It always sends one seed.
    """
    if generation is None:
        return {}
    limits = _HARNESS_TOKEN_LIMITS if quirks else _TOKEN_LIMITS
    tokens = 256
    for key in limits:
        if generation.get(key) is not None:
            tokens = generation[key]
            break
    others = {key: value for key, value in generation.items() if key not in {*_NOT_SENT, *limits}}
    params: dict[str, Any] = {"max_tokens": tokens, "temperature": 0.0, **others}
    until = generation.get("until") or []
    stops = [until] if isinstance(until, str) else list(until)
    if stops:
        params["stop"] = stops
    if quirks:
        params["seed"] = seed
    return params
