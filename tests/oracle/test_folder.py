"""The tasks that come with lm-evaluation-harness: assay resolves them, and builds the same prompts."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.core.types import Request
from assay.suites.task.suite import TaskSuite

from oracle import bundled
from oracle.harness import Harness

FEWEST = 13_000
"""The package has 13,093 tasks in YAML."""


@pytest.fixture(scope="module")
def checked() -> Any:
    """What `assay check` says of the folder."""
    script = Path(__file__).with_name("resolving.py")
    command = [sys.executable, str(script), str(bundled.folder())]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def test_nearly_all_tasks_resolve_by_parsing_alone(checked: Any) -> None:
    """At least 99 % of the tasks resolve, nothing is imported, and what does not resolve has its reason."""
    *problems, (_, told, _) = checked["problems"]
    files, fine = map(_number, re.findall(r"([\d,]+) of ([\d,]+) files", told)[0][::-1])
    errors = [message for _, message, level in problems if level == "error"]
    classes = sum("written as a Python class" in message for message in errors)
    tasks = bundled.count()
    failed = files - fine - classes  # groups among them are counted as tasks, to be on the safe side
    print(f"{tasks - failed:,} of {tasks:,} YAML tasks resolve ({told})")  # noqa: T201
    assert tasks >= FEWEST
    assert tasks - failed >= 0.99 * tasks
    assert len(errors) >= files - fine
    assert not checked["imported"]


def _number(text: str) -> int:
    return int(text.replace(",", ""))


def test_resolving_costs_about_as_much_as_indexing(checked: Any, harness: Harness) -> None:
    """The whole check, start-up included, against the harness's list of the same tasks' names."""
    index = harness.ask("index")
    print(f"assay {checked['cpu']:.1f} s CPU, lm_eval {index['cpu']:.1f} s")  # noqa: T201
    # They are nearly equal, so that a bound of 1 would be a matter of luck.
    assert checked["cpu"] <= 1.5 * index["cpu"]


def test_first_prompts_are_the_same(harness: Harness, tmp_path: Path) -> None:
    """Over data invented from their templates, tasks of all families ask what the harness asks."""
    tasks = {f"invented_{at}": task for at, task in enumerate(bundled.plain_tasks(2))}
    for name, task in tasks.items():
        task.over(name, tmp_path)
    theirs = harness.ask("prompts", folder=str(tmp_path), tasks=list(tasks))
    asked = {name: found["arguments"] for name, found in theirs.items() if "arguments" in found}
    differ = {
        f"{name} {tasks[name].path}": (ours, asked[name])
        for name in asked
        if (ours := first_requests(tmp_path / f"{name}.yaml")) != asked[name]
    }
    assert len(asked) >= 100
    assert not differ, "\n".join(f"{k}\n  ours   {v[0]}\n  theirs {v[1]}" for k, v in differ.items())


def first_requests(path: Path) -> Any:
    """The first document's requests as the harness lists their arguments, or why there are none."""
    try:
        spec = assay.spec(
            "task",
            tasks=[str(path)],
            model="openai-completions/x",
            base_url="http://127.0.0.1:1/v1",
            confirm_run_unsafe_code=True,
        )
        suite = TaskSuite(spec)
        row = next(suite.rows().iterate())
        case = suite.case(row, spec.model)
    except assay.core.errors.AssayError as error:
        return str(error)
    return [_arguments(request, suite.tasks[0].values) for request in case.inputs.requests]


def _arguments(request: Request, values: dict[str, Any]) -> list[Any]:
    if request.continuation is None:
        return [request.prompt, values["generation_kwargs"]]
    return [request.continuation] if request.prompt is None else [request.prompt, request.continuation]
