"""What servers on loopback share: a free port, and an end without waiting."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from aiohttp import web


class RunningServer:
    """Listens within `async with`. What it answers is said by `_handle`."""

    url = ""
    _runner: web.ServerRunner

    async def __aenter__(self) -> Self:
        self._runner = web.ServerRunner(web.Server(self._handle, access_log=None), shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self._runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        raise NotImplementedError
