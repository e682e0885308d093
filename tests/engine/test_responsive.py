"""Replies are read and logged while memories and the offline judge compute, however long that takes."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path
from typing import cast

import pytest

from assay.core.protocols import Context
from assay.scoring.judge import Judge
from assay.scoring.questions import AnswerQuestion, RecallQuestion
from assay.usercode.loop import LoopTurn, run_here, run_there, user_loop

from servers.fake_openai import FakeOpenAI
from support.commands import Job
from support.memory_talks import Talks, numbers_of, talk

# A memory that does not go on before the log of calls has a line. It never awaits: it blocks the thread that it is in.
WAITING = """
import time
from pathlib import Path
from assay.core.memory import MemoryItem, SearchHit

OUT = Path(__file__).parent / "out"

def wait():
    end = time.monotonic() + 30
    while not any(path.read_bytes().count(b"\\n") > 1 for path in OUT.glob("assay/[!.]*/calls.jsonl")):
        if time.monotonic() > end:
            raise RuntimeError("no reply was logged while the memory was busy")
        time.sleep(0.002)

class Plain:
    def __init__(self, context):
        self.held, self.searches = [], 0
    def reset(self):
        self.held = []
    def add(self, messages):
        self.held += [MemoryItem(message.id, message.line) for message in messages]
    def search(self, query, k):
        self.searches += 1
        if self.searches == 2:  # the answer to the first question is on its way
            wait()
        return [SearchHit(item) for item in self.held[:k]]
    def items(self):
        return self.held
    def end_session(self):
        pass

class Coroutine(Plain):
    async def search(self, query, k):
        return Plain.search(self, query, k)

class Lazy(Plain):
    def search(self, query, k):
        yield from Plain.search(self, query, k)

class Hidden(Plain):
    def search(self, query, k):
        return Coroutine.search(self, query, k)

class Made(Plain):
    def __init__(self, context):
        super().__init__(context)
        wait()

class Hanging(Plain):
    async def search(self, query, k):
        if "grows" in query.text:
            (OUT.parent / "hangs").write_text("")
            time.sleep(3600)
        return Plain.search(self, query, k)
"""


def talks(folder: Path) -> Talks:
    """Two conversations, and the memories above in `waiting.py`."""
    made = Talks(folder, talk(3, "a"), talk(3, "b", "grows"))
    (folder / "waiting.py").write_text(WAITING)
    return made


@pytest.mark.parametrize("memory", ["Plain", "Coroutine", "Lazy", "Hidden", "Made"])
def test_a_reply_is_logged_while_a_memory_is_busy(tmp_path: Path, memory: str) -> None:
    """The memory waits for a reply's line in the log: with a loop that waits for the memory it would wait for ever."""
    with FakeOpenAI() as server:
        run = talks(tmp_path).run(
            memory=["bm25", f"{tmp_path}/waiting.py:{memory}"][memory != "Made" :],
            model="openai/fake",
            base_url=server.url,
        )
    assert run.exit_code == 0, run.summary.first_failures
    assert run.summary.ok == run.summary.total


def test_a_search_that_hangs_in_a_coroutine_fails_its_question_only(tmp_path: Path) -> None:
    """The watchdog interrupts it, as it runs in the main thread. The other questions are answered."""
    with FakeOpenAI() as server:
        run = talks(tmp_path).run(
            memory=[f"{tmp_path}/waiting.py:Hanging"], model="openai/fake", base_url=server.url, timeout=1.0
        )
    assert (run.exit_code, run.summary.ok) == (0, 2), run.summary.first_failures
    counts = numbers_of(run)["counts"]
    assert 0 < counts["failed_searches"] == counts["errors"] < counts["answers"]
    assert run.report is not None
    assert "until its time was over" in run.report.errors[0].message


def test_ctrl_c_is_heard_while_a_coroutine_blocks(tmp_path: Path) -> None:
    """Twice Ctrl-C ends the run with 130, although a memory sleeps for an hour in the main thread."""
    with FakeOpenAI() as server:
        talks(tmp_path)
        command = ["-m", "assay", "memory", "test", "--dataset", "plain", "--data", f"{tmp_path}/talks.json"]
        command += ["--memory", f"{tmp_path}/waiting.py:Hanging", "--model", "openai/fake"]
        command += ["--base-url", server.url, "--output-dir", f"{tmp_path}/out", "--timeout", "60"]
        job = Job(command, tmp_path / "out")
        with job.started() as started:
            assert started.wait_for((tmp_path / "hangs").exists)
            started.process.send_signal(signal.SIGINT)
            assert started.process.stderr is not None
            while "waiting" not in (line := started.process.stderr.readline()).lower():
                assert line, "it ended with the first Ctrl-C"
            started.process.send_signal(signal.SIGINT)
            finished = started.end()
    assert finished.code == 130
    assert "Traceback" not in finished.err


def test_the_offline_judge_gives_way() -> None:
    """A verdict on memories is made in a thread, so the loop has its turn before the verdict is there."""

    async def judge() -> None:
        judge = Judge("offline")
        for question in (
            RecallQuestion(("Ann likes tea",), (False,), ("Ann likes tea.",)),
            AnswerQuestion("What does Ann like?", "tea", "tea " * 1000),
        ):
            verdict = asyncio.ensure_future(judge.verdict(question, cast("Context", None)))
            await asyncio.sleep(0)
            assert not verdict.done()
            assert (await verdict).valid

    asyncio.run(judge())


def test_many_short_computations_give_way() -> None:
    """Tasks that share a LoopTurn let the loop go on, all of them."""
    heard: list[str] = []

    async def work(turn: LoopTurn) -> None:
        end = time.monotonic() + 30
        while not heard and time.monotonic() < end:
            await turn.give_way()

    async def main() -> None:
        turn = LoopTurn()
        asyncio.get_running_loop().call_later(0, heard.append, "a socket")
        await asyncio.gather(work(turn), work(turn))

    asyncio.run(main())
    assert heard


def test_a_short_computation_does_not_give_way_before_its_turn_is_over() -> None:
    heard: list[str] = []

    async def main() -> None:
        turn = LoopTurn(seconds=3600)
        asyncio.get_running_loop().call_soon(heard.append, "a socket")
        for _ in range(100):
            await turn.give_way()
        assert not heard

    asyncio.run(main())


def test_a_coroutine_runs_in_the_loop_for_user_code_and_its_calls_in_that_of_the_run() -> None:
    """`run_there` takes it to the one, `run_here` brings what it calls back to the other."""

    async def loops(user: asyncio.AbstractEventLoop) -> list[asyncio.AbstractEventLoop]:
        user_loop.set(user)

        async def present() -> asyncio.AbstractEventLoop:
            return asyncio.get_running_loop()

        back = run_here(present)

        async def away() -> list[asyncio.AbstractEventLoop]:
            return [await present(), await back()]

        return [await present(), *await run_there(away)]

    async def main() -> None:
        user = asyncio.get_running_loop()
        run, away, back = await asyncio.to_thread(lambda: asyncio.run(loops(user)))
        assert away is user
        assert run is back
        assert run is not user

    asyncio.run(main())
