"""One model behind several base URLs: calls go to the freest endpoint, and to another one when an endpoint fails.

    model = SeveralEndpoints([connect_to("http://a:8000/v1"), connect_to("http://b:8000/v1")])
    permits = Permits(16, model.addresses)             # 16 calls at each endpoint: permits.py
    at = await permits.acquire(order=case.index)       # the number of an endpoint
    reply = await model.members[at].send(request, seed)
    permits.release(at)

Which endpoint answers is not part of a request, so endpoints may be added, removed and exchanged between two starts of
a run. Each reply has the address that sent it (`Response.address`).
"""

from __future__ import annotations

from collections.abc import Sequence

from assay.core.protocols import Model
from assay.core.roles import SEVERAL
from assay.core.types import Request, Response


class SeveralEndpoints:
    """The same model at several endpoints. Its `endpoint` is a constant, so that the addresses are not in requests."""

    endpoint = SEVERAL

    def __init__(self, members: Sequence[Model]) -> None:
        self.members = tuple(members)
        self.addresses = tuple(member.endpoint for member in members)
        self.can = frozenset.intersection(*(member.can for member in members))

    async def send(self, request: Request, seed: int) -> Response:
        """Send a request to the first endpoint. The calls of a run choose among all of them: see Caller."""
        return await self.members[0].send(request, seed)

    async def close(self) -> None:
        """Close the connections to all endpoints."""
        for member in self.members:
            await member.close()
