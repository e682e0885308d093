"""kill -9 in the middle of a pipeline: cases continue inside, and no answered step is asked again."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from servers.fake_openai import FakeOpenAI
from support.commands import Job
from support.killing import CONCURRENCY, kill_at
from support.task_project import as_yaml

CASES = 200
STEPS = 6


@pytest.fixture(scope="module")
def slow() -> Iterator[FakeOpenAI]:
    """A server on which replies come late and out of order."""
    with FakeOpenAI(latency=0.004, jitter=2.0) as server:
        yield server


def six_steps(folder: Path) -> list[str]:
    """Two arms side by side between a beginning and an end, over many tests; the command to run them."""
    after = {"a": "text", "b": "a", "left": "b", "right": "b", "c": "left", "end": "c"}
    steps: list[dict[str, Any]] = [
        {
            "id": step,
            "template": f"{step} {{{{ text }}}}: {{{{ it }}}}",
            "input_mapping": {"it": it, "text": "text"},
        }
        for step, it in after.items()
    ]
    steps[4]["depends_on"] = ["right"]
    folder.mkdir()
    (folder / "p.yaml").write_text(as_yaml({"id": "p", "steps": steps, "outputs": ["end", "right"]}))
    tests = [
        {
            "id": f"t{n}",
            "inputs": {"text": f"text {n}"},
            "expected_outputs": {"end": "regex:the answer is [01]"},
        }
        for n in range(CASES)
    ]
    (folder / "tests.jsonl").write_text("".join(json.dumps(test) + "\n" for test in tests))
    return ["-m", "assay", "pipeline", str(folder / "p.yaml"), "--testset", str(folder / "tests.jsonl")]


def job(command: list[str], server: FakeOpenAI, out: Path) -> Job:
    """The command with its model and its place."""
    model = ["--model", "openai/fake", "--base-url", server.url, "--concurrency", str(CONCURRENCY)]
    return Job([*command, *model, "--output-dir", str(out)], out)


def rows(folder: Path) -> list[dict[str, Any]]:
    """The results without what no two runs have in common."""
    found = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    for row in found:
        row.pop("seconds")
        for step in row["steps"].values():
            step.pop("seconds")
    return found


def half_done(calls: list[dict[str, Any]]) -> int:
    """Cases of which some steps were answered, and not all."""
    counts = Counter(call["index"] for call in calls)
    return sum(0 < count < STEPS for count in counts.values())


def test_a_killed_pipeline_continues_inside_its_cases(slow: FakeOpenAI, tmp_path: Path) -> None:
    """No step whose reply had arrived is asked again, and the results are those of an undisturbed run."""
    command = six_steps(tmp_path / "files")
    whole, killed = job(command, slow, tmp_path / "whole"), job(command, slow, tmp_path / "killed")
    assert whole.run().code == 1, "some of the answers are not as expected"
    slow.reset()
    kills, open_cases = [], []
    for point in (150, 700):
        kill = kill_at(killed, slow, point, 0.01)
        assert kill is not None, "it was killed while it ran"
        kills.append(kill)
        open_cases.append(half_done(killed.lines("calls")))
    assert all(open_cases), "cases were open in the middle"
    assert killed.run().code == 1
    requests = slow.stats().requests
    for kill in kills:
        assert 0 <= kill.lost <= CONCURRENCY
        assert kill.logged.isdisjoint(seen.reply for seen in requests[kill.received :])
    assert len(requests) == CASES * STEPS + sum(kill.lost for kill in kills)
    assert sorted(killed.replies()) == sorted(whole.replies())
    assert Counter(end["index"] for end in killed.ends()) == Counter(range(CASES))
    assert rows(killed.folder) == rows(whole.folder)
    assert rows(tmp_path / "killed" / "p") == rows(whole.folder)
    assert killed.summary()["spent"] == whole.summary()["spent"]
    again = killed.run()
    assert (again.code, len(slow.stats().requests)) == (1, len(requests)), "nothing is left to ask"
