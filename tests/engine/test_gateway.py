"""The recording gateway: foreign SDKs reach the run's model through the same log as everybody else."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import StopRun
from assay.core.protocols import Context

from servers.endpoint import VECTOR, Endpoint
from support.gateway_run import CHAT, SEED, Told, gateway_run_at, post, send


def test_a_reply_is_in_the_log_before_the_sdk_has_it(tmp_path: Path) -> None:
    """A call through the gateway is in calls.jsonl, with prompt, text and usage, before the SDK gets the reply."""

    async def main() -> None:
        async with Endpoint() as endpoint:
            lab = gateway_run_at(tmp_path, endpoint)

            async def solve(inputs: Any, ctx: Context) -> None:
                told = await post(await ctx.base_url() + "/chat/completions", CHAT)
                [call] = lab.calls()
                assert told.json["choices"][0]["message"]["content"] == call["response"]["text"] == "reply 1"
                assert call["response"]["usage"] == {"input": 7, "output": 2}
                assert call["request"]["messages"] == CHAT["messages"]
                assert call["request"]["sdk"] == {"path": "/chat/completions", "body": {"model": "mine"}}

            await lab.done(solve)

    asyncio.run(main())


BODIES: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/chat/completions", CHAT),
    "chat stream": ("/chat/completions", {**CHAT, "stream": True, "stream_options": {"include_usage": True}}),
    "text": ("/completions", {"prompt": "hello", "model": "mine"}),
    "several texts": ("/completions", {"prompt": ["hello", "world"], "model": "mine"}),
    "embeddings": ("/embeddings", {"input": "hello", "model": "mine"}),
    "another path": ("/some/new:path", {"input": [{"x": 2**70}]}),
}


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("provider", ["openai", "openai-completions"])
def test_a_replay_sends_nothing_and_tells_the_same_bytes(tmp_path: Path, name: str, provider: str) -> None:
    """After a restart the log answers the same requests with the same bytes."""
    path, body = BODIES[name]
    told: list[Told] = []

    async def stopped(inputs: Any, ctx: Context) -> None:
        told.append(await post(await ctx.base_url() + path, body))
        raise StopRun("as if killed")

    async def whole(inputs: Any, ctx: Context) -> None:
        told.append(await post(await ctx.base_url() + path, body))

    async def main() -> None:
        async with Endpoint() as endpoint:
            lab = gateway_run_at(tmp_path, endpoint, provider)
            assert isinstance(await lab.start(stopped), StopRun)
            await lab.done(whole)
            assert len(endpoint.asked) == 1
            sent = {**body, "seed": SEED} if path.endswith("completions") else {"model": "gpt-test", **body}
            assert endpoint.asked[0].body == sent

    asyncio.run(main())
    first, again = told
    assert first.status == again.status == 200
    assert first.body == again.body
    assert first.headers["content-type"] == again.headers["content-type"]


def test_a_stream_is_passed_on_whole(tmp_path: Path) -> None:
    """An event stream reaches the SDK with the endpoint's own bytes; its text and usage stand in the log."""
    path, body = BODIES["chat stream"]

    async def main() -> None:
        async with Endpoint() as endpoint:
            lab = gateway_run_at(tmp_path, endpoint)

            async def solve(inputs: Any, ctx: Context) -> None:
                told = await post(await ctx.base_url() + path, body)
                direct = await post(endpoint.url + path, body)
                assert told.headers["content-type"] == "text/event-stream; charset=utf-8"
                assert told.body == direct.body.replace(b'"content": "2"', b'"content": "1"')

            await lab.done(solve)
            [call] = lab.calls()
            assert call["response"]["text"] == "réply 1\u2028"
            assert call["response"]["finish"] == "stop"
            assert call["response"]["usage"] == {"input": 7, "output": 2}

    asyncio.run(main())


def test_a_cut_stream_is_a_failed_attempt(tmp_path: Path) -> None:
    """A stream that breaks in the middle is asked again, and only the whole one is logged and told."""

    async def main() -> None:
        async with Endpoint(cuts=1) as endpoint:
            lab = gateway_run_at(tmp_path, endpoint)

            async def solve(inputs: Any, ctx: Context) -> None:
                told = await post(await ctx.base_url() + "/chat/completions", {**CHAT, "stream": True})
                assert told.body.endswith(b"data: [DONE]\n\n")

            await lab.done(solve)
            [call] = lab.calls()
            assert (call["attempts"], call["response"]["text"]) == (2, "réply 2\u2028")

    asyncio.run(main())


def test_equal_requests_are_told_apart(tmp_path: Path) -> None:
    """Two equal concurrent requests are logged as number 0 and 1, each with its own seed."""

    async def main() -> None:
        async with Endpoint() as endpoint:
            lab = gateway_run_at(tmp_path, endpoint)
            texts: list[set[bytes]] = []

            async def solve(inputs: Any, ctx: Context) -> None:
                url = await ctx.base_url() + "/chat/completions"
                both = await asyncio.gather(post(url, CHAT), post(url, {**CHAT, "seed": 6}))
                texts.append({told.body for told in both})
                if len(texts) == 1:
                    raise StopRun("as if killed")

            await lab.start(solve)
            await lab.done(solve)
            calls = lab.calls()
            assert sorted(call["n"] for call in calls) == [0, 1]
            assert len({call["hash"] for call in calls}) == 1
            assert sorted(asked.body["seed"] for asked in endpoint.asked) == [SEED, SEED + 1]
            assert texts[0] == texts[1]
            assert len(texts[0]) == 2

    asyncio.run(main())


