"""The shared endpoint of a run: code that looks into the environment is logged and replayed like all others."""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

import assay
from assay.core.roles import Connection
from assay.core.types import CallTime, Request, Response
from assay.core.usage import PurposeUsage
from assay.engine.gateway import Gateway
from assay.models.openai import OpenAIModel
from assay.store.cases import RunCases

from servers.endpoint import Endpoint
from servers.fake_openai import FakeOpenAI
from suites import shared
from support.commands import Job
from support.engine_run import facts
from support.gateway_run import CHAT, Told, post
from support.killing import CONCURRENCY, looked_at


@pytest.fixture(autouse=True)
def no_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the endpoint and the key from the environment."""
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def calls_of(run: assay.Run) -> list[dict[str, Any]]:
    """The lines of the log."""
    return [json.loads(line) for line in (run.folder / "calls.jsonl").read_text().splitlines()[1:]]


def started(out: Path, endpoint: Endpoint, **options: Any) -> Any:
    """One start of the run in this folder."""
    return assay.arun(shared.spec(base_url=endpoint.url, output_dir=str(out), **options))


def prompts(endpoint: Endpoint) -> Counter[tuple[str, int]]:
    """How often each question with its seed arrived."""
    return Counter((asked.body["messages"][-1]["content"], asked.body["seed"]) for asked in endpoint.asked)


def test_calls_at_the_common_address_belong_to_no_case(tmp_path: Path) -> None:
    """They are logged with index -1, counted over the whole run, paid once, and the environment is restored."""

    async def main() -> None:
        async with Endpoint() as endpoint:
            endpoint.usage = {**endpoint.usage, "cost": 0.5}
            run = await started(tmp_path, endpoint)
            calls = calls_of(run)
            assert {(call["index"], call["case"], call["stage"]) for call in calls} == {(-1, "", "common")}
            equal = [call for call in calls if call["hash"] == calls[0]["hash"]]
            assert sorted(call["n"] for call in equal) == list(range(12))
            assert prompts(endpoint)["shared", 1234 + 11] == 1
            assert run.exit_code == 0
            assert run.summary.spent.calls == len(endpoint.asked) == 24
            assert run.summary.spent.input_tokens == 24 * 7
            assert run.summary.cost == 24 * 0.5
            assert RunCases(run.folder).calls(11) == []
            assert [asked.authorization for asked in endpoint.asked] == [""] * 24

    asyncio.run(main())
    assert "OPENAI_BASE_URL" not in os.environ
    assert "OPENAI_API_KEY" not in os.environ


def test_the_environment_is_as_before_also_after_a_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the user has set there stands there again; the run itself goes to that endpoint with that key."""

    async def main() -> None:
        async with Endpoint() as endpoint:
            monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url)
            monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-user")
            run = await assay.arun(shared.spec(output_dir=str(tmp_path), max_calls=3))
            assert run.exit_code == 3
            assert os.environ["OPENAI_BASE_URL"] == endpoint.url
            assert os.environ["OPENAI_API_KEY"] == "sk-of-the-user"
            assert {asked.authorization for asked in endpoint.asked} == {"Bearer sk-of-the-user"}

    asyncio.run(main())


@pytest.mark.parametrize("careless", [False, True])
def test_a_stopped_run_asks_nothing_again(tmp_path: Path, *, careless: bool) -> None:
    """At --max-calls no row is committed that may have been told to stop; the rest is asked once, in all."""

    async def main() -> None:
        async with Endpoint() as endpoint:
            stopped = await started(tmp_path, endpoint, max_calls=9, careless=careless)
            assert (stopped.exit_code, len(endpoint.asked)) == (3, 9)
            assert not any("made up" in case.records[0].data for case in RunCases(stopped.folder))
            run = await started(tmp_path, endpoint, careless=careless)
            assert run.folder == stopped.folder
            assert run.exit_code == 0
            assert not any("made up" in case.records[0].data for case in RunCases(run.folder))
            assert b"made up" not in msgspec.json.encode(run.report)
            assert set(prompts(endpoint).values()) == {1}
            own = [prompt for prompt, _ in prompts(endpoint) if prompt.startswith("row")]
            assert sorted(own) == sorted(f"row {at}" for at in range(12))
            assert run.summary.spent.calls == len(endpoint.asked)
            assert run.summary.this_start["replayed"] > 0

    asyncio.run(main())


def test_a_killed_run_asks_only_what_was_in_flight(tmp_path: Path) -> None:
    """After kill -9 nothing that stands in the log is asked again, with rows side by side."""
    with FakeOpenAI(latency=0.01, jitter=1.5) as server:
        options = [f"base_url={server.url}", f"output_dir={tmp_path}", "cases=30", "workers=8"]
        job, kills, lost = Job([str(Path(shared.__file__)), *options], tmp_path), [], 0
        for row in (5, 11, 23):
            assert job.run(f"crash=told:{row}").code == -9
            kills.append(looked_at(job, server, lost))
            lost += kills[-1].lost
        assert job.run().code == 0
        stats = server.stats()
        for kill in kills:
            assert 0 <= kill.lost <= CONCURRENCY
            assert kill.logged.isdisjoint(seen.reply for seen in stats.requests[kill.received :])
        assert stats.repeated <= lost
        answers = json.loads((job.out / "answers.json").read_text())
    own = {seen.prompt: seen.reply for seen in stats.requests}
    assert [second for _, second in answers] == [own[f"row {at}"] for at in range(30)]


