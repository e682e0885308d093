"""Splits a text into context tokens and scored tokens, by the rules of lm-evaluation-harness.

    prompt, continuation = move_trailing_space("The sky is ", "blue")   # "The sky is", " blue"
    span = span_after_prompt(ids("The sky is"), ids("The sky is blue"))
    span = truncate_left(span, max_tokens=2047)

A span is the input of one forward pass of the model. The pass measures the likelihood of the `scored` tokens after the
`context` tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from assay.core.errors import ModelError
from assay.core.types import Failure, Response, Usage

Ids = list[int]


class TokenSpan(NamedTuple):
    """The tokens of one forward pass: the context, and the tokens whose likelihood is measured."""

    context: Ids
    scored: Ids

    @property
    def ids(self) -> Ids:
        """The tokens of the context, then the scored tokens."""
        return self.context + self.scored


class Likelihood(NamedTuple):
    """The log-probability of a text, and whether each of its tokens was the most likely one."""

    logprob: float
    greedy: bool


class MeasuredSpan(NamedTuple):
    """The likelihood of one span, with the token counts and the price of its forward pass."""

    likelihood: Likelihood
    usage: Usage | None = None
    cost: float | None = None


# The empty text has probability 1. The harness agrees if there is a prompt; without one it crashes.
EMPTY_TEXT = MeasuredSpan(Likelihood(0.0, greedy=True))


def move_trailing_space(prompt: str, continuation: str) -> tuple[str, str]:
    """Move white space from the end of the prompt to the start of the continuation.

    Most tokenizers have tokens such as " blue": the space belongs to the following word.
    """
    stripped = prompt.rstrip()
    return stripped, prompt[len(stripped) :] + continuation


def span_after_prompt(prompt: Ids, both: Ids) -> TokenSpan:
    """Return the span of a continuation, from the tokens of the prompt and of both texts together.

    As in the harness, the first len(prompt) tokens of `both` are the context, even if the tokenizer has split
    the joined text differently there.
    """
    if len(both) <= len(prompt):
        message = (
            "the continuation adds no token: the tokenizer merges it with the last word of the prompt. "
            "Begin the continuation with a space"
        )
        raise ModelError(Failure("rejected", message))
    return TokenSpan(prompt, both[len(prompt) :])


def span_after_prefix(ids: Ids, prefix: int) -> TokenSpan:
    """Return the span of a text without a prompt. The prefix token precedes it, unless the text begins with it."""
    if ids[0] == prefix:
        return TokenSpan(ids[:1], ids[1:])
    return TokenSpan([prefix], ids)


def rolling_windows(ids: Ids, prefix: int, max_scored: int) -> Iterator[TokenSpan]:
    """Split a whole text into windows that score up to `max_scored` tokens each.

    Each token is scored once. The context of a window is as long as fits before its scored tokens.
    """
    yield TokenSpan([prefix], ids[:max_scored])
    for start in range(max_scored, len(ids), max_scored):
        end = min(start + max_scored, len(ids))
        yield TokenSpan(ids[end - max_scored - 1 : start], ids[start:end])


def truncate_left(span: TokenSpan, max_tokens: int) -> TokenSpan:
    """Drop the beginning of the context so that the span fits.

    Scored tokens are never dropped, and at least one token stays before them.
    """
    surplus = len(span.context) + len(span.scored) - max_tokens
    if surplus <= 0:
        return span
    if surplus >= len(span.context):
        message = f"a continuation of {len(span.scored)} tokens does not fit into a context of {max_tokens}"
        raise ModelError(Failure("context_overflow", message))
    return TokenSpan(span.context[surplus:], span.scored)


def sum_in_order(logprobs: Iterable[float]) -> float:
    """Return the sum, added from left to right.

    The built-in `sum` compensates rounding errors since Python 3.12. Our numbers equal the harness's bit for
    bit only with plain addition.
    """
    total = 0.0
    for logprob in logprobs:
        total += logprob
    return total


def build_response(parts: list[MeasuredSpan], *, rolling: bool, address: str = "") -> Response:
    """Return the response to a request with a `continuation`: the sum over its spans.

    `greedy` is false for a rolling likelihood: the harness does not define it for a whole text.
    """
    usages = [part.usage for part in parts if part.usage]
    usage = None
    if usages:
        usage = Usage(sum(u.input for u in usages), sum(u.output for u in usages), cached=sum(u.cached for u in usages))
    costs = [part.cost for part in parts if part.cost is not None]
    logprob = sum_in_order(part.likelihood.logprob for part in parts)
    greedy = not rolling and all(part.likelihood.greedy for part in parts)
    return Response(
        "",
        None,
        usage,
        {"logprob": logprob, "greedy": greedy},
        cost=sum(costs) if costs else None,
        address=address,
    )
