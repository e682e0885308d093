"""Code that blocks the event loop ends its case as it does without Ray."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import assay
from assay.core.types import Failure
from assay.store.cases import RunCases

from support.damaged_runs import read_cases
from support.ray_cluster import LocalCluster

HOP = """
import asyncio, time

async def wait():
    time.sleep(3600)

async def hop(n, session):
    if n == 1:
        time.sleep(3600)  # waits in C: only a signal would interrupt it
    if n == 2:
        await asyncio.create_task(wait())
    if n == 3:
        while True: sum(range(1000))
    return "OK", {"answer": n}
"""


def without_marks(failure: Failure | None) -> str:
    """The failure without the carets of its traceback: a loop is interrupted inside its call or beside it."""
    return re.sub(r"\\n *[~^]+(?=\\n)", "", repr(failure))


def test_code_that_blocks_counts_against_the_subject_wherever_it_runs(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the same message and the same line of the code, for time.sleep, in a task of its own, and in a loop."""
    monkeypatch.chdir(tmp_path)
    Path("hop.py").write_text(HOP)
    Path("rows.jsonl").write_text("".join(f'{{"id": {n}, "n": {n}, "tag": "a"}}\n' for n in range(4)))
    runs = [
        assay.run(
            assay.spec("hop", target="hop.py:hop", data="rows.jsonl", timeout=0.5, output_dir=executor, **options)
        )
        for executor, options in (("local", {}), ("ray", {"executor": "ray", "workers": 2}))
    ]
    local, ray = (read_cases(run.folder) for run in runs)
    assert ray == local
    ends = [{case.end.index: without_marks(case.end.failure) for case in RunCases(run.folder)} for run in runs]
    assert ends[0] == ends[1]
    assert [run.summary.ran_on for run in runs] == ["", "2 workers of Ray"]
    assert [run.summary.failures for run in runs] == [{"user_code": 3}] * 2
    assert [(run.summary.ok, run.summary.subject_error) for run in runs] == [(1, 3)] * 2
