"""The exit code of every suite in every situation: the table of docs/cli.md, with real commands."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from msgspec import to_builtins

import assay
from assay.core.report import CaseCounts, Entry, Metric, Report
from assay.core.run_end import end_of_report
from assay.runner.results import Run

from conftest import write_docs
from support.commands import environment, run_here
from support.memory_samples import sample
from support.own_memory import RAISING

ROWS = 3
MODEL = """\
import asyncio
import json
import os
import signal

from assay.core.errors import ModelError
from assay.core.types import Failure


async def right(prompt, params):
    return "yes"


async def citing(prompt, params):
    return json.dumps({"answer": "yes", "citations": [1]})


async def wrong(prompt, params):
    return "no"


async def broken(prompt, params):
    raise KeyError("text")


async def silent(prompt, params):
    if "number 0" in str(prompt):
        raise ModelError(Failure("connection", "the connection broke"))
    return "no"


async def gone(prompt, params):
    raise ModelError(Failure("unreachable", "nobody answers"))


async def interrupted(prompt, params):
    os.kill(os.getpid(), signal.SIGINT)
    await asyncio.sleep(0.01)
    return "yes"


async def unsure(prompt, params):
    if "number 0" in str(prompt):
        return "Hard to say."
    verdict = {"label": "correct", "reason": "so", "passed": True, "verdict": "correct", "correct": True}
    return json.dumps(verdict)


async def rubbish(prompt, params):
    return "Hard to say."
"""
TASK = """\
task: notes
dataset_path: json
dataset_kwargs: {data_files: {test: notes.jsonl}}
test_split: test
doc_to_text: "{{question}}"
doc_to_target: "yes"
generation_kwargs: {until: ["\\n"]}
metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]
"""
PIPELINE = """\
id: notes
name: Notes
inputs: [note]
steps:
  - {id: say, template: "{{ note }}"}
outputs:
  - {key: said, from: say}
"""
HOP = """\
async def hop(session, fields):
    return {"said": await session.model.chat(fields["note"])}


async def bad(session, fields):
    return {"said": fields["text"]}
