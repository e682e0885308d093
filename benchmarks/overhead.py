"""The harness against the bare script: the same questions to the same endpoint, in turns."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks import tasks
from benchmarks.figures import Figure
from benchmarks.measure import Server, Used, environment, hide_uvloop, python

CONCURRENCY = 64


class Work(NamedTuple):
    """The same work twice: a task file, and the lines that make the bare script ask as often."""

    task: Path
    lines: Path
    count: int
    filters: int


Run = Callable[[Work, Server, Path, dict[str, str]], Used]


class Turn(NamedTuple):
    """One process's figures."""

    cpu: float
    rss: float
    first: float


def one_each(folder: Path, count: int) -> Work:
    """Many questions, each asked once."""
    data = tasks.questions(folder / "one_each.jsonl", range(count))
    return Work(tasks.task(folder / "one_each.yaml", data), data, count, 1)


def repeated(folder: Path, docs: int, repeats: int) -> Work:
    """Few questions, each asked often, with three filters."""
    data = tasks.questions(folder / "repeated.jsonl", range(docs))
    every = (number for number in range(docs) for _ in range(repeats))
    lines = tasks.questions(folder / "repeated_bare.jsonl", every)
    task = tasks.task(folder / "repeated.yaml", data, repeats=repeats, filters=True)
    return Work(task, lines, docs * repeats, 3)


def compare(work: Work, endpoint: Server, folder: Path, turns: int) -> Iterator[Figure]:
    """Best of some turns, without and with uvloop."""
    blocker = hide_uvloop(folder)
    for uvloop in (False, True):
        env = environment(uvloop=uvloop, blocker=blocker)
        ours: list[Turn] = []
        bare: list[Turn] = []
        for _ in range(turns):
            bare.append(_turn(_bare, work, endpoint, folder, env))
            ours.append(_turn(_assay, work, endpoint, folder, env))
        yield from _figures(_best(ours), _best(bare), "uvloop" if uvloop else "asyncio", work)


def assay_turn(work: Work, endpoint: Server, folder: Path, env: dict[str, str]) -> Turn:
    """Return the figures of one run of the harness."""
    return _turn(_assay, work, endpoint, folder, env)


def _turn(run: Run, work: Work, endpoint: Server, folder: Path, env: dict[str, str]) -> Turn:
    endpoint.reset()
    used = run(work, endpoint, folder, env)
    stats = endpoint.stats()
    if stats["asked"] != work.count:
        raise SystemExit(f"{stats['asked']} requests instead of {work.count}:\n{used.output}")
    return Turn(used.cpu, used.rss, stats["first"] - used.started)


def _bare(work: Work, endpoint: Server, folder: Path, env: dict[str, str]) -> Used:
    log = folder / "bare.jsonl"
    log.unlink(missing_ok=True)
    script = Path(__file__).with_name("bare.py")
    used = python(script, work.lines, CONCURRENCY, log, endpoint.url, env=env, log=folder / "bare.log")
    _check(used, [float(used.output.split()[0])] if used.code == 0 else [])
    return used


def _assay(work: Work, endpoint: Server, folder: Path, env: dict[str, str]) -> Used:
    output = folder / "output"
    shutil.rmtree(output, ignore_errors=True)
    command = ["task", work.task, "--model", "openai/fake", "--base-url", endpoint.url]
    command += ["--concurrency", CONCURRENCY, "--output-path", output]
    used = python("-m", "assay", *command, env=env, log=folder / "assay.log")
    _check(used, tasks.accuracies(output) if used.code == 0 else [], work.filters)
    return used


def _check(used: Used, accuracies: list[float], count: int = 1) -> None:
    """A wrong result makes every figure void."""
    if accuracies != [tasks.ACCURACY] * count:
        raise SystemExit(f"accuracy {accuracies}, exit code {used.code}:\n{used.output}")


def _best(turns: list[Turn]) -> Turn:
    return Turn(*(min(values) for values in zip(*turns, strict=True)))


def _figures(ours: Turn, bare: Turn, loop: str, work: Work) -> Iterator[Figure]:
    each = 1e6 / work.count
    note = f"{ours.cpu:.2f} s / {bare.cpu:.2f} s ({ours.cpu * each:.0f} / {bare.cpu * each:.0f} us a call)"
    yield Figure(f"CPU, {loop}", ours.cpu / bare.cpu, 1.0, "x", note)
    yield Figure(f"peak memory, {loop}", ours.rss, 80.0, "MB", f"bare script {bare.rss:.1f} MB")
    note = f"{ours.first:.2f} s / {bare.first:.2f} s"
    yield Figure(f"first request, {loop}", ours.first / bare.first, 2.0, "x", note)
