"""The workers of a run as actors of Ray: their start, their silence, and their end. Actors and clock are the test's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

import assay
from assay.core.errors import AssayError, StopRun
from assay.core.events import Event, Noted
from assay.core.suite import WorkerSolver
from assay.executors.links import RemoteTry
from assay.executors.messages import Hello
from assay.executors.plan import WorkerPlan
from assay.executors.ray_cluster import RayCluster, RaySettings
from assay.executors.ray_pool import START_SECONDS, RayPool

from support.engine_run import bare_context, case

pytest.importorskip("ray")
TIMEOUT = 300.0


class SteppedLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock the test sets forward."""

    ahead = 0.0

    def time(self) -> float:
        """Return the time, in seconds."""
        return super().time() + self.ahead


async def advance(seconds: float = 0.0) -> None:
    """Set the clock forward, and let everything happen that is due."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SteppedLoop)
    loop.ahead += seconds
    for _ in range(20):
        await asyncio.sleep(0)


class HeldMethod:
    """A method of an actor. All of its calls get the answer that the test gives once."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def remote(self, *_: object) -> Awaitable[Any]:
        """Call it, as Ray does."""
        return asyncio.shield(self.answer)


class HeldActor:
    """A worker that does what the test says."""

    def __init__(self) -> None:
        self.answer, self.hello, self.exchange, self.close = (HeldMethod() for _ in range(4))

    def get_ready(self) -> None:
        """Start, and say hello."""
        self.answer.answer.set_result(None)
        self.hello.answer.set_result(Hello("node/1"))


class HeldCluster(RayCluster):
    """A cluster with room for one worker."""

    def __init__(self, *, connected: bool = False) -> None:
        super().__init__(RaySettings(workers=1))
        self.actor = HeldActor()
        self.killed: list[object] = []
        self.is_gone = False
        self._connected = connected

    @property
    def ray(self) -> Any:
        return SimpleNamespace(put=lambda plan: plan, kill=lambda actor, no_restart=True: self.killed.append(actor))

    async def is_connected(self) -> bool:
        return self._connected

    async def connect(self) -> None:
        pass

    async def leave(self) -> None:
        self.is_gone = True

    async def call(self, function: Callable[[], Any]) -> Any:
        return function()

    def actor_class(self) -> Any:
        return SimpleNamespace(remote=lambda: self.actor)

    def capacity(self) -> dict[str, int]:
        return {"node": 1}

    def free_room(self) -> str:
        return "Each needs 1 CPU, and the cluster has nothing free"


class Scene:
    """A pool of one worker, and what it has told."""

    def __init__(self, *, connected: bool = False) -> None:
        self.cluster = HeldCluster(connected=connected)
        self.notices: list[str] = []
        self.stopped: list[AssayError] = []
        plan = WorkerPlan(
            folder="",
            output="",
            version=assay.__version__,
            build=_build,
            identity={},
            roles={},
            key_variables=[],
            models={},
            seed=0,
            timeout=TIMEOUT,
        )
        self.pool = RayPool(plan, self.cluster, self._note, self.stopped.append)

    def _note(self, event: Event) -> None:
        assert isinstance(event, Noted)
        self.notices.append(event.text)

    async def start(self) -> None:
        """Start the pool with a worker that is ready at once."""
        self.cluster.actor.get_ready()
        await self.pool.start()
        self.notices.clear()

    async def close(self) -> None:
        """End the pool. Its worker closes at once."""
        self.cluster.actor.close.answer.set_result(None)
        await self.pool.close()


def _build() -> WorkerSolver:
    raise AssertionError


