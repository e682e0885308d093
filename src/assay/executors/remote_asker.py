"""The models of a run as a case on a worker sees them: every request goes to the driver.

Requests are numbered here, where the case runs. The driver answers from its log, or asks and logs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from assay.core.errors import StopRun
from assay.core.types import Call, Case, Request, Response
from assay.engine.asker import NumberedAsker
from assay.executors.plan import RoleFacts

AskDriver = Callable[[str, Request, str, int, str], Awaitable[tuple[Call, bool]]]
"""Role, request, hash, number and purpose → the call as it is logged, and whether its reply comes from a log."""


class RemoteAsker(NumberedAsker):
    """A model for one case on this worker."""

    __slots__ = ("_ask_driver", "_role")

    def __init__(self, role: str, facts: RoleFacts, ask_driver: AskDriver) -> None:
        super().__init__(facts.name, facts.endpoint, facts.can, facts.params)
        self._role = role
        self._ask_driver = ask_driver

    async def _find_or_make(self, request: Request, hash_: str, n: int, purpose: str) -> tuple[Call, bool]:
        return await self._ask_driver(self._role, request, hash_, n, purpose)


class RemoteCaller:
    """A model of the run, for one placement of a case."""

    def __init__(self, role: str, facts: RoleFacts, ask_driver: AskDriver) -> None:
        self._role = role
        self._facts = facts
        self._ask_driver = ask_driver

    def bind(self, case: Case, stage: str, try_: int, replies: Mapping[tuple[str, str, int], Call]) -> RemoteAsker:
        """Return the asker of the placement. The driver has the replies of earlier tries."""
        return RemoteAsker(self._role, self._facts, self._ask_driver)


class DriversModel:
    """What the gateway of a worker needs to know of a model. Its requests go through an asker, never through `send`."""

    def __init__(self, facts: RoleFacts) -> None:
        self.endpoint = facts.endpoint
        self.can = facts.can

    async def send(self, request: Request, seed: int) -> Response:
        """Raise StopRun: only the driver asks this model."""
        raise StopRun(f"{self.endpoint} is asked by the driver, not by a worker")

    async def close(self) -> None:
        """Nothing to close."""
