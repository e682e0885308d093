"""`python/FILE.py:function`: what the function does is a reply or a failed call, never the end of the run."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import ModelError
from assay.core.roles import Connection
from assay.core.types import Failure, Request
from assay.models import python

from support.commands import Job
from support.tasks import write_task


def failure(folder: Path, code: str, timeout: float = 20.0) -> Failure:
    """Why a call of `answer` in this code has no reply."""
    (folder / "mine.py").write_text(code)
    model = python.connect(Connection(name=f"{folder}/mine.py:answer", timeout=timeout))
    with pytest.raises(ModelError) as caught:
        asyncio.run(model.send(Request(model="m", prompt="a"), 1))
    return caught.value.failure


@pytest.mark.parametrize("kind", ["def", "async def"])
@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("raise KeyError('gone')", "KeyError: 'gone'"),
        ("sys.exit(0)", "SystemExit: 0"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt: "),
    ],
)
def test_what_the_function_raises_counts_against_it(tmp_path: Path, kind: str, body: str, message: str) -> None:
    """The traceback says where."""
    found = failure(tmp_path, f"import sys\n{kind} answer(prompt, params):\n    {body}\n")
    assert (found.kind, found.message) == ("user_code", message)
    assert f'{tmp_path}/mine.py", line 3, in answer\n    {body}\n' in found.traceback


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_the_time_limit_holds_for_both_kinds(tmp_path: Path, kind: str) -> None:
    wait = "await asyncio.sleep(60)" if kind == "async def" else "time.sleep(60)"
    found = failure(tmp_path, f"import asyncio, time\n{kind} answer(prompt, params):\n    {wait}\n", timeout=0.05)
    assert found == Failure("timeout", "the function took longer than 0.05 s")


@pytest.mark.parametrize("value", ["None", "3", "{'text': 3}", "{'text': 'a', 'usage': [1]}"])
def test_a_value_that_is_no_reply_counts_against_it(tmp_path: Path, value: str) -> None:
    assert failure(tmp_path, f"def answer(prompt, params):\n    return {value}\n").kind == "user_code"


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_model_that_exits_leaves_a_run_with_its_files(tmp_path: Path, kind: str) -> None:
    """`sys.exit(0)` in one document of three: the others are scored, and the failure is in the journal."""
    task = write_task(tmp_path, 3)
    (tmp_path / "mine.py").write_text(
        f"import sys\n{kind} answer(prompt, params):\n    if 'Q1' in str(prompt):\n        sys.exit(0)\n    return '1'\n"
    )
    out = tmp_path / "out"
    command = ["-m", "assay", "task", str(task), "--model", f"python/{tmp_path}/mine.py:answer"]
    done = Job([*command, "--output-dir", str(out)], out).run()
    assert done.code == 0, done.err
    assert list(out.rglob("results_*.json"))
    assert "mine.py" in json.dumps(_failed(out)["failure"]["traceback"])


def _failed(out: Path) -> dict[str, Any]:
    lines = next(out.rglob("calls.jsonl")).read_text().splitlines()[1:]
    return next(line for line in map(json.loads, lines) if "failure" in line)
