"""The recording gateway: a second door to the call log, for systems that bring their own SDK.

Every open try of a case has an address of its own on loopback. What is posted below it becomes one `ask`
of that try: logged before the SDK sees the reply, replayed on resume, limited and retried like every call.
A run may have one common address besides, for code that knows nothing of tries.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from assay.core.protocols import Asker, Upstream
from assay.models.calling.doors import CaseEndpoint

if TYPE_CHECKING:
    from assay.models.calling.server import Server


_PLACEHOLDER = "not-a-key"
"""SDKs do not start without a key; the gateway looks at none."""


@contextmanager
def sdk_environment(url: str) -> Iterator[None]:
    """Within this, SDKs that look into the environment find this address; afterwards it is as before."""
    before = {name: os.environ.get(name) for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY")}
    os.environ["OPENAI_BASE_URL"] = url
    os.environ["OPENAI_API_KEY"] = before["OPENAI_API_KEY"] or _PLACEHOLDER
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


class Gateway:
    """The run's models by role, and the doors of open tries. It listens from the first `start` on."""

    def __init__(self, upstreams: Mapping[str, Upstream]) -> None:
        self._upstreams = upstreams
        self._doors: dict[str, CaseEndpoint] = {}
        self._starting = asyncio.Lock()
        self._server: Server | None = None
        self._address = ""
        self._common = secrets.token_urlsafe(16)

    async def start(self) -> None:
        """Listen, unless it does already."""
        from assay.models.calling.server import Server  # most runs have no foreign SDK: they load no server

        async with self._starting:
            if self._server is None:
                server = Server(self._doors.get)
                self._address = await server.start()
                self._server = server

    def open_endpoint(self, role: str, asker: Asker) -> CaseEndpoint:
        """An address for one try, which nobody can guess. It answers until the door is closed."""
        token = secrets.token_urlsafe(16)
        return self._open(token, role, asker, partial(self._doors.pop, token, None))

    def open_shared_endpoint(self, role: str, asker: Asker) -> CaseEndpoint:
        """The one address of the whole process, answered by this asker until the door is closed.

        Then whoever answered there before does so again: so it can be lent to a try while no other is open.
        """
        token, before = self._common, self._doors.get(self._common)
        put_back = partial(self._doors.__setitem__, token, before) if before else None
        return self._open(token, role, asker, put_back or partial(self._doors.pop, token, None))

    def _open(self, token: str, role: str, asker: Asker, forget: Callable[[], object]) -> CaseEndpoint:
        door = CaseEndpoint(f"{self._address}/c/{token}/v1", self._upstreams[role], asker, forget)
        self._doors[token] = door
        return door

    async def close(self) -> None:
        """Stop listening."""
        while self._doors:  # a door that was lent puts another in its place
            next(iter(self._doors.values())).close()
        if self._server is not None:
            await self._server.close()
