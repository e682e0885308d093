"""What each output type asks of the model, and what the right answer is.

`generate_until` asks for text; the others ask how likely a text is after another: every choice after the
question (`multiple_choice`), the target after the question (`loglikelihood`), the whole target
(`loglikelihood_rolling`).
"""

from __future__ import annotations

from typing import Any

import msgspec

from assay.core.types import Request
from assay.suites.task.config import CHOICE, GENERATE, LIKELIHOOD, ROLLING, TaskConfig
from assay.suites.task.fields import BadDoc, Document, Fields
from assay.suites.task.prompts import Turn, as_messages, as_text, choices

_TOKENS = ("max_gen_toks", "max_new_tokens", "max_tokens")
_HARNESS_TOKENS = ("max_gen_toks", "max_tokens")
_NOT_SENT = frozenset({"until", "do_sample"})
NO_LABEL = -100
"""What the harness takes for a label outside the choices: nothing is ever equal to it."""


class Gold(msgspec.Struct, frozen=True):
    """What scorers and files see of a document, and the subject never does.

    `target` is what files show; `label` is what is scored: the index of the right choice, or the text.
    `question` is what a judge is shown: what was asked of this document, without examples.
    """

    doc: Document
    target: Any
    label: Any = None
    choices: list[str] | None = None
    question: str = ""


class Sending(msgspec.Struct, frozen=True):
    """How prompts go out: to whom, as messages or as text, with which parameters."""

    model: str
    endpoint: str
    chat: bool
    multiturn: bool
    params: dict[str, Any]


class Output:
    """Requests and gold of one task's documents."""

    def __init__(self, config: TaskConfig, sending: Sending, *, unconditional: bool, quirks: bool) -> None:
        self._kind = config.output
        self._where = config.where("doc_to_target")
        self._sending = sending
        self._delimiter = config.values["target_delimiter"]
        self._unconditional = unconditional
        self._quirks = quirks

    def requests(self, contexts: list[list[Turn]], gold: Gold) -> list[Request]:
        """All requests of a document, in the order of its replies."""
        if self._kind == GENERATE:
            return [self._generation(contexts[0])]
        if self._kind == ROLLING:
            return [self._likelihood(None, gold.target)]
        texts = [as_text(turns) for turns in contexts]
        if self._kind == LIKELIHOOD:
            return [self._likelihood(texts[0], gold.target)]
        return self._choices(texts, gold)

    def _choices(self, texts: list[str], gold: Gold) -> list[Request]:
        options = gold.choices or []
        if len(texts) > 1:
            pairs = [(text, str(gold.target)) for text in texts]
        else:
            pairs = [(texts[0], option) for option in options]
        if self._unconditional:
            pairs += [("", option) for option in options]
        return [self._likelihood(text, self._delimiter + said) for text, said in pairs]

    def _generation(self, turns: list[Turn]) -> Request:
        sending = self._sending
        if sending.chat:
            messages = as_messages(turns, multiturn=sending.multiturn)
            return Request(
                model=sending.model, endpoint=sending.endpoint, messages=messages, params=sending.params
            )
        return Request(
            model=sending.model, endpoint=sending.endpoint, prompt=as_text(turns), params=sending.params
        )

    def _likelihood(self, prompt: str | None, continuation: Any) -> Request:
        if not isinstance(continuation, str):
            raise BadDoc(f"{self._where}: expected text, found {continuation!r}")
        sending = self._sending
        return Request(
            model=sending.model, endpoint=sending.endpoint, prompt=prompt, continuation=continuation
        )

    def gold(self, fields: Fields, doc: Document) -> Gold:
        """The document with its right answer."""
        target = fields.target(doc)
        options = choices(fields, doc) if fields.has_choices else None
        if options is None:
            return Gold(doc, target, target)
        if self._kind == CHOICE:
            asked = fields.text(doc)
            several = isinstance(asked, int)
            return Gold(doc, target, self._label(asked if several else target, options), options)
        return Gold(doc, target, self._named(target, options), options)

    def _label(self, label: Any, options: list[str]) -> Any:
        """The index of the right choice, or the list of all right ones."""
        if isinstance(label, list):
            return [self._label(one, options) for one in label]
        if isinstance(label, str) and label in options:
            return options.index(label)
        if isinstance(label, (int, float)) and label in range(len(options)):
            return int(label)
        if self._quirks:
            return label if isinstance(label, int) and label < 0 else NO_LABEL
        raise BadDoc(f"{self._where}: the label {label!r} is outside the {len(options)} choices {options}")

    def _named(self, target: Any, options: list[str]) -> Any:
        """A generated answer is compared with the choice that the target's number means."""
        if isinstance(target, int) and -len(options) <= target < len(options):
            return options[target]
        if isinstance(target, (str, list)):
            return target
        raise BadDoc(f"{self._where}: the label {target!r} is outside the {len(options)} choices {options}")


def wire_params(generation: dict[str, Any] | None, *, quirks: bool, seed: int) -> dict[str, Any]:
    """Generation parameters as providers take them: one name for the token limit, `stop` for `until`.

    The harness knows two names for the limit and sends any other on as it is; and it sends one seed always.
    """
    if generation is None:
        return {}
    names = _HARNESS_TOKENS if quirks else _TOKENS
    params = {key: value for key, value in generation.items() if key not in (*_NOT_SENT, *names)}
    tokens = next((generation[key] for key in names if generation.get(key) is not None), 256)
    until = generation.get("until") or []
    stops = [until] if isinstance(until, str) else list(until)
    sent = {"max_tokens": tokens, "temperature": 0.0, **params, **({"stop": stops} if stops else {})}
    return sent | ({"seed": seed} if quirks else {})
