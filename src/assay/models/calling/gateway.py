"""The recording gateway: a second door to the call log, for systems that bring their own SDK.

Every open try of a case has an address of its own on loopback. What is posted below it becomes one `ask`
of that try: logged before the SDK sees the reply, replayed on resume, limited and retried like every call.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from assay.core.protocols import Asker, Upstream
from assay.models.calling.doors import Door

if TYPE_CHECKING:
    from assay.models.calling.server import Server


class Gateway:
    """The run's models by role, and the doors of open tries. It listens from the first `start` on."""

    def __init__(self, upstreams: Mapping[str, Upstream]) -> None:
        self._upstreams = upstreams
        self._doors: dict[str, Door] = {}
        self._starting = asyncio.Lock()
        self._server: Server | None = None
        self._address = ""

    async def start(self) -> None:
        """Listen, unless it does already."""
        from assay.models.calling.server import Server  # most runs have no foreign SDK: they load no server

        async with self._starting:
            if self._server is None:
                server = Server(self._doors.get)
                self._address = await server.start()
                self._server = server

    def open(self, role: str, asker: Asker) -> Door:
        """An address for one try, which nobody can guess. It answers until the door is closed."""
        token = secrets.token_urlsafe(16)
        url, forget = f"{self._address}/c/{token}/v1", partial(self._doors.pop, token, None)
        self._doors[token] = Door(url, self._upstreams[role], asker, forget)
        return self._doors[token]

    async def close(self) -> None:
        """Stop listening."""
        for door in list(self._doors.values()):
            door.close()
        if self._server is not None:
            await self._server.close()
