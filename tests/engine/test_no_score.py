"""A run that measured nothing says so: exit code 1, no number, and the line of the code that is to blame."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

import assay
from assay.core.report import Report

from conftest import write_docs
from support.commands import run_here
from support.memory_samples import sample
from support.own_memory import RAISING

ROWS = 4
TASK = """\
task: {name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: notes.jsonl}}}}
test_split: test
doc_to_text: "{{{{question}}}}"
doc_to_target: "yes"
generation_kwargs: {{until: ["\\n"]}}
{scoring}
"""
PLAIN = "metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]"
CODE = """\
def raises(values):
    raise ZeroDivisionError("no documents")


def nan(values):
    return float("nan")


def nothing(doc, results):
    return {}


def fails(doc, results):
    raise ValueError("no")
"""
MODEL = """\
def right(prompt, params):
    return "yes"


def broken(prompt, params):
    raise KeyError("text")


def junk(prompt, params):
    return "Hard to say."
"""


def line_of(text: str, code: str) -> int:
    """The number of the line of `code` that starts with `text`."""
    return 1 + next(n for n, line in enumerate(code.splitlines()) if line.strip().startswith(text))


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    """Four documents, and code of one's own in u.py and model.py."""
    write_docs(tmp_path / "notes.jsonl", [{"question": f"number {n}"} for n in range(ROWS)])
    (tmp_path / "u.py").write_text(CODE)
    (tmp_path / "model.py").write_text(MODEL)
    return tmp_path


def write_task(lab: Path, scoring: str, name: str = "t") -> None:
    """Write NAME.yaml with these settings of the scoring."""
    (lab / f"{name}.yaml").write_text(TASK.format(name=name, scoring=scoring))


def command(model: str, *more: str, tasks: tuple[str, ...] = ("t.yaml",)) -> list[str]:
    """The command that runs the tasks with a function of model.py."""
    return ["task", *tasks, "--model", f"python/model.py:{model}", "--output-dir", "out", *more]


def exact_match_by(aggregation: str) -> str:
    """A metric with an aggregation of the user's own."""
    return f"metric_list: [{{metric: exact_match, aggregation: !function u.{aggregation}, higher_is_better: true}}]"


def test_an_aggregation_that_raises_leaves_the_run_without_a_number(lab: Path) -> None:
    write_task(lab, exact_match_by("raises"))
    ended = run_here(command("right"), lab)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    line = line_of("raise ZeroDivisionError", CODE)
    told = f"exact_match: !function u.raises raised ZeroDivisionError: no documents at u.py:{line}"
    assert ended.stderr.splitlines()[-1] == f"No metric has a value: {told}. Exit code 1"


def test_an_aggregation_that_returns_nan_leaves_the_run_without_a_number(lab: Path) -> None:
    write_task(lab, exact_match_by("nan"))
    ended = run_here(command("right"), lab)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    told = f"!function u.nan returned nan, which is not a finite number, at u.py:{line_of('def nan', CODE)}"
    assert ended.stderr.splitlines()[-1] == f"No metric has a value: exact_match: {told}. Exit code 1"


ACC = "metric_list: [{metric: acc, aggregation: mean, higher_is_better: true}]"


def test_process_results_that_returns_nothing_ends_with_1(lab: Path) -> None:
    write_task(lab, f"process_results: !function u.nothing\n{ACC}")
    ended = run_here(command("right"), lab)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    told = f"No case has a score: process_results (u.py:{line_of('def nothing', CODE)}) never returned 'acc'"
    assert ended.stderr.splitlines()[-1] == f"{told}. Exit code 1"
    assert run_here(command("right", "--predict-only"), lab).returncode == 0


def test_an_empty_metric_list_ends_with_1_and_is_an_error_of_the_check(lab: Path) -> None:
    write_task(lab, "metric_list: []")
    ended = run_here(command("right"), lab)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert ended.stderr.splitlines()[-1].startswith("No case has a score: metric_list of t is empty")
    assert run_here(command("right", "--predict-only"), lab).returncode == 0
    checked = run_here(["check", "t.yaml"], lab)
    assert checked.returncode == 1, checked.stdout
    assert "metric_list" in checked.stdout
    write_task(lab, "process_results: !function u.nothing\nmetric_list: []")
    assert run_here(["check", "t.yaml"], lab).returncode == 0