def _play(play: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await play()

    with asyncio.Runner(loop_factory=SteppedLoop) as runner:
        runner.run(main())


def test_a_worker_may_take_any_time_to_read_the_files_of_the_run() -> None:
    """As when it hashes the weights of a large model. The limit is for a process that Ray does not start."""

    async def play() -> None:
        scene = Scene()
        start = asyncio.create_task(scene.pool.start())
        await advance()
        scene.cluster.actor.answer.answer.set_result(None)
        await advance()
        await advance(10 * START_SECONDS)
        assert not start.done()
        assert scene.notices[-1] == "the workers read the files of the run"
        scene.cluster.actor.hello.answer.set_result(Hello("node/1"))
        await start
        await scene.close()

    _play(play)


def test_a_worker_that_ray_does_not_start_ends_the_start() -> None:
    async def play() -> None:
        scene = Scene()
        start = asyncio.create_task(scene.pool.start())
        await advance()
        await advance(30.0)
        assert scene.notices[-1].startswith("no worker has started yet. Each needs 1 CPU")
        await advance(START_SECONDS)
        with pytest.raises(StopRun, match="no worker started within 120 s"):
            await start
        await scene.close()

    _play(play)


def test_a_connection_that_the_program_made_is_told() -> None:
    async def play() -> None:
        scene = Scene(connected=True)
        scene.cluster.actor.get_ready()
        await scene.pool.start()
        assert scene.notices[0] == "using the Ray connection of this program"
        await scene.close()

    _play(play)


def test_a_driver_that_stood_still_loses_no_worker() -> None:
    """As after Ctrl-Z, or while Slurm had suspended the job. A worker that is silent while the driver runs is ended."""

    async def play() -> None:
        scene = Scene()
        await scene.start()
        await advance(10 * TIMEOUT)
        for _ in range(3):
            await advance(5.0)
        assert (scene.notices, scene.cluster.killed) == ([], [])
        for _ in range(1000):
            await advance(5.0)
            if scene.cluster.killed:
                break
        assert scene.cluster.killed == [scene.cluster.actor]
        assert scene.notices == ["the worker node/1 was lost. Its cases go on elsewhere"]
        await scene.close()

    _play(play)


def test_a_bug_in_a_conversation_stops_the_run_at_once() -> None:
    """Its cases would wait for the time limit and longer: nothing more comes from the worker."""

    async def play() -> None:
        scene = Scene()
        await scene.start()
        link = await scene.pool.place_case(alone=False)
        open_case = RemoteTry(link, bare_context(case(0)))
        link.start(case(0), 1, 0.0, (), open_case)
        scene.cluster.actor.exchange.answer.set_exception(ZeroDivisionError("division by zero"))
        await advance()
        reason = "the worker node/1 failed: division by zero"
        assert [str(error) for error in scene.stopped] == [reason]
        with pytest.raises(StopRun, match=reason):
            await open_case.result()
        assert scene.notices == [], "nothing goes on elsewhere"
        with pytest.raises(StopRun, match=reason):
            await scene.pool.place_case(alone=False)
        await scene.close()

    _play(play)


def test_an_end_that_nobody_waits_for_ends_the_workers_too() -> None:
    async def play() -> None:
        scene = Scene()
        await scene.start()
        closing = asyncio.create_task(scene.pool.close())
        await advance()
        assert scene.cluster.killed == [], "the worker closes what it has opened"
        closing.cancel()
        with suppress(asyncio.CancelledError):
            await closing
        assert closing.cancelled()
        assert scene.cluster.killed == [scene.cluster.actor]
        assert scene.cluster.is_gone

    _play(play)


@pytest.mark.parametrize("turns", range(6))
def test_a_case_that_waits_for_a_worker_is_cancelled_at_any_moment(turns: int) -> None:
    """Also in the moment in which another case ends."""

    async def play() -> None:
        scene = Scene()
        await scene.start()
        link = await scene.pool.place_case(alone=False)
        link.start(case(0), 1, 0.0, (), RemoteTry(link, bare_context(case(0))))
        placing = asyncio.create_task(scene.pool.place_case(alone=False))
        await advance()
        scene.pool.case_ended(link, alone=False)
        for _ in range(turns):
            await asyncio.sleep(0)
        placing.cancel()
        await advance()
        assert placing.cancelled()
        await scene.close()

    _play(play)