def test_with_one_row_at_a_time_calls_are_the_rows_own(tmp_path: Path) -> None:
    """With one worker the common address is that of the open row: its calls, its counters, its replay."""

    async def main() -> None:
        async with Endpoint() as endpoint:
            stopped = await started(tmp_path, endpoint, workers=1, max_calls=5)
            assert stopped.exit_code == 3
            run = await started(tmp_path, endpoint, workers=1)
            calls = calls_of(run)
            assert [call["index"] for call in calls] == [at // 2 for at in range(24)]
            assert {(call["stage"], call["n"]) for call in calls} == {("ask", 0)}
            assert len(endpoint.asked) == 24
            cases = list(RunCases(run.folder))
            assert {case.end.calls for case in cases} == {2}
            assert [len(RunCases(run.folder).calls(at)) for at in range(12)] == [2] * 12

    asyncio.run(main())


@pytest.mark.parametrize("workers", [1, 4])
def test_an_endpoint_that_fails_is_not_the_rows_fault(tmp_path: Path, workers: int) -> None:
    """A row whose SDK raises for a failed call is an infrastructure error, and the next start asks that again."""

    async def main() -> None:
        async with Endpoint(faults=[500]) as endpoint:
            first = await started(tmp_path, endpoint, workers=workers, max_retries=0, cases=4)
            assert (first.exit_code, first.summary.subject_error) == (3, 0)
            assert first.summary.infra_error >= 1
            run = await started(tmp_path, endpoint, workers=workers, max_retries=0, cases=4)
            assert (run.exit_code, run.summary.ok) == (0, 4)
            # The rows' first question is the same. If the second of the equal calls was the one that failed, the failed
            # row gets the saved reply to the first.
            assert len(endpoint.asked) == run.summary.spent.calls
            assert len(endpoint.asked) in ([9] if workers == 1 else [8, 9])

    asyncio.run(main())


def test_another_run_can_reuse_the_replies(tmp_path: Path) -> None:
    """`--reuse` finds calls of no case as it finds those of cases: by request and count."""

    async def main() -> None:
        async with Endpoint() as endpoint:
            first = await started(tmp_path / "a", endpoint, cases=3)
            again = await started(tmp_path / "b", endpoint, cases=2, reuse=str(first.folder))
            assert again.exit_code == 0
            assert len(endpoint.asked) == 6
            assert again.summary.spent.calls == 0

    asyncio.run(main())


def test_a_damaged_call_of_no_case_is_asked_again_and_no_other(tmp_path: Path) -> None:
    async def main() -> None:
        # Both rows get their first reply at the same time. A row that had both of its replies would be complete, and
        # its damaged call would not be asked again.
        async with Endpoint(hold=2) as endpoint:
            stopped = await started(tmp_path, endpoint, cases=2, workers=2, max_calls=2)
            path = stopped.folder / "calls.jsonl"
            header, first, second, *rest = path.read_bytes().split(b"\n")
            path.write_bytes(b"\n".join([header, first, second[:-9], *rest]))
            values = {"base_url": endpoint.url, "output_dir": str(tmp_path), "cases": 2, "workers": 2}
            run = await assay.arun(shared.spec(**values))
            assert run.exit_code == 0
            assert len(endpoint.asked) == 5

    asyncio.run(main())


class Named:
    """An asker that replies with its own name, or never replies."""

    endpoint = ""
    can: frozenset[str] = frozenset()
    purpose = ""
    usage: dict[str, PurposeUsage] = {}  # noqa: RUF012
    seed: int | None = None
    call_times: list[CallTime] | None = None

    def __init__(self, name: str, *, silent: bool = False) -> None:
        self.name = name
        self.asked = asyncio.Event()
        self._silent = silent

    async def call(self, request: Request) -> Any:
        """Not used: endpoints of the gateway call `ask` only."""
        raise NotImplementedError

    async def ask(self, request: Request) -> Response:
        """Return the asker's name as the data of a reply."""
        self.asked.set()
        if self._silent:
            await asyncio.Event().wait()
        return Response("", data={"json": self.name})


def test_the_shared_endpoint_can_be_lent_to_a_try() -> None:
    """The endpoint opened last answers. When it closes, its open calls are cancelled and the previous one answers again."""

    async def main() -> None:
        model = OpenAIModel(Connection(name="x", base_url="http://127.0.0.1:9/v1"))
        gateway = Gateway({"main": facts("openai/x", model)})
        await gateway.start()
        run, row = Named("run"), Named("row", silent=True)
        url = gateway.open_shared_endpoint("main", run).url + "/chat/completions"
        assert (await post(url, CHAT)).json == "run"
        lent = gateway.open_shared_endpoint("main", row)
        assert lent.url + "/chat/completions" == url
        waiting: asyncio.Task[Told] = asyncio.create_task(post(url, CHAT))
        await row.asked.wait()
        lent.close()
        assert (await waiting).status == 410
        assert (await post(url, CHAT)).json == "run"
        gateway.open_shared_endpoint("main", row)
        await gateway.close()

    asyncio.run(main())
