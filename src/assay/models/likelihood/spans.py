"""Which tokens a likelihood is about: the harness's rules, as functions of token ids.

A span is what one pass of the model is shown, in two parts: `context` is only read, `scored` is measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from assay.core.errors import ModelError
from assay.core.types import Failure, Response, Usage

Ids = list[int]


class Span(NamedTuple):
    """Tokens that stand before, and tokens whose likelihood is asked."""

    context: Ids
    scored: Ids

    @property
    def ids(self) -> Ids:
        """All of them, as the model reads them."""
        return self.context + self.scored


class Likelihood(NamedTuple):
    """The logarithm of a probability, and whether each token was the most likely one."""

    logprob: float
    greedy: bool


Part = tuple[Likelihood, Usage | None]
"""What one pass gave, and what it cost."""
CERTAIN = Likelihood(0.0, greedy=True)
"""Of the empty text. The harness says so too, after a prompt; without one it breaks off."""


def moved(prompt: str, continuation: str) -> tuple[str, str]:
    """White space at the prompt's end goes to the continuation, where tokenizers want it."""
    kept = prompt.rstrip()
    return kept, prompt[len(kept) :] + continuation


def after_prompt(prompt: Ids, both: Ids) -> Span:
    """The prompt's own tokens, and what the tokens of both texts together have beyond that number."""
    if len(both) <= len(prompt):
        raise ModelError(
            Failure(
                "rejected",
                "the continuation has no tokens of its own: the tokenizer joins it to the prompt's last "
                "word. Let the continuation begin with a space",
            )
        )
    return Span(prompt, both[len(prompt) :])


def after_prefix(ids: Ids, prefix: int) -> Span:
    """Without a prompt the text stands after the prefix token, unless it begins with that itself."""
    return Span(ids[:1], ids[1:]) if ids[0] == prefix else Span([prefix], ids)


def windows(ids: Ids, prefix: int, most: int) -> Iterator[Span]:
    """A whole text, `most` tokens at a time: each is scored once, after as many as fit before it."""
    yield Span([prefix], ids[:most])
    for start in range(most, len(ids), most):
        end = min(start + most, len(ids))
        yield Span(ids[end - most - 1 : start], ids[start:end])


def fitted(span: Span, most: int) -> Span:
    """Cut from the left to `most` tokens. What is scored is never cut, and one token stands before it."""
    over = len(span.context) + len(span.scored) - most
    if over <= 0:
        return span
    if over >= len(span.context):
        raise ModelError(
            Failure(
                "context_overflow",
                f"a continuation of {len(span.scored)} tokens does not fit into a context of {most}",
            )
        )
    return Span(span.context[over:], span.scored)


def in_order(logprobs: Iterable[float]) -> float:
    """The sum from left to right. `sum` rounds otherwise from Python 3.12 on."""
    total = 0.0
    for logprob in logprobs:
        total += logprob
    return total


def answer(parts: list[Part], *, rolling: bool) -> Response:
    """The reply: the sum over windows; of a whole text nobody asks whether it is greedy."""
    usages = [usage for _, usage in parts if usage]
    usage = Usage(sum(u.input for u in usages), sum(u.output for u in usages)) if usages else None
    greedy = not rolling and all(part.greedy for part, _ in parts)
    return Response(
        "", None, usage, {"logprob": in_order(part.logprob for part, _ in parts), "greedy": greedy}
    )
