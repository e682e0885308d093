"""The start of Ray's workers: given up before it began, or refused by Ray or because of another cluster."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest

import assay
from assay.core.errors import ExecutorRefused
from assay.core.events import Event
from assay.core.spec import RunSpec
from assay.executors.ray_cluster import RayCluster, RaySettings
from assay.executors.ray_executor import RayExecutor
from assay.executors.ray_pool import RayPool
from assay.runner.opening import open_run


def spec_on_ray() -> RunSpec:
    """Write a batch of one row to the current folder, and return its run on Ray."""
    Path("hop.py").write_text("def hop(n, session):\n    return 'OK', {}\n")
    Path("rows.jsonl").write_text('{"n": 1, "tag": "a"}\n')
    return assay.spec("hop", target="hop.py:hop", data="rows.jsonl", executor="ray", output_dir="out")


def test_a_run_that_is_stopped_before_ray_starts_starts_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by Ctrl-C in a suite that computes, while the run's thread still reads the data."""
    monkeypatch.chdir(tmp_path)
    told: list[Event] = []

    async def stop_first() -> None:
        runner = open_run(spec_on_ray(), [told.append])
        runner.interrupt()
        await runner.start_or_show()

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(stop_first())
    assert told == []
    assert not Path("out").exists()


def test_ray_that_does_not_start_is_told_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine Ray raises a bare Exception. No test can make the machine so busy."""
    ray = pytest.importorskip("ray")

    def too_slow(**_: object) -> None:
        raise Exception("The current node timed out during startup.")  # noqa: TRY002 - as Ray does

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", too_slow)
    cluster = RayCluster(RaySettings(address="local"))
    with pytest.raises(ExecutorRefused, match="Ray cannot be used on this machine: The current node timed out"):
        asyncio.run(cluster.connect())
    asyncio.run(cluster.leave())


def test_the_end_of_the_workers_is_not_waited_for_after_the_second_ctrl_c(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both came while cases ran. A cluster that does not answer must not need a third one."""
    monkeypatch.chdir(tmp_path)
    told: list[str] = []

    async def never_ends(pool: RayPool) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            told.append("killed")

    monkeypatch.setattr(RayPool, "close", never_ends)

    async def end() -> None:
        runner = open_run(spec_on_ray(), [])
        executor = RayExecutor(
            runner.suite, runner.models, home=tmp_path, total=1, notify=lambda _: None, halt=lambda _: None
        )
        executor.cancel()
        closed = asyncio.create_task(executor.close())
        for _ in range(20):  # turns of the loop
            await asyncio.sleep(0)
        assert closed.done()

    asyncio.run(end())
    assert told == ["killed"]


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process be connected to a cluster at 10.0.0.1:6379, which no test can start."""
    ray = pytest.importorskip("ray")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    monkeypatch.setattr(ray, "get_runtime_context", lambda: SimpleNamespace(gcs_address="10.0.0.1:6379"))


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize("address", ["10.0.0.1:6380", "10.0.0.2:6379", "localhost:6380"])
def test_another_cluster_than_the_program_is_connected_to_is_refused(address: str) -> None:
    cluster = RayCluster(RaySettings(address=address))
    with pytest.raises(ExecutorRefused, match=rf"Ray at 10\.0\.0\.1:6379, and the run shall use {address}"):
        asyncio.run(cluster.connect())
    asyncio.run(cluster.leave())


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize("address", [None, "auto", "10.0.0.1:6379", "127.0.0.1:6379", "head:6379"])
def test_the_connection_of_the_program_is_used(address: str | None) -> None:
    """A name, and the loopback of the head node, may be the connected machine."""

    async def connect() -> bool:
        cluster = RayCluster(RaySettings(address=address))
        is_connected = await cluster.is_connected()
        await cluster.connect()
        await cluster.leave()
        return is_connected

    assert asyncio.run(connect())
