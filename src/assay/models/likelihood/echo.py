"""Likelihoods out of a completion that echoes its prompt with the log-probability of each token.

OpenAI's shape: `logprobs` of the first choice holds `token_logprobs`, `top_logprobs` and `text_offset`, one
entry for each token of the prompt and one for the token that is generated because endpoints want to.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, NamedTuple

from assay.core.errors import ModelError
from assay.core.types import Failure
from assay.models.calling.http_client import bad_reply
from assay.models.likelihood.spans import Likelihood, in_order


class Echo(NamedTuple):
    """What an endpoint says of each token: its log-probability, the best one there, and where it begins."""

    logprobs: list[Any]
    tops: list[Any]
    offsets: list[Any]
    text: str


def no_echo(where: str, why: str) -> ModelError:
    """The endpoint will never be able to; "unsupported" halts the run."""
    return ModelError(
        Failure(
            "unsupported",
            f"{where} cannot give prompt logprobs, which loglikelihood needs: {why}. Use an endpoint that "
            "honours `echo` with `logprobs`, such as vLLM, or a GGUF file as local/PATH.gguf",
        )
    )


def echo_of(choice: dict[str, Any], where: str) -> Echo:
    """The lists, if the choice has them."""
    found = choice.get("logprobs")
    logprobs = found.get("token_logprobs") if isinstance(found, dict) else None
    if not isinstance(found, dict) or not isinstance(logprobs, list):
        raise no_echo(where, "its reply has no token_logprobs")
    tops, offsets = found.get("top_logprobs"), found.get("text_offset")
    if not isinstance(tops, list) or len(tops) != len(logprobs):
        raise no_echo(where, "its reply has no top_logprobs for each token")
    fits = isinstance(offsets, list) and len(offsets) == len(logprobs)
    return Echo(logprobs, tops, offsets if fits and offsets else [], str(choice.get("text") or ""))


def by_count(echo: Echo, start: int, stop: int, where: str) -> Likelihood:
    """Of the tokens from `start` on, where the prompt has `stop` of them."""
    if len(echo.logprobs) < stop:
        raise no_echo(where, f"it sent {len(echo.logprobs)} logprobs for a prompt of {stop} tokens")
    return _likelihood(echo, start, stop, where)


def by_text(echo: Echo, prompt: str, continuation: str, where: str) -> Likelihood:
    """Of the tokens that begin in the continuation, and of one that begins before it and reaches into it."""
    text = prompt + continuation
    if not echo.text.startswith(text):
        raise no_echo(where, "it does not repeat the prompt")
    offsets, last = echo.offsets, len(echo.offsets) - 1
    if not _ascend(offsets) or offsets[last] != len(text):
        raise no_echo(
            where, "it has no tokenizer (/tokenize) and its text_offset does not say where tokens begin"
        )
    start = bisect_left(offsets, len(prompt))
    if offsets[start] > len(prompt):
        start = bisect_left(offsets, offsets[start - 1])
    return _likelihood(echo, start, last, where)


def _ascend(offsets: list[Any]) -> bool:
    whole = bool(offsets) and all(type(offset) is int for offset in offsets)
    return whole and offsets[0] == 0 and offsets == sorted(offsets)


def _likelihood(echo: Echo, start: int, stop: int, where: str) -> Likelihood:
    logprobs, tops = echo.logprobs[start:stop], echo.tops[start:stop]
    if not all(isinstance(logprob, (int, float)) for logprob in logprobs):
        raise bad_reply(where, "a token of the continuation has no logprob")
    if not all(isinstance(top, dict) and top for top in tops):
        raise bad_reply(where, "a token of the continuation has no top_logprobs")
    greedy = all(logprob == max(top.values()) for logprob, top in zip(logprobs, tops, strict=True))
    return Likelihood(in_order(logprobs), greedy)
