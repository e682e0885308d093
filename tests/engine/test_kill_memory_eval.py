"""kill -9 at random in both stages of a memory evaluation: the same files to the byte, nothing asked twice."""

from __future__ import annotations

import hashlib
import random
import re
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from assay.scoring import offline
from assay.scoring.questions import JudgeQuestion, Verdict

from servers.fake_openai import FakeOpenAI
from servers.judging import JudgingServer
from support.commands import Job
from support.judged_samples import STAGE_ONE, JudgedSamples, reply, stage_one, stage_two
from support.killing import CONCURRENCY, Kill, kill_at, kill_count, points
from support.memory_samples import sample

SHIPPED = Path(__file__).parents[2] / "examples" / "memory-eval"
BASELINES = ("FUMemory", "bm25", "GAMemory")
KILLS = kill_count(3, in_ci=1)
IN_FLIGHT = 4


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    with FakeOpenAI(latency=0.005, jitter=3.0, faults={"429": 0.02, "drop": 0.01}) as fake:
        yield fake


def files(out: Path) -> dict[str, bytes]:
    """The five files of every baseline; nothing in them is a time."""
    contents = {str(path.relative_to(out)): path.read_bytes() for path in out.glob("*/*.json*")}
    return {name: content for name, content in contents.items() if not name.startswith("assay")}


def shipped(server: FakeOpenAI, out: Path) -> Job:
    """The data set that comes with the package, three memories."""
    command = ["-m", "assay", "memory", "eval", "--dataset", str(SHIPPED), "--baseline", ",".join(BASELINES)]
    command += ["--model", "openai/fake", "--base-url", server.url, "--judge", "offline", "--quiet"]
    return Job([*command, "--concurrency", str(CONCURRENCY), "--output-dir", str(out)], out)


def test_stage_one_killed_is_as_undisturbed(tmp_path: Path, server: FakeOpenAI) -> None:
    """The shipped data with three memories, one of which asks; at most the calls in flight are lost."""
    whole, killed = (shipped(server, tmp_path / name) for name in ("whole", "killed"))
    assert whole.run().code == 0
    total = whole.count("calls")
    expected = files(whole.out)
    assert len(expected) == 5 * len(BASELINES)
    server.reset()
    rng, kills = random.Random(7), list[Kill]()
    for point in points(rng, total, KILLS):
        kills += [kill] if (kill := kill_at(killed, server, point, rng.random() * 0.05)) else []
        for name, content in files(killed.out).items():
            assert Path(name).name in STAGE_ONE
            # The last line may be cut off: it is of the sample that was being written.
            assert set(content.split(b"\n")[:-1]) <= set(expected[name].split(b"\n"))
    kill_at(killed, server, total, rng.random() * 0.2)  # while the last answers are judged, or files appear
    assert len(kills) == KILLS
    assert killed.run().code == 0
    assert files(killed.out) == expected
    seen = server.stats().requests
    for kill in kills:
        assert kill.logged.isdisjoint(one.reply for one in seen[kill.received :])
    good = sum(one.outcome in ("ok", "left") for one in seen)
    assert 0 <= good - total <= len(kills) * CONCURRENCY
    assert sorted(killed.replies()) == sorted(whole.replies())


def has(job: Job, calls: int) -> bool:
    return job.count("calls") >= calls


def named(matter: JudgeQuestion) -> str:
    return hashlib.sha256(repr(matter).encode()).hexdigest()


def slowly(matter: JudgeQuestion, _attempt: int) -> str:
    """A right reply that takes its time, so that a kill comes between two."""
    time.sleep(0.02)
    return ""


def judging(judged_samples: JudgedSamples, out: Path) -> Job:
    """Only the files, which no run here wrote, and the judge."""
    out.mkdir()
    for name in stage_one(judged_samples.out):
        (out / name).write_bytes((judged_samples.out / name).read_bytes())
    command = ["-m", "assay", "memory", "eval", "--eval-only", "--judge", "openai/judge", "--quiet"]
    command += ["--base-url", judged_samples.server.url, "--concurrency", str(IN_FLIGHT), "--output-dir", str(out)]
    return Job(command, out)


def test_judging_killed_is_as_undisturbed(tmp_path: Path) -> None:
    """The judge names what it judged: what its log had at a kill never arrives again."""

    def judge(matter: JudgeQuestion) -> Verdict:
        return Verdict(offline.verdict(matter).labels, named(matter))

    with JudgingServer(judge, slowly, reply) as server:
        judged_samples = JudgedSamples(tmp_path, server, *(sample(f"s{number}", 3) for number in range(4)))
        judged_samples.run(judge="offline")
        whole, killed = (judging(judged_samples, tmp_path / name) for name in ("whole", "killed"))
        files = stage_one(killed.out)
        assert whole.run().code == 0
        total = len(server.questions)
        assert total == len(set(server.questions)) == whole.count("calls")
        for number in range(1, KILLS + 1):
            with killed.started() as started:
                assert started.wait_for(partial(has, killed, total * number // (KILLS + 1)))
                started.kill()
            time.sleep(0.1)  # what the dead process had sent may still be on its way
            logged, received = set(re.findall(r"[0-9a-f]{64}", str(killed.replies()))), len(server.questions)
            assert logged
        assert killed.run().code == 0
        assert logged.isdisjoint(map(named, server.questions[received:]))
        assert len(server.questions) - 2 * total <= KILLS * IN_FLIGHT
    assert stage_one(killed.out) == files
    assert stage_two(killed.out) == stage_two(whole.out)
