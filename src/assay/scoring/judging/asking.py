"""Puts a matter before a model: held to a JSON schema where it can be, read strictly, asked again once."""

from __future__ import annotations

from collections import Counter
from typing import Any, Protocol

from assay.core.connect import SCHEMA
from assay.core.hashing import fingerprint
from assay.core.protocols import Asker
from assay.core.types import Request
from assay.scoring.json_text import read_json
from assay.scoring.judging.matters import Verdict, invalid

TRIES = 2
"""Times that one vote is asked for before it is invalid."""


class Wording(Protocol):
    """How one kind of matter is put into words and a reply to it is read: one file a kind in `judges`."""

    @property
    def fingerprint(self) -> str:
        """The version of the prompt and the sha256 of its file."""
        ...

    params: dict[str, Any]

    def messages(self, matter: Any) -> list[dict[str, Any]]:
        """The prompt; the same for the same matter, so that it is paid once."""
        ...

    def schema(self, matter: Any) -> dict[str, Any]:
        """What a reply must look like."""
        ...

    def read(self, reply: Any, matter: Any) -> tuple[tuple[str, ...], str]:
        """One label for each thing, and the reason. ValueError says what is wrong with the reply."""
        ...


class Asking:
    """One kind of matter, so many votes."""

    def __init__(self, wording: Wording, votes: int) -> None:
        self._wording = wording
        self._votes = votes

    @property
    def fingerprint(self) -> str:
        """Changes with the prompt, the parameters and the number of votes."""
        return fingerprint([self._wording.fingerprint, self._wording.params, self._votes, TRIES])

    async def verdict(self, matter: Any, asker: Asker) -> Verdict:
        """The majority of the valid votes; invalid where there is none, or no majority."""
        votes = [await self._vote(matter, asker) for _ in range(self._votes)]
        valid = [vote for vote in votes if vote.valid]
        if not valid or len(votes) == 1:
            return votes[0]
        return _majority(valid)

    async def _vote(self, matter: Any, asker: Asker) -> Verdict:
        said = invalid("it was not asked")
        for _ in range(TRIES):
            response = await asker.ask(self._request(matter, asker))
            try:
                labels, reason = self._wording.read(read_json(response.text), matter)
            except ValueError as error:
                said = invalid(f"no verdict: {error}")
            else:
                return Verdict(labels, reason)
        return said

    def _request(self, matter: Any, asker: Asker) -> Request:
        params = dict(self._wording.params)
        if SCHEMA in asker.can:
            schema = {"name": "verdict", "schema": self._wording.schema(matter)}
            params["response_format"] = {"type": "json_schema", "json_schema": schema}
        return Request(
            model=asker.name, endpoint=asker.endpoint, messages=self._wording.messages(matter), params=params
        )


def _majority(votes: list[Verdict]) -> Verdict:
    said = tuple(vote.labels for vote in votes)
    counts = [Counter(column).most_common() for column in zip(*said, strict=True)]
    if any(len(found) > 1 and found[0][1] == found[1][1] for found in counts):
        return invalid("no verdict: as many votes for one label as for another")
    labels = tuple(found[0][0] for found in counts)
    reason = next((vote.reason for vote in votes if vote.labels == labels), votes[0].reason)
    sure = tuple(found[0][1] / len(votes) for found in counts)
    return Verdict(labels, reason, sure=sure, votes=said, stable=len(set(said)) == 1)