def test_gateway_and_context_share_counters_and_budget(tmp_path: Path) -> None:
    """Calls through the gateway and through the context share the counters and the budget of the try."""

    async def main() -> None:
        async with Endpoint() as endpoint:
            lab = gateway_run_at(tmp_path, endpoint)

            async def solve(inputs: Any, ctx: Context) -> None:
                first, again = await asyncio.gather(ctx.base_url(), ctx.base_url())
                assert first == again
                await post(first + "/embeddings", {"input": "a"})
                await post(again + "/chat/completions", CHAT)

            await lab.done(solve)
            assert lab.ends[0]
            assert lab.ends[0].calls == 2
            assert lab.ends[0].usage
            assert lab.ends[0].usage.input == 10

    asyncio.run(main())


def test_what_is_not_ours_is_refused(tmp_path: Path) -> None:
    """Foreign hosts, web pages, strange paths, methods, queries and bodies get an error and cost nothing."""

    async def main() -> None:
        async with Endpoint() as endpoint:
            lab = gateway_run_at(tmp_path, endpoint)

            async def solve(inputs: Any, ctx: Context) -> None:
                base = await ctx.base_url()
                url, host = base + "/chat/completions", base.split("/")[2]
                port = host.partition(":")[2]
                assert (await post(url, CHAT, {"Host": f"localhost:{port}"})).status == 200
                refused = [
                    (403, await post(url, CHAT, {"Host": f"evil.example:{port}"})),
                    (403, await post(url, CHAT, {"Host": "127.0.0.1"})),
                    (403, await post(url, CHAT, {"Origin": "https://evil.example"})),
                    (403, await send("GET", base + "/models", headers={"Origin": "null"})),
                    (410, await post(f"http://{host}/c/{'x' * 22}/v1/chat/completions", CHAT)),
                    (404, await post(f"http://{host}/v1/chat/completions", CHAT)),
                    (404, await post(base + "/%2e%2e/admin", CHAT)),
                    (405, await send("DELETE", base + "/files/1")),
                    (405, await send("GET", base + "/files")),
                    (400, await post(url + "?api-key=sk-sdk-secret", CHAT)),
                    (400, await post(url, b"--form\r\n")),
                    (400, await post(url, b"[1]")),
                    (400, await post(url, b"[" * 100_000)),
                    (400, await post(url, CHAT, {"Content-Encoding": "gzip"})),
                    (413, await post(url, CHAT, {"Content-Length": str((64 << 20) + 1)})),
                ]
                for status, told in refused:
                    assert (told.status, told.headers["x-should-retry"]) == (status, "false"), told
                    assert told.json["error"]["message"]

            await lab.done(solve)
            assert len(endpoint.asked) == len(lab.calls()) == 1

    asyncio.run(main())


def test_the_list_of_models_is_the_runs_model(tmp_path: Path) -> None:
    """GET /models names the model of the run, without asking the endpoint."""

    async def main() -> None:
        async with Endpoint() as endpoint:
            lab = gateway_run_at(tmp_path, endpoint)

            async def solve(inputs: Any, ctx: Context) -> None:
                told = await send("GET", await ctx.base_url() + "/models")
                assert [model["id"] for model in told.json["data"]] == ["gpt-test"]

            await lab.done(solve)
            assert endpoint.asked == []

    asyncio.run(main())


def test_an_address_ends_with_its_try(tmp_path: Path) -> None:
    """When a try ends its address is gone: what still runs is cancelled, what comes later is answered 410."""
    addresses: list[str] = []

    async def main() -> None:
        async with Endpoint() as endpoint:
            lab = gateway_run_at(tmp_path, endpoint)
            endpoint.open.clear()
            left: list[asyncio.Task[Told]] = []

            async def solve(inputs: int, ctx: Context) -> None:
                addresses.append(await ctx.base_url() + "/chat/completions")
                if inputs == 0:
                    left.append(asyncio.create_task(post(addresses[0], CHAT)))
                    await endpoint.busy.wait()
                    return
                told = [await left[0], await post(addresses[0], CHAT)]
                assert [answer.status for answer in told] == [410, 410]

            await lab.done(solve, total=2)
            assert len(set(addresses)) == 2
            assert lab.calls() == []
            endpoint.open.set()

    asyncio.run(main())


