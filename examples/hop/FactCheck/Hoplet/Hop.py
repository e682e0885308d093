"""A small Hoplet that checks a claim: a model looks the answer up in the context, and code compares."""

import re
from typing import Any

_WORD = re.compile(r"[a-z]+|\d+")
_EMPTY = frozenset({"a", "an", "and", "at", "by", "for", "from", "in", "is", "it", "of", "on", "the", "to", "was"})


async def hop_fact_check(session: Any, fields: dict[str, str]) -> tuple[str, Any]:
    """The question is answered from the context alone; the claim is not shown to the model."""
    status, found = await session.hop_get(
        f"{fields['question']} Answer in a few words.", fields["context"], str, verifier=grounded, hop_retry=2
    )
    if status != "OK":
        return status, found
    score = agreement(fields["claim"], found, fields["question"])
    return "OK", {"found": found, "score": score, "supported": score >= 4}


def grounded(task: str, context: str, result: str) -> tuple[str, str]:
    """A verifier of our own, which asks nobody: an answer may only have words of its question and context."""
    strange = words(result) - words(context) - words(task)
    return ("FAIL", f"the context does not say {', '.join(sorted(strange))}") if strange else ("OK", "")


def agreement(claim: str, found: str, question: str) -> int:
    """From 1 to 5, by the share of the claim's words that were found; those of the question say nothing."""
    wanted = words(claim) - words(question)
    share = len(wanted & words(found)) / max(1, len(wanted))
    return round(1 + 4 * share)


def words(text: str) -> set[str]:
    """The words and numbers that carry meaning."""
    return set(_WORD.findall(text.lower())) - _EMPTY
