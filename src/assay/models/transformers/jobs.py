"""The requests of a batch, prepared for a model. Without torch.

A `GenerateJob` is a tokenized prompt, a `MeasureJob` the token spans of a likelihood. The worker groups jobs into
batches; `TransformersEngine` prepares and computes them.
"""

from __future__ import annotations

from typing import Any

import msgspec

from assay.files.excerpt import cut_end
from assay.models.likelihood.spans import Ids, TokenSpan
from assay.models.transformers.protocol import (
    GenerateText,
    MeasureText,
)

# The harness's default for new tokens.
DEFAULT_NEW_TOKENS = 256
# Names for the limit of new tokens, in the harness's order of priority.
_TOKEN_LIMITS = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")


class LoadProblem(Exception):
    """The model cannot be loaded. The message is for the user."""


class GenerateJob:
    """A tokenized prompt. Jobs of one `group` have the same parameters and may share a batch."""

    def __init__(self, message: GenerateText, ids: Ids, plan: GenerationPlan, *, cut: bool) -> None:
        self.id = message.id
        self.ids = ids
        self.plan = plan
        self.cut = cut
        self.seed = int(message.params.get("seed", message.seed))
        self.length = len(ids)
        # A sampled reply is computed alone. Random numbers are drawn for a whole batch, so in company it would depend
        # on the others.
        self.group: tuple[Any, ...] = (message.id,) if plan.samples else ("generate", plan.key)
        self.rows: frozenset[Any] = frozenset({message.id})


class MeasureJob:
    """The spans of a text to measure. A row is the input of a forward pass; equal ones are computed once."""

    def __init__(self, message: MeasureText, token_spans: list[TokenSpan]) -> None:
        self.id = message.id
        self.spans = token_spans
        self.rolling = message.prompt is None
        self.length = max((len(span.ids) for span in token_spans), default=0)
        self.group: tuple[Any, ...] = ("measure",)
        self.rows: frozenset[Any] = frozenset(row_of(span) for span in token_spans)


class GenerationPlan:
    """How to generate: the limit of new tokens, the stops, and the arguments of `generate`."""

    def __init__(self, params: dict[str, Any], max_length: int) -> None:
        arguments = {name: value for name, value in params.items() if name not in ("seed", "stop", "until")}
        limits = [arguments.pop(name, None) for name in _TOKEN_LIMITS]
        limit = next((limit for limit in limits if limit is not None), None)
        # Without a limit of the request, a small context leaves half of its room to the prompt.
        self.new_tokens = min(DEFAULT_NEW_TOKENS, max_length // 2) if limit is None else int(limit)
        stops = params.get("stop") or params.get("until") or []
        self.stops = [stops] if isinstance(stops, str) else [stop for stop in stops if stop]
        temperature = float(arguments.pop("temperature", None) or 0.0)
        do_sample = arguments.pop("do_sample", None)
        self.samples = temperature > 0.0 if do_sample is None else bool(do_sample)
        if self.samples and temperature > 0.0:
            arguments["temperature"] = temperature
        if not self.samples:
            # They only choose among sampled tokens, and transformers warns about them in greedy decoding.
            for name in ("top_p", "top_k", "min_p"):
                arguments.pop(name, None)
        self.arguments = {**arguments, "do_sample": self.samples}
        self.key = msgspec.json.encode([self.new_tokens, self.stops, self.arguments], order="sorted")


Job = GenerateJob | MeasureJob


def row_of(span: TokenSpan) -> tuple[int, ...]:
    """Return the input of a span's forward pass: all of its tokens but the last, which is only predicted."""
    return tuple(span.ids[:-1])


def describe_error(error: BaseException) -> str:
    """Return type and text of an exception on one line, shortened."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {cut_end(text, 500)}" if text else type(error).__name__
