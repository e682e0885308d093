"""Grades a finished run anew whose samples file is large: memory must not grow with it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from benchmarks import tasks
from benchmarks.figures import Figure
from benchmarks.measure import environment, python

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from benchmarks.measure import Used

REPLY_BYTES = 25_000
_TASK = """\
task: long
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
doc_to_text: "{{{{question}}}}"
doc_to_target: "{{{{answer}}}}"
generation_kwargs: {{until: []}}
metric_list:
  - {{metric: exact_match, ignore_case: {case}}}
filter_list:
  - {{name: whole, filter: [{{function: take_first}}]}}
  - {{name: found, filter: [{{function: regex, regex_pattern: "#### (.*)"}}, {{function: take_first}}]}}
"""
_MODEL = """\
FILL = "word " * {words}

async def answer(prompt, params):
    text = prompt if isinstance(prompt, str) else prompt[-1]["content"]
    return FILL + "#### N" + text.rsplit(" ", 1)[1]
"""


def rescored(folder: Path, cases: int) -> Iterator[Figure]:
    """A run, and one of a tenth of its cases."""
    (folder / "model.py").write_text(_MODEL.format(words=REPLY_BYTES // 5), encoding="utf-8")
    small, _ = _rescore(folder / "small", cases // 10)
    large, size = _rescore(folder / "large", cases)
    note = f"{large.rss:.1f} MB, a tenth {small.rss:.1f} MB; the samples file has {size / 1e9:.2f} GB"
    yield Figure("more memory of a rescore than a tenth", large.rss - small.rss, 30.0, "MB", note)
    yield Figure("CPU of the rescore", large.cpu, None, "s", f"{cases:,} cases, {REPLY_BYTES:,} bytes a reply")


def _rescore(folder: Path, cases: int) -> tuple[Used, int]:
    folder.mkdir()
    with (folder / "docs.jsonl").open("w", encoding="utf-8") as file:
        for number in range(cases):
            file.write(json.dumps({"question": f"which is {number}", "answer": f"n{number}"}) + "\n")
    output, model = folder / "output", f"python/{folder.parent / 'model.py'}:answer"
    _assay(folder, "task", _task(folder, "strict", "false"), "--model", model, "--output-path", output)
    before = tasks.accuracies(output)
    used = _assay(folder, "rescore", output, "--task", _task(folder, "loose", "true"))
    if (before, tasks.accuracies(output)) != ([0.0, 0.0], [0.0, 1.0]):
        raise SystemExit(used.output)
    (path,) = output.glob("*/samples_*.jsonl")
    return used, path.stat().st_size


def _task(folder: Path, name: str, case: str) -> Path:
    path = folder / f"{name}.yaml"
    data = json.dumps(str(folder / "docs.jsonl"))
    path.write_text(_TASK.format(data=data, case=case), encoding="utf-8")
    return path


def _assay(folder: Path, *arguments: object) -> Used:
    log = folder / "assay.log"
    used = python("-m", "assay", *arguments, env=environment(uvloop=True), log=log)
    if used.code != 0:
        raise SystemExit(used.output)
    return used
