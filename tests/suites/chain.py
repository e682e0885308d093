"""A suite of a user's own, named by path: calls in sequence and side by side within one case.

Each case asks A, then B1 to B3 side by side with A's answer in the prompt, then C with all of them.
`python tests/suites/chain.py base_url=URL output_dir=DIR crash=told:7` runs it; `crash` names the very moment
at which the process kills itself, so that a test need not hit it by chance.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import aiohttp

import assay
from assay.core.events import Ended, Event, Finished
from assay.core.protocols import Context, Scorer, ScorerInput, Solver
from assay.core.report import Entry, Metric, Report
from assay.core.spec import RunSpec, SuiteOptions, ask, how
from assay.core.suite import CaseContent, Outcome, Results, Row, Rows, RunFacts, Suite
from assay.core.types import ASK, Request, Score


class ChainOptions(SuiteOptions, frozen=True, kw_only=True):
    """How many cases, where to crash, and how badly the solver behaves."""

    cases: Annotated[int, ask("How many cases.")] = 40
    crash: Annotated[str, how("MOMENT or MOMENT:NUMBER at which the process kills itself.")] = ""
    careless: Annotated[bool, ask("Give a made-up answer where a call fails.")] = False
    gateway: Annotated[bool, ask("Ask by HTTP at the address a foreign SDK would get.")] = False


def crash_if(wanted: str, moment: str) -> None:
    """As kill -9 does, from inside."""
    if wanted == moment:
        os.kill(os.getpid(), signal.SIGKILL)


class ChainSolver(Solver):
    """Five calls a case."""

    def __init__(self, spec: RunSpec, options: ChainOptions) -> None:
        self._spec = spec
        self._options = options

    async def solve(self, inputs: int, ctx: Context) -> None:
        """A, then three B, then C."""
        first = await self._ask(f"A{inputs}", ctx)
        crash_if(self._options.crash, f"told:{inputs}")
        ctx.emit("step", first, "a")
        branches = await ctx.map(lambda b: self._ask(f"B{b} of {inputs} after {first}", ctx), [1, 2, 3])
        for number, branch in enumerate(branches, 1):
            ctx.emit("step", branch, f"b{number}")
        crash_if(self._options.crash, f"emitted:{inputs}")
        ctx.emit("answer", await self._ask(f"C of {inputs} after {' '.join(branches)}", ctx))

    async def _ask(self, prompt: str, ctx: Context) -> str:
        if self._options.gateway:
            return await self._post(prompt, ctx)
        request = Request(model=self._spec.model, endpoint=self._spec.base_url or "", prompt=prompt)
        try:
            return (await ctx.model().ask(request)).text
        except Exception:
            if self._options.careless:
                return "made up"
            raise

    async def _post(self, prompt: str, ctx: Context) -> str:
        url = f"{await ctx.base_url()}/chat/completions"
        body = {"model": "fake", "messages": [{"role": "user", "content": prompt}]}
        async with aiohttp.ClientSession() as session, session.post(url, json=body) as answer:
            assert answer.status == 200, await answer.text()
            return str((await answer.json())["choices"][0]["message"]["content"])


class ChainScorer(Scorer):
    """1 where the last answer names the number of the first."""

    id = "chain@1"

    async def score(self, given: ScorerInput, ctx: Context) -> list[Score]:
        """One score a case."""
        case = given.case
        value = float(given.records[0].data[-1] == given.records[-1].data[-1])
        return [Score(case.index, case.key, case.set, case.subject, self.id, "agree", value=value)]


class Numbers:
    """Rows that are their own numbers."""

    def __init__(self, count: int, name: str) -> None:
        self.count = count
        self.facts: dict[str, Any] = {}
        self._name = name

    def iterate(self, skip: Callable[[int], bool] | None = None) -> Iterator[Row[int]]:
        """The numbers in order."""
        for number in range(self.count):
            if skip is None or not skip(number):
                yield Row(number, f"key{number}", self._name, number)


class ChainSuite(Suite[ChainOptions, int]):
    """The cases are numbers."""

    name = "chain"
    Options = ChainOptions

    def __init__(self, spec: RunSpec) -> None:
        super().__init__(spec)
        self.solver = ChainSolver(spec, self.options)
        self.scorers = [ChainScorer()]

    def ask_identity(self) -> dict[str, Any]:
        """The file's content says it all."""
        return {}

    def rows(self, facts: dict[str, Any] | None = None) -> Rows[int]:
        """The numbers."""
        return Numbers(self.options.cases, "chain")

    def case(self, row: Row[int], subject: str) -> CaseContent:
        """A number is asked as it is."""
        return CaseContent(row.data, label=str(row.data))

    def finish(self, results: Results[int], run: RunFacts) -> Outcome:
        """How many agree, of how many; all records, one case a line."""
        crash_if(self.options.crash, "finish")
        path = Path(self.spec.output_dir) / "samples_chain.jsonl"
        temporary = path.with_suffix(".tmp")
        agree, count = 0.0, 0
        with temporary.open("w") as file:
            for result in results:
                for score in result.scores:
                    agree += score.value or 0.0
                    count += 1
                records = [[record.part, record.data] for record in result.records]
                file.write(json.dumps([result.row.number, records]) + "\n")
        crash_if(self.options.crash, "unnamed")
        temporary.replace(path)
        crash_if(self.options.crash, "written")
        value = agree / count if count else None
        metric = Metric(name="agree", value=value, numerator=agree, denominator=count)
        return Outcome(Report(entries=[Entry(name="chain", metrics=[metric])]), [path])


def observer(crash: str) -> Callable[[Event], None]:
    """Kills the process when a case has ended, or when all have."""
    ended = 0

    def observe(event: Event) -> None:
        nonlocal ended
        if isinstance(event, Ended):
            ended += event.end.stage == ASK
            crash_if(crash, f"ended:{ended}")
        elif isinstance(event, Finished):
            crash_if(crash, "finished")

    return observe


def main() -> int:
    """Run with options as `name=value`; say what a user should know, as the command line does."""
    values = dict(argument.split("=", 1) for argument in sys.argv[1:])
    spec = assay.spec(f"{__file__}:ChainSuite", model="openai/fake", concurrency=8, **values)
    assert isinstance(spec.options, SuiteOptions)
    run = assay.run(spec, [observer(values.get("crash", ""))])
    print(run.summary.this_start, run.reason)  # noqa: T201
    return run.exit_code


if __name__ == "__main__":
    sys.exit(main())