"""


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    """A folder with three rows for each suite. A model that replies `yes` is right."""
    notes = [f"number {n}" for n in range(ROWS)]
    write_docs(tmp_path / "notes.jsonl", [{"question": note} for note in notes])
    write_docs(
        tmp_path / "tests.jsonl",
        [{"id": str(n), "inputs": {"note": note}, "expected_outputs": {"said": "yes"}} for n, note in enumerate(notes)],
    )
    write_docs(tmp_path / "plain.jsonl", [{"id": str(n), "inputs": {"note": note}} for n, note in enumerate(notes)])
    write_docs(
        tmp_path / "skipped.jsonl",
        [{"id": "0", "inputs": {"note": "a"}, "conditions": "false", "expected_outputs": {"said": "yes"}}],
    )
    write_docs(
        tmp_path / "judged.jsonl",
        [
            {
                "id": str(n),
                "inputs": {"note": note},
                "expected_outputs": {"said": f"judge:It is about {note}."},
            }
            for n, note in enumerate(notes)
        ],
    )
    write_docs(
        tmp_path / "rows.jsonl",
        [{"id": n, "tag": "a", "note": note, "expected_said": "yes"} for n, note in enumerate(notes)],
    )
    write_docs(
        tmp_path / "labels.jsonl",
        [
            {"question": f"{note}?", "reference": "yes", "response": "yes", "label": bool(n % 2)}
            for n, note in enumerate(notes)
        ],
    )
    talk = {
        "id": "a",
        "sessions": [{"date": "5 May 2024", "messages": [{"speaker": "Ann", "text": "yes"}]}],
        "questions": [
            {"question": f"{note}?", "answer": "yes", "evidence": ["D1:1"], "category": "plain"} for note in notes
        ],
    }
    (tmp_path / "talks.json").write_text(json.dumps([talk]))
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "s1.json").write_text(json.dumps(sample("number 0", sessions=1)))
    for name, text in {
        "model.py": MODEL,
        "notes.yaml": TASK,
        "p.yaml": PIPELINE,
        "hop.py": HOP,
        "own.py": RAISING,
        "empty.json": "",
    }.items():
        (tmp_path / name).write_text(text)
    return tmp_path


COMMANDS = {
    "task": ["task", "notes.yaml"],
    "pipeline": ["pipeline", "p.yaml", "--testset", "tests.jsonl"],
    "hop": ["hop", "hop.py:hop", "rows.jsonl"],
    "memory test": ["memory", "test", "--dataset", "plain", "--data", "talks.json", "--memory", "bm25"],
    "memory eval": ["memory", "eval", "--dataset", "data", "--baseline", "bm25", "--judge", "offline"],
}


def words(suite: str, model: str, *more: str) -> list[str]:
    """The command of a suite with one of the functions in `model.py`. A flag in `more` replaces that of the table."""
    command = list(COMMANDS[suite])
    for flag in command:
        if flag in more and flag.startswith("--"):
            place = command.index(flag)
            del command[place : place + 2]
    return [
        *command,
        "--model",
        f"python/model.py:{model}",
        "--output-dir",
        "out",
        "--max-retries",
        "0",
        *more,
    ]


RUBBISH = ["--judge", "python/model.py:rubbish"]
TABLE = [
    # Right and wrong answers are results. Only a pipeline checks them.
    ("task", "right", [], 0),
    ("task", "wrong", [], 0),
    ("pipeline", "right", [], 0),
    ("pipeline", "wrong", [], 1),
    ("hop", "right", [], 0),
    ("hop", "wrong", [], 0),
    ("memory test", "right", [], 0),
    ("memory test", "wrong", [], 0),
    ("memory eval", "right", [], 0),
    ("memory eval", "wrong", [], 0),
    # Every answer is an error of the user's code.
    ("task", "broken", [], 1),
    ("task", "broken", ["--predict-only"], 1),
    ("pipeline", "broken", [], 1),
    ("pipeline", "broken", ["--testset", "plain.jsonl"], 1),
    ("hop", "broken", [], 1),
    ("memory test", "broken", [], 1),
    ("memory test", "right", ["--memory", "own.py:Own"], 1),
    ("memory eval", "broken", [], 1),
    ("memory eval", "right", ["--baseline", "own.py:Own"], 1),
    # An endpoint did not answer for one row, and the answers to the others are wrong: 3 comes before 1.
    ("task", "silent", [], 3),
    ("pipeline", "silent", [], 3),
    ("hop", "silent", [], 3),
    ("memory test", "silent", [], 3),
    ("memory eval", "silent", [], 3),
    # The endpoint is gone: the run stops.
    *[(suite, "gone", [], 3) for suite in COMMANDS],
    # No verdict of the judge can be read.
    ("task", "right", RUBBISH, 1),
    ("pipeline", "right", ["--testset", "judged.jsonl", *RUBBISH], 1),
    ("memory test", "right", RUBBISH, 1),
    ("memory eval", "citing", RUBBISH, 1),
    # One verdict of three cannot be read.
    ("task", "right", ["--judge", "python/model.py:unsure"], 4),
    ("pipeline", "right", ["--testset", "judged.jsonl", "--judge", "python/model.py:unsure"], 4),
    ("memory test", "right", ["--judge", "python/model.py:unsure"], 4),
    # An answer without citations has no evidence: that needs no judge, so it is no verdict of the judge.
    ("memory eval", "right", RUBBISH, 1),
    # No score is wanted.
    ("task", "right", ["--predict-only"], 0),
    ("pipeline", "right", ["--testset", "plain.jsonl"], 0),
    ("pipeline", "right", ["--testset", "skipped.jsonl"], 1),
    # Bad input.
    *[(suite, "right", ["--limit", "0"], 2) for suite in COMMANDS],
]


@pytest.mark.parametrize(("suite", "model", "more", "code"), TABLE)
def test_every_suite_ends_with_the_code_of_the_table(
    lab: Path, suite: str, model: str, more: list[str], code: int
) -> None:
    ended = run_here(words(suite, model, *more), lab)
    assert ended.returncode == code, ended.stdout + ended.stderr
    if code in (1, 4):
        assert f"Exit code {code}" in ended.stderr
        summary = next(lab.glob("out/assay/*/summary.json"))
        assert json.loads(summary.read_text())["exit_reason"] in ended.stderr


@pytest.mark.parametrize("suite", COMMANDS)
def test_ctrl_c_ends_every_suite_with_130(lab: Path, suite: str) -> None:
    command = [sys.executable, "-m", "assay", *words(suite, "interrupted", "--concurrency", "1")]
    ended = subprocess.run(command, cwd=lab, env=environment(), capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 130, ended.stdout + ended.stderr


def test_a_run_without_a_result_names_the_line_of_the_most_frequent_error(lab: Path) -> None:
    """On the screen, in summary.json, in `assay show`, and in the report for the browser."""
    told = "No row has an answer, all 3 failed: KeyError: 'text' at hop.py:6"
    ended = run_here(
        ["hop", "hop.py:bad", "rows.jsonl", "--model", "python/model.py:right", "--output-dir", "out"], lab
    )
    assert ended.returncode == 1
    assert ended.stderr.endswith(f"{told}. Exit code 1\n")
    assert "  3 × user_code, the first: [KeyError] 'text' (hop.py:6: " in ended.stdout
    run = assay.load(str(lab / "out"))
    assert run.summary.exit_reason == told
    assert run.report is not None
    assert [(error.place, error.count) for error in run.report.errors] == [("hop.py:6", 3)]
    assert told in run_here(["show", "out"], lab).stderr
    assert run_here(["report", "out", "--output", "report.html"], lab).returncode == 0
    page = (lab / "report.html").read_text()
    assert "hop.py:6" in page
    assert "No row has an answer" in page
    with pytest.raises(assay.CheckFailed, match="No row has an answer"):
        run.check()


@pytest.mark.parametrize(
    ("suite", "unit"),
    [
        ("task", "case"),
        ("pipeline", "test"),
        ("hop", "row"),
        ("memory test", "question"),
        ("memory eval", "question"),
    ],
)
def test_every_suite_names_the_line_of_a_model_that_raises(lab: Path, suite: str, unit: str) -> None:
    line = 1 + MODEL.splitlines().index('    raise KeyError("text")')
    ended = run_here(words(suite, "broken", "--quiet"), lab)
    (told,) = ended.stderr.splitlines()
    assert told.startswith(f"No {unit} has an answer, ")
    assert f"KeyError: 'text' at model.py:{line}" in told
    assert told.endswith("Exit code 1")


BAD_SCORES = {
    "a filter that raises": "filter_list: [{name: none, filter: [{function: custom, filter_fn: !function bad.metric}]}]",
    "a metric that raises": "metric_list: [{metric: !function bad.metric, aggregation: mean, higher_is_better: true}]",
    "process_results that raises": "process_results: !function bad.process",
}


@pytest.mark.parametrize("line", BAD_SCORES.values(), ids=BAD_SCORES)
def test_a_task_whose_every_score_is_invalid_ends_with_1(lab: Path, line: str) -> None:
    (lab / "bad.py").write_text("def metric(*args, **kwargs):\n    raise ValueError('no')\n\nprocess = metric\n")
    text = TASK
    if line.startswith("metric_list"):
        text = TASK.partition("metric_list")[0]
    (lab / "notes.yaml").write_text(text + line + "\n")
    ended = run_here(words("task", "right"), lab)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "No case has a score: 3 invalid" in ended.stderr
    assert ("at bad.py:2" in ended.stderr) == ("bad." in line)
    again = run_here(words("task", "right"), lab)
    assert (again.returncode, again.stderr.splitlines()[-1]) == (1, ended.stderr.splitlines()[-1])


def test_calibration_without_a_valid_verdict_ends_with_1(lab: Path) -> None:
    command = ["judge", "calibrate", "--labels", "labels.jsonl", "--output-dir", "out", "--judge"]
    ended = run_here([*command, "python/model.py:rubbish"], lab)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "No case has a score: 3 invalid" in ended.stderr
    assert run_here([*command, "offline"], lab).returncode == 0
    ended = run_here([*command, "offline", "--min-kappa", "0.99"], lab)
    assert ended.returncode == 1
    assert "--min-kappa asks for at least 0.99" in ended.stderr


def broken(row: dict[str, str]) -> str:
    """Fails as code with a typo does."""
    return row["txet"]


def evaluated(lab: Path, **options: Any) -> Run:
    """An evaluation from Python of the three notes."""
    rows = [{"question": f"number {n}", "answer": "yes"} for n in range(ROWS)]
    values: dict[str, Any] = {
        "score": ["exact_match"],
        "target": "answer",
        "quiet": True,
        "output_dir": str(lab / "out"),
    }
    return assay.evaluate(rows, **(values | options))


def test_evaluate_ends_as_the_commands_do(lab: Path) -> None:
    prompts = {"prompt": "{{ question }}"}
    model = f"python/{lab}/model.py"
    assert evaluated(lab, model=f"{model}:right", **prompts).exit_code == 0
    assert evaluated(lab, model=f"{model}:wrong", **prompts).exit_code == 0
    assert evaluated(lab, model=f"{model}:broken", **prompts).exit_code == 1
    assert evaluated(lab, model=f"{model}:silent", max_retries=0, **prompts).exit_code == 3
    judged = evaluated(lab, model=f"{model}:right", score=["judge"], judge=f"{model}:rubbish", **prompts)
    assert judged.exit_code == 1
    run = evaluated(lab, answer=broken)
    assert run.exit_code == 1
    assert "KeyError: 'txet' at test_exit_codes.py:" in run.summary.exit_reason


def test_rescoring_with_a_broken_metric_ends_with_1(lab: Path) -> None:
    assert run_here(words("task", "right"), lab).returncode == 0
    (lab / "bad.py").write_text("def metric(*args, **kwargs):\n    raise ValueError('no')\n")
    metrics = BAD_SCORES["a metric that raises"]
    (lab / "notes.yaml").write_text(TASK.partition("metric_list")[0] + metrics + "\n")
    ended = run_here(["rescore", "out", "--code", "bad.py"], lab)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "No case has a score" in ended.stderr


def test_scoring_again_keeps_the_earlier_scoring_readable(lab: Path) -> None:
    """Its files and numbers stay in the run folder, its scores in the journal; `assay show` and the page name them."""
    assert run_here(words("task", "right"), lab).returncode == 0
    first = assay.load(str(lab / "out"))
    texts = {path.name: (lab / path).read_bytes() for path in first.files}
    (lab / "notes.yaml").write_text(TASK.replace('doc_to_target: "yes"', 'doc_to_target: "no"'))
    ended = run_here(["rescore", "out"], lab)
    assert ended.returncode == 0
    run = assay.load(str(lab / "out"))
    assert run["exact_match"].value == 0.0
    (earlier,) = run.earlier
    assert earlier.summary.report is not None
    assert earlier.summary.report.entries[0].metrics[0].value == 1.0
    assert {Path(name).name: (lab / name).read_bytes() for name in earlier.summary.files} == texts
    told = f"earlier scoring {earlier.folder.relative_to(lab)} (exact_match,none 1.000 (0.44–1.00) 3/3)"
    assert told in ended.stdout
    assert told in run_here(["show", "out"], lab).stdout
    assert run_here(["report", "out", "--output", "report.html"], lab).returncode == 0
    assert f"earlier/{earlier.folder.name}" in (lab / "report.html").read_text()
    (lab / "notes.yaml").write_text(TASK)
    run_here(["rescore", "out"], lab)
    back = assay.load(str(lab / "out"))
    assert back["exact_match"].value == 1.0
    assert [scoring.summary.score for scoring in back.earlier] == [run.summary.score]


def test_an_imported_run_has_the_end_of_its_results(lab: Path) -> None:
    """The import itself ends with 0: it did its work."""
    run_here(["hop", "hop.py:bad", "rows.jsonl", "--model", "python/model.py:right", "--output-dir", "out"], lab)
    (results,) = lab.glob("out/rows_*.jsonl")
    assert run_here(["import", str(results), "--output-dir", "imported"], lab).returncode == 0
    run = assay.load(str(lab / "imported"))
    assert run.exit_code == 1
    assert run.summary.exit_reason.startswith("No row has an answer, all 3 failed")


def test_no_zero_stands_for_what_was_not_measured(lab: Path) -> None:
    """The model reports no tokens, and the second test does not run."""
    tests = [
        {"id": "a", "inputs": {"note": "x"}, "expected_outputs": {"said": "yes"}},
        {"id": "b", "inputs": {"note": "x"}, "conditions": "false"},
    ]
    write_docs(lab / "tests.jsonl", tests)
    ended = run_here(words("pipeline", "right"), lab)
    assert ended.returncode == 0
    assert re.search(r"^say .* 1 +– +–$", ended.stdout, re.MULTILINE)
    ran, skipped = map(json.loads, (lab / "out/notes/results.jsonl").read_text().splitlines())
    assert ran["seconds"] is not None
    assert skipped["seconds"] is None
    assert ran["tokens"] == skipped["tokens"] == {"input": None, "output": None}
    with (lab / "out/notes/results.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["seconds__baseline"] == "" for row in rows] == [False, True]
    first, second = ET.parse(lab / "out/notes/junit.xml").iter("testcase")
    assert ("time" in first.attrib, "time" in second.attrib) == (True, False)
    spent = assay.load(str(lab / "out")).summary.spent
    assert spent.calls == 1
    assert not [name for name in to_builtins(spent) if name.endswith("_tokens")]


def test_a_suite_of_your_own_without_a_score_ends_with_1(lab: Path) -> None:
    """The rule needs nothing from a suite but its metrics."""
    report = Report(entries=[Entry(name="m", metrics=[Metric(name="right", value=None, denominator=0)])])
    assert end_of_report(report, CaseCounts(3, 3)) == (1, "No case has a score")
    assert end_of_report(Report(), CaseCounts(3, 3)) == (0, "")
    assert end_of_report(Report(), CaseCounts(3, 0)) == (1, "No case has an answer, all 3 failed")
    assert end_of_report(report, CaseCounts(3, 2, 1)).code == 3


def test_bad_data_ends_with_2_unless_another_case_can_be_continued() -> None:
    """The same command would meet the same data for ever."""
    end = end_of_report(Report(), CaseCounts(9, 8, 1, 1, "no label (rows.jsonl:3)"))
    assert end == (2, "1 of 9 cases cannot be asked because of bad data: no label (rows.jsonl:3)")
    assert end_of_report(Report(), CaseCounts(9, 7, 2, 1, "no label")).code == 3