def test_secrets_stay_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK's key reaches neither endpoint nor log; the run's key reaches the endpoint only."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-run-secret")

    async def main() -> None:
        async with Endpoint() as endpoint:
            lab = gateway_run_at(tmp_path, endpoint)

            async def solve(inputs: Any, ctx: Context) -> None:
                headers = {"Authorization": "Bearer sk-sdk-secret", "api-key": "sk-sdk-secret"}
                body = {**CHAT, "user": "sk-run-secret"}
                assert (await post(await ctx.base_url() + "/chat/completions", body, headers)).status == 200

            await lab.done(solve)
            assert [asked.authorization for asked in endpoint.asked] == ["Bearer sk-run-secret"]

    asyncio.run(main())
    for file in tmp_path.iterdir():
        assert b"secret" not in file.read_bytes(), file


def test_faults_of_the_endpoint_are_retried_by_us(tmp_path: Path) -> None:
    """An endpoint that fails twice and then answers costs the SDK nothing: one call, three attempts."""

    async def main() -> None:
        async with Endpoint(faults=[500, 500]) as endpoint:
            lab = gateway_run_at(tmp_path, endpoint)

            async def solve(inputs: Any, ctx: Context) -> None:
                assert (await post(await ctx.base_url() + "/chat/completions", CHAT)).status == 200

            await lab.done(solve)
            [call] = lab.calls()
            assert call["attempts"] == len(endpoint.asked) == 3

    asyncio.run(main())


@pytest.mark.parametrize(
    ("faults", "told", "status"),
    [
        ([400], 400, "subject_error"),
        ([422], 422, "subject_error"),
        ([429, 429, 429], 429, "infra_error"),
        ([500, 503, 502], 502, "infra_error"),
    ],
)
def test_a_failed_call_is_told_once_and_named(tmp_path: Path, faults: list[int], told: int, status: str) -> None:
    """The SDK gets the endpoint's 4xx or a 502. The case fails as a subject error or an infrastructure error."""

    async def main() -> None:
        async with Endpoint(faults=faults) as endpoint:
            lab = gateway_run_at(tmp_path, endpoint)

            async def solve(inputs: Any, ctx: Context) -> None:
                answer = await post(await ctx.base_url() + "/chat/completions", CHAT)
                assert answer.headers["x-should-retry"] == "false"
                raise RuntimeError(f"{answer.status}: {answer.json['error']['message']}")

            attempts, last = len(faults), faults[-1]
            assert await lab.start(solve) is None
            [end], [call] = lab.ends, lab.calls()
            assert end
            assert end.failure
            assert f"RuntimeError: {told}: {endpoint.url} answered" in end.failure.message + end.failure.where
            assert end.status == status
            assert call["failure"]["http"] == last
            assert call.get("attempts", 1) == len(endpoint.asked) == attempts

    asyncio.run(main())


def test_broken_connections_and_timeouts_have_their_status(tmp_path: Path) -> None:
    """The SDK is told 502 for a connection that breaks and 504 for an endpoint that does not answer."""

    async def main() -> None:
        async with Endpoint(faults=[0]) as endpoint:
            lab = gateway_run_at(tmp_path, endpoint)
            lab.timeout, lab.max_retries = 0.2, 0

            async def solve(inputs: Any, ctx: Context) -> None:
                url = await ctx.base_url() + "/chat/completions"
                assert (await post(url, CHAT)).status == 502
                endpoint.open.clear()
                assert (await post(url, CHAT)).status == 504
                endpoint.open.set()

            await lab.done(solve)

    asyncio.run(main())


def test_the_budget_stops_the_run_whatever_foreign_code_does(tmp_path: Path) -> None:
    """At --max-calls the SDK is told 503 and the case stays unfinished, even where its code swallows that."""

    async def main() -> None:
        async with Endpoint() as endpoint:
            lab = gateway_run_at(tmp_path, endpoint)
            told: list[list[int]] = []

            async def solve(inputs: Any, ctx: Context) -> None:
                url = await ctx.base_url() + "/chat/completions"
                told.append([(await post(url, {**CHAT, "user": str(at)})).status for at in range(3)])
                if 503 in told[-1]:
                    raise RuntimeError("an SDK's error")

            stopped = await lab.start(solve, max_calls=2)
            assert isinstance(stopped, StopRun)
            assert "--max-calls" in str(stopped)
            assert lab.ends == [None]
            await lab.done(solve)
            assert told == [[200, 200, 503], [200, 200, 200]]
            assert len(endpoint.asked) == 3

    asyncio.run(main())


def test_vectors_are_kept_small_and_exact(tmp_path: Path) -> None:
    """Embeddings are logged in 32 bits where that loses nothing, and told as the endpoint sent them."""

    async def main() -> None:
        async with Endpoint() as endpoint:
            lab = gateway_run_at(tmp_path, endpoint)

            async def solve(inputs: Any, ctx: Context) -> None:
                told = await post(await ctx.base_url() + "/embeddings", {"input": ["a", "b"]})
                assert [item["embedding"] for item in told.json["data"]] == [VECTOR, [0.1, 1.0]]

            await lab.done(solve)
            kept = [item["embedding"] for item in lab.calls()[0]["response"]["data"]["vectors"]["data"]]
            assert kept == [{"float32": "zczMPQAAgL4AAIA///9/fw=="}, [0.1, 1.0]]

    asyncio.run(main())
