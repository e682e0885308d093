"""lm-evaluation-harness itself against assay: the same task file, the same endpoint, by both command lines.

`ASSAY_LM_EVAL_PYTHON` names an interpreter that has lm_eval; `make bench-lm-eval` makes one.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from benchmarks import overhead, tasks
from benchmarks.figures import Figure
from benchmarks.measure import environment, python

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from benchmarks.measure import Server, Used

VARIABLE = "ASSAY_LM_EVAL_PYTHON"
_OFFLINE = {"HF_DATASETS_OFFLINE": "1", "HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}


def available() -> bool:
    """Whether an interpreter with lm_eval was named."""
    return bool(os.environ.get(VARIABLE))


def compare(folder: Path, endpoint: Server, docs: int, turns: int) -> Iterator[Figure]:
    """Many documents asked once, start-up included."""
    work = overhead.one_each(folder, docs)
    return _compared(f"{docs:,} docs", work, 0.1, _Place(folder, endpoint, docs), turns)


def compare_repeats(folder: Path, endpoint: Server, docs: int, repeats: int, turns: int) -> Iterator[Figure]:
    """Few documents asked often, three filters, start-up included."""
    work = overhead.repeated(folder, docs, repeats)
    return _compared(f"{docs:,} docs x {repeats}", work, 0.25, _Place(folder, endpoint, docs), turns)


class _Place:
    """Where runs write, whom they ask, and what must come out."""

    def __init__(self, folder: Path, endpoint: Server, docs: int) -> None:
        self.accuracy = tasks.accuracy(docs)
        self.folder = folder
        self.endpoint = endpoint
        self.output = folder / "output"

    def empty(self) -> None:
        shutil.rmtree(self.output, ignore_errors=True)
        self.endpoint.reset()


def _compared(name: str, work: overhead.Work, limit: float, place: _Place, turns: int) -> Iterator[Figure]:
    ours, theirs = [], []
    for _ in range(turns):
        theirs.append(_checked(_lm_eval(work, place), work, place))
        ours.append(_checked(_assay(work, place), work, place))
    mine, other = (min(used.cpu for used in every) for every in (ours, theirs))
    yield Figure(f"CPU, {name}", mine / other, limit, "x", f"{mine:.2f} s / {other:.2f} s of lm-eval")
    mine, other = (min(used.rss for used in every) for every in (ours, theirs))
    yield Figure(f"peak memory, {name}", mine, None, "MB", f"lm-eval {other:.0f} MB")


def _lm_eval(work: overhead.Work, place: _Place) -> Used:
    place.empty()
    model = f"model=fake,base_url={place.endpoint.url}/chat/completions,num_concurrent={overhead.CONCURRENCY}"
    command = ["-m", "lm_eval", "run", "--model", "local-chat-completions", "--model_args", model]
    command += ["--tasks", work.task.stem, "--include_path", str(work.task.parent), "--apply_chat_template"]
    command += ["--output_path", str(place.output), "--log_samples"]
    env = environment(uvloop=True, **_OFFLINE, HF_HOME=str(place.folder / "hf"))
    env.pop("PYTHONPATH")
    log = place.folder / "lm_eval.log"
    return python(*command, env=env, log=log, interpreter=os.environ[VARIABLE])


def _assay(work: overhead.Work, place: _Place) -> Used:
    place.empty()
    command = ["-m", "assay", "task", work.task, "--model", "openai/fake", "--base-url", place.endpoint.url]
    command += ["--apply-chat-template", "--concurrency", overhead.CONCURRENCY, "--output-path", place.output]
    return python(*command, env=environment(uvloop=True), log=place.folder / "assay.log")


def _checked(used: Used, work: overhead.Work, place: _Place) -> Used:
    """A wrong result makes every figure void."""
    found = tasks.accuracies(place.output) if used.code == 0 else []
    asked = place.endpoint.stats()["asked"]
    if found != [place.accuracy] * work.filters or asked != work.count:
        raise SystemExit(f"accuracy {found}, {asked} requests, exit code {used.code}:\n{used.output}")
    return used
