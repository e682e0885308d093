"""`assay pipeline` against the bare script and against itself: steps in a row, and items of a batch."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks import tasks
from benchmarks.figures import Figure
from benchmarks.measure import Server, Used, environment, hide_uvloop, python

CONCURRENCY = 64
ITEMS = 100
STEPS = 3
_HEAD = """\
id: {name}
inputs:
  - {{name: question}}
steps:
"""
_STEP = """\
  - id: step{at}
    type: prompt
    template: "{template}"
    params: {{temperature: 0, max_tokens: 16}}
"""
_NEXT = """\
    input_mapping: {{question: question, earlier: step{before}}}
"""
_BATCH = """\
    batch_mode: true
"""
_OUTPUT = """\
outputs:
  - {{key: answer, from: step{last}}}
"""


class Work(NamedTuple):
    """A pipeline, its testset, and how many calls that is."""

    pipeline: Path
    testset: Path
    calls: int


def in_a_row(folder: Path, cases: int, steps: int) -> Work:
    """Tests whose every step but the first shows the output of the one before."""
    name = f"steps_{steps}"
    text = _HEAD.format(name=name) + _STEP.format(at=1, template="{{ question }}")
    for at in range(2, steps + 1):
        template = "{{ question }} An earlier answer was {{ earlier }}."
        text += _STEP.format(at=at, template=template) + _NEXT.format(before=at - 1)
    pipeline = folder / f"{name}.yaml"
    pipeline.write_text(text + _OUTPUT.format(last=steps), encoding="utf-8")
    tests = ({"inputs": {"question": _question(number)}, **_expected(number)} for number in range(cases))
    return Work(pipeline, _testset(folder / f"{name}.jsonl", tests), cases * steps)


def batched(folder: Path, cases: int, items: int) -> Work:
    """Tests of one step that runs over many items."""
    pipeline = folder / "batch.yaml"
    text = _HEAD.format(name="batch") + _STEP.format(at=1, template="{{ question }}") + _BATCH
    pipeline.write_text(text + _OUTPUT.format(last=1), encoding="utf-8")
    return Work(pipeline, _testset(folder / "batch.jsonl", _batches(cases, items)), cases * items)


def _batches(cases: int, items: int) -> Iterator[dict[str, object]]:
    """One item is wrong in every fifth test, so that the share of right tests is the usual one."""
    for case in range(cases):
        numbers = [5 * (case * items + at) + 1 for at in range(items)]
        answers = [str(tasks.right_answer(number)) for number in numbers]
        if case % 5 == 0:
            answers[-1] = "none"
        yield {
            "batch_items": [{"question": _question(number)} for number in numbers],
            "expected_outputs": {"answer": answers},
        }


def _question(number: int) -> str:
    return f"Q{number}: which number belongs to item {number}? Answer with the number only."


def _expected(number: int) -> dict[str, object]:
    return {"expected_outputs": {"answer": str(tasks.right_answer(number))}}


def _testset(path: Path, tests: Iterator[dict[str, object]]) -> Path:
    with path.open("w", encoding="utf-8") as file:
        for number, test in enumerate(tests):
            file.write(json.dumps({"id": number, **test}) + "\n")
    return path


def compare(folder: Path, endpoint: Server, cases: int, turns: int) -> Iterator[Figure]:
    """Without and with uvloop; of several turns the median of their ratios."""
    blocker = hide_uvloop(folder)
    three, one = in_a_row(folder, cases, STEPS), in_a_row(folder, cases, 1)
    batch = batched(folder, cases // ITEMS, ITEMS)
    lines = tasks.questions(folder / "bare.jsonl", range(cases))
    for uvloop in (False, True):
        runs = _Runs(folder, endpoint, environment(uvloop=uvloop, blocker=blocker))
        loop = "uvloop" if uvloop else "asyncio"
        pairs = [(runs.assay(three), runs.bare(lines, three.calls)) for _ in range(turns)]
        yield _ratio(f"CPU, {cases:,} cases x {STEPS} steps, {loop}", pairs, 2.5, three.calls)
        rss = max(ours.rss for ours, _ in pairs)
        yield Figure(f"peak memory, {loop}", rss, 80.0, "MB", f"bare script {pairs[0][1].rss:.1f} MB")
        pairs = [(runs.assay(batch), runs.assay(one)) for _ in range(turns)]
        name = f"CPU, {cases // ITEMS:,} cases x {ITEMS} items to {cases:,} cases, {loop}"
        yield _ratio(name, pairs, 1.2, one.calls)


def _ratio(name: str, pairs: list[tuple[Used, Used]], limit: float, calls: int) -> Figure:
    ratios = [ours.cpu / other.cpu for ours, other in pairs]
    ours, other = (median(used.cpu for used in side) for side in zip(*pairs, strict=True))
    each = 1e6 / calls
    note = f"{ours:.2f} s / {other:.2f} s ({ours * each:.0f} / {other * each:.0f} us a call); "
    return Figure(name, median(ratios), limit, "x", note + f"{min(ratios):.2f} to {max(ratios):.2f}")


class _Runs:
    """Starts one process after the other and refuses one that asked or answered something else."""

    def __init__(self, folder: Path, endpoint: Server, env: dict[str, str]) -> None:
        self._folder = folder
        self._endpoint = endpoint
        self._env = env

    def assay(self, work: Work) -> Used:
        """Exit code 1: some tests are wrong."""
        output = self._folder / "output"
        shutil.rmtree(output, ignore_errors=True)
        command = ["pipeline", work.pipeline, "--testset", work.testset, "--model", "openai/fake"]
        command += ["--base-url", self._endpoint.url, "--concurrency", CONCURRENCY, "--output-dir", output]
        self._endpoint.reset()
        used = python("-m", "assay", *command, env=self._env, log=self._folder / "assay.log")
        self._check(used, used.code == 1 and _passed(output), work.calls)
        return used

    def bare(self, lines: Path, calls: int) -> Used:
        """As many calls, with the same prompts."""
        log = self._folder / "bare.log.jsonl"
        log.unlink(missing_ok=True)
        script = Path(__file__).with_name("bare.py")
        self._endpoint.reset()
        arguments = [script, lines, CONCURRENCY, log, self._endpoint.url, STEPS]
        used = python(*arguments, env=self._env, log=self._folder / "bare.log")
        self._check(used, used.code == 0 and float(used.output.split()[0]), calls)
        return used

    def _check(self, used: Used, passed: float, calls: int) -> None:
        """A wrong result makes every figure void."""
        asked = self._endpoint.stats()["asked"]
        if passed != tasks.ACCURACY or asked != calls:
            raise SystemExit(f"{passed} right, {asked} of {calls} calls, code {used.code}:\n{used.output}")


def _passed(output: Path) -> float:
    (path,) = output.glob("assay/*/summary.json")
    (variant,) = json.loads(path.read_text(encoding="utf-8"))["results"].values()
    share: float = variant["metrics"][0]["value"]
    return share
