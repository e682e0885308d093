"""A suite whose rows know nothing of a session: they ask at OPENAI_BASE_URL, as an SDK would.

Each row asks one question that all rows share and one of its own, from a thread and from the event loop.
`python tests/suites/shared.py base_url=URL output_dir=DIR crash=told:7` runs it and kills itself there.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import urllib.request
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import aiohttp

import assay
from assay.core.connect import Role
from assay.core.protocols import Context, Outcome, Reader, RunFacts, Scorer
from assay.core.spec import Options, RunSpec, ask, how
from assay.core.types import Case, Request


class SharedOptions(Options, frozen=True, kw_only=True):
    """How many rows, how many at once, and what the rows do."""

    cases: Annotated[int, ask("How many rows.")] = 12
    workers: Annotated[int, how("How many rows are open at once.")] = 4
    crash: Annotated[str, how("told:NUMBER, the row at which the process kills itself.")] = ""
    careless: Annotated[bool, how("Give a made-up answer where a call fails.")] = False
    second: Annotated[str, ask("Endpoint of a second model; then rows ask both through the context.")] = ""
    key: Annotated[str, how("The variable that holds the second one's key.")] = "SECOND_LOGIN"


def body_of(prompt: str) -> bytes:
    """What an SDK posts."""
    return json.dumps({"model": "fake", "messages": [{"role": "user", "content": prompt}]}).encode()


def text_of(answer: bytes) -> str:
    """What an SDK returns."""
    return str(json.loads(answer)["choices"][0]["message"]["content"])


def ask_in_thread(prompt: str) -> str:
    """As a sync SDK, which does not start without a key."""
    assert os.environ["OPENAI_API_KEY"]
    url = f"{os.environ['OPENAI_BASE_URL']}/chat/completions"
    headers = {"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}", "Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(url, body_of(prompt), headers)) as answer:
        return text_of(answer.read())


async def ask_in_loop(prompt: str) -> str:
    """As an async SDK."""
    url = f"{os.environ['OPENAI_BASE_URL']}/chat/completions"
    async with aiohttp.ClientSession() as session, session.post(url, data=body_of(prompt)) as answer:
        answer.raise_for_status()
        return text_of(await answer.read())


class SharedSolver:
    """One row."""

    def __init__(self, spec: RunSpec, options: SharedOptions) -> None:
        self._spec = spec
        self._options = options

    async def solve(self, inputs: int, ctx: Context) -> None:
        """Two questions; the answers in one record."""
        if self._options.second:
            ctx.emit("answer", [await self._by_role(role, ctx) for role in ("main", "other")])
            return
        try:
            first = await asyncio.to_thread(ask_in_thread, "shared")
            if self._options.crash == f"told:{inputs}":
                os.kill(os.getpid(), signal.SIGKILL)
            ctx.emit("answer", [first, await ask_in_loop(f"row {inputs}")])
        except OSError:
            if not self._options.careless:
                raise
            ctx.emit("answer", ["made up", "made up"])

    async def _by_role(self, role: str, ctx: Context) -> str:
        asker = ctx.model(role)
        prompt = " ".join(os.environ.get(name, "") for name in ("FIRST_LOGIN", "SECOND_LOGIN"))
        return (await asker.ask(Request(model=asker.name, endpoint=asker.endpoint, prompt=prompt))).text


class SharedPlan:
    """The rows are numbers."""

    ask = score = None
    needs: frozenset[str] = frozenset()
    notices: tuple[str, ...] = ()
    common_role = "main"

    def __init__(self, spec: RunSpec) -> None:
        assert isinstance(spec.options, SharedOptions)
        options = spec.options
        self.roles: dict[str, str | Role] = {"main": spec.model}
        if options.second:
            self.roles["main"] = Role(spec.model, key="FIRST_LOGIN")
            self.roles["other"] = Role("openai/fake", options.second, options.key)
        self.common = not options.second
        self.open_cases = options.workers
        self.solver = SharedSolver(spec, options)
        self.scorers: list[Scorer] = []
        self.total = options.cases

    def prepare(self, facts: dict[str, Any] | None) -> dict[str, Any]:
        """There is nothing to look at."""
        return {}

    def load(self, skip: Callable[[int], bool]) -> Iterator[Case]:
        """The numbers in order."""
        return (Case(at, f"key{at}", "shared", "me", str(at), at) for at in range(self.total) if not skip(at))

    def finish(self, reader: Reader, facts: RunFacts) -> Outcome:
        """All answers in order of the rows."""
        answers = [record.data for at in range(self.total) for record in reader.records(at)]
        return Outcome({"shared": {"answers": answers, "metrics": []}}, [])


class suite:  # noqa: N801 - a suite is a module, or an object that stands for one
    """What the registry finds."""

    Options = SharedOptions
    plan = SharedPlan


def spec(**values: Any) -> RunSpec:
    """A run of this suite."""
    return assay.spec(f"{__file__}:suite", **{"model": "openai/fake", "concurrency": 8, **values})


if __name__ == "__main__":
    sys.exit(assay.run(spec(**dict(argument.split("=", 1) for argument in sys.argv[1:]))).exit_code)
