"""Puts a matter before a model: held to a JSON schema where it can be, read strictly, asked again once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, Protocol

from assay.core.connect import SCHEMA, response_format
from assay.core.errors import ModelError
from assay.core.hashing import fingerprint
from assay.core.protocols import Asker, Context
from assay.core.types import Request, Response
from assay.scoring.json_text import read_reply
from assay.scoring.judging import fitting
from assay.scoring.judging.matters import Verdict, invalid
from assay.scoring.judging.replies import no_verdict, refused

TRIES = 2
"""Times that one vote is asked for before it is invalid."""


class Wording(Protocol):
    """How one kind of matter is put into words and a reply to it is read: one file a kind in `judges`."""

    @property
    def fingerprint(self) -> str:
        """The version of the prompt and the sha256 of its file."""
        ...

    params: dict[str, Any]

    def parts(self, matter: Any) -> Sequence[Any]:
        """The matter in pieces that fit a prompt each; their labels in a row are the labels of the matter."""
        ...

    def messages(self, matter: Any) -> list[dict[str, Any]]:
        """The prompt; the same for the same matter, so that it is paid once."""
        ...

    def schema(self, matter: Any) -> dict[str, Any]:
        """What a reply must look like."""
        ...

    def read(self, reply: Mapping[str, Any], matter: Any) -> tuple[tuple[str, ...], str]:
        """One label for each thing, and the reason. ValueError says what is wrong with the reply."""
        ...


class Asking:
    """One kind of matter, so many votes."""

    def __init__(self, wording: Wording, votes: int) -> None:
        self._wording = wording
        self._votes = votes

    @property
    def fingerprint(self) -> str:
        """Changes with the prompt, the parameters, the budgets and the number of votes."""
        wording = self._wording
        return fingerprint([wording.fingerprint, wording.params, self._votes, TRIES, fitting.FINGERPRINT])

    async def verdict(self, matter: Any, asker: Asker, ctx: Context) -> Verdict:
        """The majority of the valid votes; invalid where there is none, or no majority.

        Parts and votes are asked side by side. A part without verdict leaves the whole matter without one.
        Raises ModelError where a vote got no reply at all.
        """
        ballots = await ctx.map(lambda part: self._ballot(part, asker, ctx), self._wording.parts(matter))
        return _joined(ballots)

    async def _ballot(self, part: Any, asker: Asker, ctx: Context) -> list[Verdict]:
        """The votes on one part. Bad replies are asked again in rounds: a replay meets the same order."""
        request = self._request(part, asker)
        votes: list[Verdict] = [invalid("it was not asked")] * self._votes
        for _ in range(TRIES):
            open_ = [at for at, vote in enumerate(votes) if not vote.valid]
            if not open_:
                break
            said = await ctx.map(lambda _: self._vote(part, request, asker), open_)
            for at, vote in zip(open_, said, strict=True):
                votes[at] = vote
        return votes

    async def _vote(self, part: Any, request: Request, asker: Asker) -> Verdict:
        """One reply, read. What the judge refuses, or what is too long for it, is no failed call."""
        try:
            response = await asker.ask(request)
        except ModelError as error:
            return invalid(refused(error))
        return self._read(response, part, request)

    def _read(self, response: Response, part: Any, request: Request) -> Verdict:
        asked = "\n".join(message["content"] for message in request.messages or [])
        try:
            return Verdict(*self._wording.read(read_reply(response.text, asked), part))
        except ValueError as error:
            return invalid(no_verdict(response, str(error)))

    def _request(self, part: Any, asker: Asker) -> Request:
        params = dict(self._wording.params)
        if SCHEMA in asker.can:
            params["response_format"] = response_format(self._wording.schema(part))
        messages = self._wording.messages(part)
        return Request(model=asker.name, endpoint=asker.endpoint, messages=messages, params=params)


def _joined(ballots: list[list[Verdict]]) -> Verdict:
    """The parts in a row. `votes` are those that are valid in every part."""
    found = [_majority(ballot) for ballot in ballots]
    if len(found) == 1:
        return found[0]
    for number, one in enumerate(found, 1):
        if not one.valid:
            return invalid(f"part {number} of {len(found)}: {one.reason}")
    casts = zip(*ballots, strict=True)
    whole = [cast for cast in casts if len(ballots[0]) > 1 and all(vote.valid for vote in cast)]
    marks = {one.stable for one in found}
    return Verdict(
        _row(one.labels for one in found),
        "\n".join(one.reason for one in found),
        sure=tuple(chain.from_iterable(one.sure for one in found)),
        votes=tuple(_row(vote.labels for vote in cast) for cast in whole),
        stable=False if False in marks else None if None in marks else True,
    )


def _row(labels: Any) -> tuple[str, ...]:
    return tuple(chain.from_iterable(labels))


def _majority(ballot: list[Verdict]) -> Verdict:
    """`sure` is the share of valid votes for the label; one valid vote among several shows no stability."""
    votes = [vote for vote in ballot if vote.valid]
    if len(ballot) == 1 or not votes:
        return ballot[0]
    said = tuple(vote.labels for vote in votes)
    counts = [Counter(column).most_common(2) for column in zip(*said, strict=True)]
    stable = len(set(said)) == 1 if len(said) > 1 else None
    if any(len(found) > 1 and found[0][1] == found[1][1] for found in counts):
        why = "no verdict: as many votes for one label as for another"
        return Verdict(reason=why, status="invalid", votes=said, stable=False)
    labels = tuple(found[0][0] for found in counts)
    reason = next((vote.reason for vote in votes if vote.labels == labels), votes[0].reason)
    sure = tuple(found[0][1] / len(votes) for found in counts)
    return Verdict(labels, reason, sure=sure, votes=said, stable=stable)