def write_sample(lab: Path) -> None:
    """One sample of a memory evaluation."""
    (lab / "data").mkdir()
    (lab / "data" / "s1.json").write_text(json.dumps(sample("number 0", sessions=1)))


def memory_eval(model: str, *more: str) -> list[str]:
    """The command of a memory evaluation with a function of model.py."""
    words = ["memory", "eval", "--dataset", "data", "--baseline", "bm25", "--output-dir", "out"]
    return [*words, "--model", f"python/model.py:{model}", *more]


def test_zeros_that_no_judge_gave_are_no_verdicts_of_a_judge_that_replies_junk(lab: Path) -> None:
    """The answers cite nothing, so their evidence is 0 without a judge."""
    write_sample(lab)
    ended = run_here(memory_eval("right", "--judge", "python/model.py:junk"), lab)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    told = ended.stderr.splitlines()[-1]
    assert told.startswith("No verdict of the judge is valid: all ")
    assert "the reply has no JSON object: 'Hard to say.'" in told


NO_ANSWER = f"No case has an answer, all {ROWS} failed: KeyError: 'text' at model.py:{line_of('raise KeyError', MODEL)}"


def test_no_number_stands_for_a_model_that_never_answered(lab: Path) -> None:
    """In the table, summary.json, `runs`, the report for the browser, SQL and the CSV of the export."""
    write_task(lab, PLAIN)
    ended = run_here(command("broken"), lab)
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1] == f"{NO_ANSWER}. Exit code 1"
    row = next(line for line in ended.stdout.splitlines() if "exact_match" in line)
    assert "0.000" not in row
    assert f"{ROWS} no answer" in row
    (summary,) = lab.glob("out/assay/*/summary.json")
    (entry,) = json.loads(summary.read_text())["report"]["entries"]
    (metric,) = entry["metrics"]
    assert metric["value"] is None
    assert (metric["denominator"], metric["left_out"]) == (0, {"no answer": ROWS})
    assert "0.000" not in run_here(["runs", "out"], lab).stdout
    assert "0.000" not in run_here(["show", "out"], lab).stdout
    query = ["sql", "select value, denominator from metrics", "out", "--format", "json"]
    assert json.loads(run_here(query, lab).stdout) == [{"value": None, "denominator": 0}]
    assert run_here(["export", "out", "--to", "csv", "--output", "out.csv"], lab).returncode == 0
    with (lab / "out.csv").open() as file:
        assert [row["exact_match,none"] for row in csv.DictReader(file)] == [""] * ROWS
    assert run_here(["report", "out", "--output", "report.html"], lab).returncode == 0
    page = (lab / "report.html").read_text()
    assert "no answer" in page
    assert f"0/{ROWS}" not in page


@pytest.mark.parametrize("requirement", ["exact_match >= 0.0", "exact_match <= 0.5"])
@pytest.mark.parametrize("more", [[], ["--point"]])
def test_a_gate_does_not_pass_a_run_without_an_answer(lab: Path, requirement: str, more: list[str]) -> None:
    write_task(lab, PLAIN)
    run_here(command("broken"), lab)
    gate = run_here(["gate", "out", "--require", requirement, *more], lab)
    assert gate.returncode == 4, gate.stdout
    assert "not measured: no case has an answer" in gate.stdout


def test_a_run_without_an_answer_did_not_keep_the_level_of_another_one(lab: Path) -> None:
    write_task(lab, PLAIN)
    for folder in ("before", "out"):
        run_here(command("broken", "--output-dir", folder), lab)
    gate = run_here(["gate", "out", "--against", "before", "--max-drop", "0.5", "--point"], lab)
    assert gate.returncode == 4, gate.stdout + gate.stderr
    assert "not measured: no case has an answer" in gate.stdout


