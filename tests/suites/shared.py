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
from pathlib import Path
from typing import Annotated, Any

import aiohttp

import assay
from assay.core.protocols import Context, Solver
from assay.core.report import Report
from assay.core.roles import Role
from assay.core.spec import RunSpec, SuiteOptions, ask, how
from assay.core.suite import CaseContent, Outcome, Results, Row, Rows, RunFacts, Suite
from assay.core.types import Request

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, it still shares rows with the chain suite

from suites.chain import Numbers


class SharedOptions(SuiteOptions, frozen=True, kw_only=True):
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


class SharedSolver(Solver):
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


class SharedSuite(Suite[SharedOptions, int]):
    """The rows are numbers; all answers stand in answers.json."""

    name = "shared"
    Options = SharedOptions

    def __init__(self, spec: RunSpec) -> None:
        super().__init__(spec)
        options = self.options
        if options.second:
            other = Role("openai/fake", options.second, options.key)
            self.roles = {"main": Role(spec.model, key="FIRST_LOGIN"), "other": other}
        self.shared_endpoint = None if options.second else "main"
        self.open_cases = options.workers
        self.solver = SharedSolver(spec, options)

    def ask_identity(self) -> dict[str, Any]:
        """The file's content says it all."""
        return {}

    def rows(self, facts: dict[str, Any] | None = None) -> Rows[int]:
        """The numbers."""
        return Numbers(self.options.cases, "shared")

    def subjects(self) -> list[str]:
        """One."""
        return ["me"]

    def case(self, row: Row[int], subject: str) -> CaseContent:
        """A number is asked as it is."""
        return CaseContent(row.data, label=str(row.data))

    def finish(self, results: Results[int], run: RunFacts) -> Outcome:
        """All answers in order of the rows."""
        answers = [record.data for result in results for record in result.records]
        path = Path(self.spec.output_dir) / "answers.json"
        path.write_text(json.dumps(answers))
        return Outcome(Report(), [path])


def spec(**values: Any) -> RunSpec:
    """A run of this suite."""
    return assay.spec(f"{__file__}:SharedSuite", **{"model": "openai/fake", "concurrency": 8, **values})


if __name__ == "__main__":
    sys.exit(assay.run(spec(**dict(argument.split("=", 1) for argument in sys.argv[1:]))).exit_code)
