"""Starts of a run whose solver is a function of the test, with a gateway: what `api` composes, by hand."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp

from assay.core.errors import AssayError
from assay.core.protocols import Context, Model
from assay.core.registry import find
from assay.core.roles import Connection
from assay.core.types import Case, End
from assay.engine.asker import ModelFacts
from assay.engine.caller import Caller, CallLedger
from assay.engine.gateway import Gateway
from assay.engine.loop import Loop, LoopSetup
from assay.engine.permits import Permits
from assay.engine.prices import PriceTable
from assay.journal.journal import Journal

from servers.endpoint import Endpoint

Solve = Callable[[Any, Context], Awaitable[None]]
CHAT: dict[str, Any] = {"model": "mine", "messages": [{"role": "user", "content": "hello"}], "seed": 5}
SEED = 100


class Told(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


async def post(url: str, body: Any, headers: dict[str, str] | None = None) -> Told:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return await send("POST", url, raw, headers)


async def send(method: str, url: str, body: bytes = b"", headers: dict[str, str] | None = None) -> Told:
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, url, data=body, headers=headers) as answer,
    ):
        return Told(answer.status, {k.lower(): v for k, v in answer.headers.items()}, await answer.read())


class Plan:
    """As many equal cases as asked, each run by one function."""

    def __init__(self, solve: Solve, total: int) -> None:
        self.solve = solve
        self.total = self.slots = total

    def load(self, skip: Callable[[int], bool] | None, open_cases: int) -> Iterator[Case]:
        return (Case(at, f"k{at}", "s", "me", "", at) for at in range(self.total) if skip is None or not skip(at))


class GatewayRun:
    """Starts of one run in one folder: what `api` composes, with a solver of the test's own."""

    def __init__(self, folder: Path, name: str, base_url: str | None = None) -> None:
        self.folder = folder
        self.name = name
        self.base_url = base_url
        self.ends: list[End | None] = []
        self.timeout = 30.0
        self.max_retries = 2
        self.prices: PriceTable | None = None

    async def start(self, solve: Solve, total: int = 1, max_calls: int | None = None) -> AssayError | None:
        """Run what is left; gives what stopped it."""
        model = self._connect()
        journal = Journal(self.folder, [], ["sk-run-secret"])
        facts = ModelFacts(self.name, model.endpoint, model.can)
        gateway = Gateway({"main": facts})
        permits = Permits(8)
        ledger = CallLedger(journal, lambda _: None, max_calls, None)
        caller = Caller(
            facts,
            model,
            permits,
            ledger,
            seed=SEED,
            max_retries=self.max_retries,
            prices=self.prices,
        )
        plan: Any = Plan(solve, total)
        setup = LoopSetup(
            cases=plan,
            solver=plan,
            scorers=[],
            journal=journal,
            callers={"main": caller, "judge": caller},
            permits=permits,
            halt=ledger.halt,
            notify=lambda _: None,
            notice=lambda _: None,
            open_cases=2,
            retry_failed=False,
            seed=SEED,
            started=0.0,
            gateway=gateway,
        )
        try:
            await Loop(setup).run()
        except AssayError as error:
            return error
        finally:
            await gateway.close()
            self.ends = [journal.reader.end(at) for at in range(total)]
            journal.close()
            await model.close()
        return None

    async def done(self, solve: Solve, total: int = 1) -> None:
        """Run what is left; every case ends well, so nothing that its code asserts is false."""
        assert await self.start(solve, total) is None
        assert [end and end.failure for end in self.ends] == [None] * total

    def _connect(self) -> Model:
        provider, _, name = self.name.partition("/")
        connection = Connection(name=name, base_url=self.base_url, timeout=self.timeout, seed=SEED)
        model: Model = find("model", provider).connect(connection)
        return model

    def calls(self) -> list[dict[str, Any]]:
        lines = (self.folder / "calls.jsonl").read_text().split("\n")[1:-1]
        return [json.loads(line) for line in lines]


def gateway_run_at(folder: Path, endpoint: Endpoint, provider: str = "openai") -> GatewayRun:
    return GatewayRun(folder, f"{provider}/gpt-test", endpoint.url)
