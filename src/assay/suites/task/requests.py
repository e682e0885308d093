"""Builds the requests of a document and its expected answer (gold), for each output type.

`generate_until` requests text. The others request log-likelihoods: of every choice after the question
(`multiple_choice`), of the target after the question (`loglikelihood`), or of the target alone
(`loglikelihood_rolling`).
"""

from __future__ import annotations

from typing import Any

import msgspec

from assay.core.types import Request
from assay.suites.task.config import CHOICE, GENERATE, LIKELIHOOD, ROLLING, TOKEN_LIMITS, TaskConfig
from assay.suites.task.prompts import (
    BadDocument,
    Document,
    DocumentFields,
    PromptTurn,
    as_messages,
    as_text,
    choices_of,
)

# The harness does not know max_new_tokens: it sends this name on to the endpoint, and the limit stays 256.
_HARNESS_TOKEN_LIMITS = ("max_tokens", "max_gen_toks")
# `until` is sent as `stop`.
_NOT_SENT = frozenset({"until"})
# The harness's label for a target outside the choices. No choice has this index, so the answer counts as wrong.
NO_LABEL = -100


class TaskGold(msgspec.Struct, frozen=True):
    """The document and its expected answer. Scorers and result files use it; the model never sees it.

    `target` is written to files. Scorers compare with `label`: the index of the correct choice, or the text.
    `question` is for a judge: the question of this document without few-shot examples.
    """

    doc: Document
    target: Any
    label: Any = None
    choices: list[str] | None = None
    question: str = ""


class RequestSettings(msgspec.Struct, frozen=True):
    """The part that all requests of a task share. `chat` sends messages, else the prompt is one text.

    Requests for likelihoods have no parameters but `likelihood_params`.
    """

    model: str
    endpoint: str
    chat: bool
    multiturn: bool
    params: dict[str, Any]
    likelihood_params: dict[str, Any]


class RequestBuilder:
    """Builds the requests and the gold of one task's documents.

    `unconditional` adds a request for each choice without the question, for acc_mutual_info.
    """

    def __init__(self, config: TaskConfig, settings: RequestSettings, *, unconditional: bool, quirks: bool) -> None:
        self._output = config.output
        self._where = config.where("doc_to_target")
        self._settings = settings
        self._delimiter = config.values["target_delimiter"]
        self._unconditional = unconditional
        self._quirks = quirks

    def requests(self, contexts: list[list[PromptTurn]], gold: TaskGold) -> list[Request]:
        """Return the requests of a document. `contexts` are its prompts; usually there is one."""
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
        # Several prompts mean that the choices are in the questions and one text continues all of them.
        if len(prompts) > 1:
            pairs = [(prompt, str(gold.target)) for prompt in prompts]
        else:
            pairs = [(prompts[0], choice) for choice in choices]
        if self._unconditional:
            # For acc_mutual_info: the likelihood of each choice without the question.
            pairs += [("", choice) for choice in choices]
        return [self._likelihood(prompt, self._delimiter + text) for prompt, text in pairs]

    def _likelihood(self, prompt: str | None, continuation: Any) -> Request:
        if not isinstance(continuation, str):
            raise BadDocument(f"{self._where}: expected text, found {continuation!r}")
        settings = self._settings
        return Request(
            model=settings.model,
            endpoint=settings.endpoint,
            prompt=prompt,
            continuation=continuation,
            params=settings.likelihood_params,
        )

    def gold(self, fields: DocumentFields, document: Document) -> TaskGold:
        """Return the document with its expected answer. Raises BadDocument if the answer cannot be used."""
        target = fields.target(document)
        if not fields.has_choices:
            return TaskGold(document, target, target)
        choices = choices_of(fields, document)
        if self._output == CHOICE:
            # If the choices are in the questions (as in Winogrande), `doc_to_text` is the label.
            text = fields.text(document)
            label = self._label(text if isinstance(text, int) else target, choices)
            return TaskGold(document, target, label, choices)
        # Generated text is compared with the text of the choice, so a target that is a number becomes that text.
        if isinstance(target, int) and -len(choices) <= target < len(choices):
            return TaskGold(document, target, choices[target], choices)
        if isinstance(target, (str, list)):
            return TaskGold(document, target, target, choices)
        raise self._outside(target, choices)

    def _label(self, label: Any, choices: list[str]) -> Any:
        """Return the index of the correct choice, or a list of indices if several are correct."""
        if isinstance(label, list):
            return [self._label(item, choices) for item in label]
        if isinstance(label, str) and label in choices:
            return choices.index(label)
        if isinstance(label, (int, float)) and label in range(len(choices)):
            return int(label)
        if self._quirks:
            # The harness leaves negative numbers as they are.
            return label if isinstance(label, int) and label < 0 else NO_LABEL
        raise self._outside(label, choices)

    def _outside(self, label: Any, choices: list[str]) -> BadDocument:
        return BadDocument(f"{self._where}: the label {label!r} is outside the {len(choices)} choices {choices}")


def wire_params(
    generation: dict[str, Any] | None, *, quirks: bool, seed: int, sends_do_sample: bool = False
) -> dict[str, Any]:
    """Return generation parameters in the API's names: `max_tokens` for the token limit, `stop` for `until`.

    With `quirks` the request has a seed, because the harness sends the same seed with every repeat. Otherwise
    the caller adds a different seed to each repeat. `do_sample` is sent only with `sends_do_sample`: it is an
    option of transformers that endpoints do not have.
    """
    if generation is None:
        return {}
    limits = _HARNESS_TOKEN_LIMITS if quirks else TOKEN_LIMITS
    # The harness's default limit.
    tokens = 256
    for key in limits:
        if generation.get(key) is not None:
            tokens = generation[key]
            break
    not_sent = {*_NOT_SENT, *limits} if sends_do_sample else {*_NOT_SENT, *limits, "do_sample"}
    others = {key: value for key, value in generation.items() if key not in not_sent}
    params: dict[str, Any] = {"max_tokens": tokens, "temperature": 0.0, **others}
    if "max_completion_tokens" in others:
        del params["max_tokens"]  # endpoints refuse a request with both
    until = generation.get("until") or []
    stops = [until] if isinstance(until, str) else list(until)
    if stops:
        params["stop"] = stops
    if quirks:
        # A seed among the task's parameters wins, as in the harness.
        params.setdefault("seed", seed)
    return params
