"""The messages between assay and the child process that computes a Hugging Face model.

A line is a JSON list of messages. assay writes lines to the child's stdin and reads lines from its stdout. The first
message is `LoadModel`. The child answers `ModelLoaded`, or `WorkFailed` without an id, and then each `GenerateText` and
`MeasureText` in any order.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct, field


class LoadModel(Struct, frozen=True, tag="load", omit_defaults=True):
    """What to load. The names are those of lm-evaluation-harness, except that all files are in folders on disk.

    An empty `device` means cuda if there is one, else cpu. A `max_length` of 0 means the model's own.
    """

    folder: str
    tokenizer: str
    peft: str = ""
    dtype: str = "auto"
    softmax_dtype: str = ""
    device: str = ""
    batch_size: int = 1
    max_length: int = 0
    add_bos_token: bool | None = None
    prefix_token_id: int | None = None
    trust_remote_code: bool = False
    use_fast_tokenizer: bool = True
    think_end_token: str | int | None = None
    chat_template_args: dict[str, Any] = field(default_factory=dict)


class GenerateText(Struct, frozen=True, tag="generate", omit_defaults=True):
    """Continue a prompt, or answer messages. `params` has the request's parameters in the names of an API."""

    id: int
    seed: int
    prompt: str | None = None
    messages: list[dict[str, Any]] | None = None
    params: dict[str, Any] = field(default_factory=dict)


class MeasureText(Struct, frozen=True, tag="measure", omit_defaults=True):
    """Measure the likelihood of a text after a prompt; without a prompt, of the whole text window by window."""

    id: int
    continuation: str
    prompt: str | None = None


class CancelWork(Struct, frozen=True, tag="cancel"):
    """The result of a request is not needed any more."""

    id: int


class ModelLoaded(Struct, frozen=True, tag="loaded"):
    """The model is in memory. `max_length` is the context in tokens."""

    device: str
    dtype: str
    max_length: int


class WorkStarted(Struct, frozen=True, tag="started"):
    """The model computes these requests now. Their timeouts begin."""

    ids: list[int]


class TextGenerated(Struct, frozen=True, tag="generated", omit_defaults=True):
    """A reply. `cut` tells that the beginning of the prompt was dropped, because it did not fit into the context."""

    id: int
    text: str
    finish: str
    input: int
    output: int
    reasoning: str = ""
    cut: bool = False


class TextMeasured(Struct, frozen=True, tag="measured"):
    """A likelihood. `input` counts the tokens of the contexts, `output` the scored ones.

    `logprob` is finite, because JSON has no other numbers. The child sends `WorkFailed` for infinity and NaN.
    """

    id: int
    logprob: float
    greedy: bool
    input: int
    output: int


class WorkFailed(Struct, frozen=True, tag="failed", omit_defaults=True):
    """Why a request has no result; without an id, why the model cannot be loaded. `kind` is that of a Failure."""

    kind: str
    message: str
    id: int | None = None


class NumberedMessage(Struct, frozen=True):
    """What is read of a message of the child that cannot be read otherwise: the request it belongs to."""

    id: int


class ChildNote(Struct, frozen=True, tag="note"):
    """A sentence for the user."""

    text: str


ToChild = LoadModel | GenerateText | MeasureText | CancelWork
FromChild = ModelLoaded | WorkStarted | TextGenerated | TextMeasured | WorkFailed | ChildNote

encode = msgspec.json.Encoder().encode
decode_to_child = msgspec.json.Decoder(list[ToChild]).decode
decode_from_child = msgspec.json.Decoder(list[FromChild]).decode
decode_numbers = msgspec.json.Decoder(list[NumberedMessage]).decode
