"""Which tokens a likelihood is about: the rules of lm-evaluation-harness, as functions of token ids.

    prompt, continuation = move_trailing_space("The sky is ", "blue")   # "The sky is", " blue"
    span = span_after_prompt(ids("The sky is"), ids("The sky is blue"))
    span = truncate_left(span, max_tokens=2047)

A span is what one pass of the model reads. Its `context` is only read, its `scored` tokens are measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from assay.core.errors import ModelError
from assay.core.types import Failure, Response, Usage

Ids = list[int]


class TokenSpan(NamedTuple):
    """The tokens of one pass: those before, and those whose likelihood is asked."""

    context: Ids
    scored: Ids

    @property
    def ids(self) -> Ids:
        """All tokens, as the model reads them."""
        return self.context + self.scored


class Likelihood(NamedTuple):
    """The log-probability of a text, and whether each of its tokens was the most likely one."""

    logprob: float
    greedy: bool


class MeasuredSpan(NamedTuple):
    """The likelihood of one span, and what the pass cost."""

    likelihood: Likelihood
    usage: Usage | None = None
    cost: float | None = None


# The empty text is certain. The harness says so too after a prompt; without a prompt it crashes.
EMPTY_TEXT = MeasuredSpan(Likelihood(0.0, greedy=True))


def move_trailing_space(prompt: str, continuation: str) -> tuple[str, str]:
    """Move white space from the end of the prompt to the continuation.

    Most tokenizers join a space to the word that follows it.
    """
    stripped = prompt.rstrip()
    return stripped, prompt[len(stripped) :] + continuation


def span_after_prompt(prompt: Ids, both: Ids) -> TokenSpan:
    """Return the span of a continuation, from the tokens of the prompt and of both texts together.

    As in the harness, the scored tokens are those of both texts beyond the number of the prompt's tokens.
    """
    if len(both) <= len(prompt):
        message = (
            "the continuation has no tokens of its own: the tokenizer joins it to the prompt's last "
            "word. Let the continuation begin with a space"
        )
        raise ModelError(Failure("rejected", message))
    return TokenSpan(prompt, both[len(prompt) :])


def span_after_prefix(ids: Ids, prefix: int) -> TokenSpan:
    """Return the span of a text without prompt. It follows the prefix token, unless it begins with it."""
    if ids[0] == prefix:
        return TokenSpan(ids[:1], ids[1:])
    return TokenSpan([prefix], ids)


def rolling_windows(ids: Ids, prefix: int, max_scored: int) -> Iterator[TokenSpan]:
    """Split a whole text into windows of `max_scored` tokens.

    Each token is scored once, after as many tokens as fit before it.
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

    The built-in `sum` rounds differently since Python 3.12, and the harness's numbers are equal to ours bit
    for bit.
    """
    total = 0.0
    for logprob in logprobs:
        total += logprob
    return total


def build_response(parts: list[MeasuredSpan], *, rolling: bool, address: str = "") -> Response:
    """Return the response to a request with a `continuation`: the sum over its spans.

    A rolling likelihood is never greedy: the harness does not ask that of a whole text.
    """
    usages = [part.usage for part in parts if part.usage]
    usage = None
    if usages:
        usage = Usage(sum(u.input for u in usages), sum(u.output for u in usages))
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
