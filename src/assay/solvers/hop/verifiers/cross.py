"""Three calls side by side do the task again and say whether they agree with the result."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from assay.core.status import FAIL, OK, UNCERTAIN
from assay.solvers.hop.replies import Unreadable, read_object
from assay.solvers.hop.schemas import vote
from assay.solvers.hop.verifiers import Ask, Subject, Verdict
from assay.solvers.hop.wording import as_text, messages

VOTES = 3
SURE, OPEN = 0.7, 0.4
"""From this agreement on OK, from that on UNCERTAIN, below it FAIL."""


class Vote(NamedTuple):
    """A reply that cannot be read agrees with nothing."""

    agrees: bool
    reason: str


async def verify(subject: Subject, ask: Ask) -> Verdict:
    """By the share of votes that agree. A call that failed raises when the others are back: they are paid."""
    asked = messages("cross", subject.asked, {"result": as_text(subject.result)}, [])
    schema = vote(subject.result)
    replies = await asyncio.gather(*(ask(asked, schema) for _ in range(VOTES)), return_exceptions=True)
    votes = []
    for reply in replies:
        if isinstance(reply, BaseException):
            raise reply
        votes.append(_vote(reply))
    return counted(votes)


def counted(votes: list[Vote]) -> Verdict:
    """The verdict, with the reasons of those who do not agree."""
    share = sum(vote.agrees for vote in votes) / len(votes)
    if share >= SURE:
        return Verdict(OK)
    against = "; ".join(vote.reason for vote in votes if not vote.agrees and vote.reason)
    said = f"{share:.0%} of {len(votes)} independent answers agree"
    return Verdict(UNCERTAIN if share >= OPEN else FAIL, f"{said}: {against}" if against else said)


def _vote(text: str) -> Vote:
    try:
        found: dict[str, Any] = read_object(text)
    except Unreadable as error:
        return Vote(agrees=False, reason=f"no verdict ({error})")
    return Vote(agrees=found.get("agrees") is True, reason=as_text(found.get("reason", "")))