def test_a_memory_whose_model_never_answered_made_up_no_answers(lab: Path) -> None:
    """What the memory stored is measured all the same."""
    write_sample(lab)
    ended = run_here(memory_eval("broken", "--judge", "offline"), lab)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    (entry,) = (assay.load(str(lab / "out")).report or Report()).entries
    values = {metric.name: metric.value for metric in entry.metrics}
    assert values["answer_hallucination"] is values["answer"] is values["f1"] is None
    assert values["recall"] is not None
    assert all(metric.value is None for part in entry.slices for metric in part.metrics)


def test_a_python_run_without_an_answer_says_so_when_it_is_printed(lab: Path) -> None:
    def answer(row: dict[str, str]) -> str:
        return row["txet"]

    rows = [{"question": "a", "answer": "yes"}]
    run = assay.evaluate(
        rows, answer=answer, score="exact_match", target="answer", output_dir=str(lab / "out"), quiet=True
    )
    line = answer.__code__.co_firstlineno + 1
    told = f"No case has an answer, the only one failed: KeyError: 'txet' at test_no_score.py:{line}. Exit code 1"
    assert str(run).splitlines()[-1] == told
    assert run["exact_match"].value is None


def test_one_task_of_several_without_a_score_is_named_and_the_code_stays_0(lab: Path) -> None:
    write_task(lab, PLAIN)
    write_task(lab, f"process_results: !function u.fails\n{ACC}", "t_pr")
    tasks = ("t.yaml", "t_pr.yaml")
    ended = run_here(command("right", tasks=tasks), lab)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    told = f"t_pr has no score: ValueError: no at u.py:{line_of('raise ValueError', CODE)}. Exit code 0"
    assert ended.stderr.splitlines()[-1] == told
    assert run_here(command("right", "--quiet", tasks=tasks), lab).stderr.splitlines() == [told]


def test_one_memory_of_several_without_a_score_is_named_and_the_code_stays_0(lab: Path) -> None:
    write_sample(lab)
    (lab / "own.py").write_text(RAISING)
    ended = run_here(memory_eval("right", "--judge", "offline", "--baseline", "own.py:Own"), lab)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    told = ended.stderr.splitlines()[-1]
    assert " has no score: " in told
    assert told.endswith(f"KeyError: 'text' at own.py:{line_of('raise KeyError', RAISING)}. Exit code 0")


BOOM = """\
def boom(prompt, params):
    raise RuntimeError("judge broke")
"""


def test_a_judge_of_ones_own_that_raises_is_named_with_its_line(lab: Path) -> None:
    """Repeating the command cannot help before the code is corrected."""
    write_task(lab, PLAIN)
    (lab / "jm.py").write_text(BOOM)
    words = command("right", "--judge", "python/jm.py:boom")
    ended = run_here(words, lab)
    assert ended.returncode == 3
    told = "The code of the judge raised RuntimeError: judge broke (jm.py:2). Correct it"
    assert ended.stderr.splitlines()[-1].startswith(told)
    (quiet,) = run_here([*words, "--quiet"], lab).stderr.splitlines()
    assert told in quiet
    (lab / "jm.py").write_text(MODEL.replace("def right", "def boom").replace('"yes"', 'repr({"label": 1})'))
    assert "raised" not in run_here(words, lab).stderr


def test_nothing_is_calibrated_by_a_judge_without_a_verdict(lab: Path) -> None:
    (lab / "jm.py").write_text(BOOM)
    labels = [{"question": "a?", "reference": "b", "response": "b", "label": right} for right in (True, False)]
    write_docs(lab / "labels.jsonl", labels)
    words = ["judge", "calibrate", "--labels", "labels.jsonl", "--judge", "python/jm.py:boom"]
    ended = run_here([*words, "--output-dir", "out"], lab)
    assert ended.returncode == 3
    assert "calibrated: no kappa" not in ended.stdout
    assert "not calibrated: the judge gave no valid verdict on labels.jsonl" in ended.stdout
    assert "jm.py:2" in ended.stderr.splitlines()[-1]
