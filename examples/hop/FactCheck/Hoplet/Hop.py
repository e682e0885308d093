"""A small Hoplet that checks a claim against its context."""

import re
from typing import Any

_WORD = re.compile(r"[a-z]+|\d+")
_EMPTY = frozenset({"a", "an", "and", "at", "by", "for", "in", "is", "it", "of", "on", "the", "to", "was"})


async def hop_fact_check(session: Any, fields: dict[str, str]) -> tuple[str, dict[str, Any]]:
    """One question to the model, and a count of what the claim shares with its context."""
    question = (
        f"Context: {fields['context']}\nClaim: {fields['claim']}\n"
        "Does the context say that the claim is true? Answer with one word, Yes or No."
    )
    async with session.tracer.trace_step(op="ask", task="supported"):
        answer = await session.model.chat(question, max_tokens=4)
    return "OK", {
        "supported": answer.strip().lower().startswith("yes"),
        "score": score(fields["context"], fields["claim"]),
    }


def score(context: str, claim: str) -> int:
    """1 if the context has no word of the claim, 5 if it has all; a number that it lacks costs two."""
    wanted = set(_WORD.findall(claim.lower())) - _EMPTY
    there = set(_WORD.findall(context.lower()))
    share = len(wanted & there) / max(1, len(wanted))
    wrong = any(word.isdigit() for word in wanted - there)
    return max(1, round(1 + 4 * share) - 2 * wrong)
