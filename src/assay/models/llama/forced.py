"""How likely the embedded model is to say given tokens: it is made to say them, and tells what it thought.

A grammar of token ids leaves one way to go on; log-probabilities are reported as they were before it. Tokens
that are no whole character, and control tokens, cannot be forced like that, and llama.cpp reports nothing of
them where it says them: they are looked up in the whole vocabulary, which takes a second each.
"""

from __future__ import annotations

from itertools import groupby
from typing import Any, NamedTuple

from assay.core.errors import ModelError
from assay.core.types import Failure, Usage
from assay.models.likelihood.spans import Ids, Likelihood, in_order
from assay.models.llama.engine import Engine, Halt, at_work
from assay.models.llama.reply import Reply
from assay.models.llama.tokens import Asked

_ALL = 10_000_000
"""More than any vocabulary has: llama.cpp then lists all of it."""
_ANY = 'root ::= "a"'
"""What is said while looking up does not matter, as long as it is a whole character."""


class Said(NamedTuple):
    """Of one token: what the model thought of it, and whether it thought of none more."""

    logprob: float
    best: bool


class Forced:
    """One measurement. `reuse` keeps what was computed of a prompt for the next one that begins so."""

    def __init__(self, engine: Engine, halt: Halt, *, reuse: bool) -> None:
        self._engine = engine
        self._halt = halt
        self._reuse = reuse

    def measure(self, asked: Asked) -> tuple[Likelihood, Usage]:
        """Runs in a thread and blocks."""
        context, scored = asked.span
        said: list[Said] = []
        with at_work(self._halt):
            for odd, run in groupby(scored, asked.odd.__contains__):
                ids, prompt = list(run), context + scored[: len(said)]
                said += self._looked_up(prompt, ids) if odd else self._forced(prompt, ids)
        likelihood = Likelihood(in_order(one.logprob for one in said), all(one.best for one in said))
        return likelihood, Usage(len(context), len(scored))

    def _forced(self, prompt: Ids, ids: Ids) -> list[Said]:
        grammar = "root ::= " + " ".join(f"<[{id_}]>" for id_ in ids)
        told = self._ask(prompt, {"grammar": grammar, "max_tokens": len(ids), "logprobs": 1})
        if [one["id"] for one in told] != ids:
            raise ModelError(
                Failure("server_error", "llama.cpp said other tokens than it was made to"), retry=True
            )
        return [_said(one["logprob"], one["top_logprobs"]) for one in told]

    def _looked_up(self, prompt: Ids, ids: Ids) -> list[Said]:
        said = []
        for place, id_ in enumerate(ids):
            (told,) = self._ask(prompt + ids[:place], {"grammar": _ANY, "max_tokens": 1, "logprobs": _ALL})
            tops = told["top_logprobs"]
            said.append(_said(next(one["logprob"] for one in tops if one["id"] == id_), tops))
        return said

    def _ask(self, prompt: Ids, how: dict[str, Any]) -> list[dict[str, Any]]:
        reply = Reply(self._halt)
        body = {"prompt": prompt, "temperature": 0.0, "seed": 0, "cache_prompt": self._reuse, **how}
        if not self._halt.asked:
            reply.fill(self._engine.server.handle_completions, body)
        reply.response()
        return reply.logprobs


def _said(logprob: float, tops: list[dict[str, Any]]) -> Said:
    """The list is in order; of equals each is the best."""
    return Said(logprob, best=logprob >= tops[0]["logprob"])
