"""Settings of task files that would silently give other numbers: `assay check` and the run tell them."""

from __future__ import annotations

from typing import Any

import pytest

from assay.core.errors import InputError
from assay.suites.task.suite import TaskSuite

from conftest import Assay
from support.suite_files import problems_in
from support.task_project import Fn, TaskProject, docs_of

TWO = docs_of("a=A", "b=b")


def generation(**kwargs: Any) -> dict[str, Any]:
    return {"generation_kwargs": kwargs}


STRICT, LOOSE = {"metric": "exact_match"}, {"metric": "exact_match", "ignore_case": True}


def warnings(lab: TaskProject) -> list[str]:
    """The warnings of `assay check`; other problems fail the test."""
    problems = problems_in(lab.folder / "t.yaml")
    assert {problem.level for problem in problems} <= {"warning"}
    return [problem.message for problem in problems]


def test_of_two_metrics_of_one_name_the_last_counts_and_check_warns(lab: TaskProject) -> None:
    """The harness's results have one number for a name: it keeps the last entry, and tells nobody."""
    lab.task(docs=TWO, metric_list=[STRICT, LOOSE])
    (warning,) = warnings(lab)
    assert "this metric is not computed: metric_list.1 is named 'exact_match' too, and the last one counts" in warning
    result = lab.run()
    assert result.results["t"]["exact_match,none"] == 1.0
    assert result.run.exit_code == 0
    lab.task(docs=TWO, metric_list=[LOOSE, STRICT])
    assert lab.run().results["t"]["exact_match,none"] == 0.5


def test_a_run_prints_the_warning(sums: Any, assay_in: Assay) -> None:
    text = (sums / "sums.yaml").read_text()
    first = "metric_list:\n  - {metric: exact_match, ignore_punctuation: true}\n"
    (sums / "sums.yaml").write_text(text.replace("metric_list:\n", first))
    checked = assay_in("check", ".")  # a folder of task files
    assert "this metric is not computed" in checked.stdout + checked.stderr
    done = assay_in("task", "sums.yaml", "--model", "python/model.py:answer")
    assert done.returncode == 0, done.stderr
    assert "sums.yaml:15 metric_list.0: this metric is not computed" in done.stderr


def test_of_a_key_written_twice_the_last_counts_and_check_and_run_warn(lab: TaskProject) -> None:
    """As in the harness, which tells nobody. The key may be in an included file."""
    lab.task(docs=TWO)
    lab.write("base.yaml", "description: one\ndescription: 'two '\n")
    lab.write("t.yaml", "include: base.yaml\n" + (lab.folder / "t.yaml").read_text())
    (warning,) = warnings(lab)
    assert "key 'description' is written twice, first on line 1; the last one counts" in warning
    (notice,) = TaskSuite(lab.spec()).notices
    assert notice == f"base.yaml:2: {warning}"
    assert lab.run().prompts() == ["two a", "two b"]


def test_equal_entries_and_other_names_are_no_problem(lab: TaskProject) -> None:
    lab.write("utils.py", "def loose(references, predictions, **kwargs):\n    return 1.0\n")
    lab.task(docs=TWO, metric_list=[STRICT, {"metric": Fn("utils.loose"), "aggregation": "mean"}, STRICT])
    assert warnings(lab) == []
    assert lab.run().results["t"]["loose,none"] == 1.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_fewshot": -1}, "num_fewshot: expected at least 0, found -1"),
        (
            {"filter_list": [{"name": "f", "filter": [{"function": "take_first_k", "k": 0}]}]},
            "take_first_k: expected a k of at least 1, found 0",
        ),
        (
            {"filter_list": [{"name": "f", "filter": [{"function": "take_first_k", "k": "2"}]}]},
            "take_first_k: expected a k of at least 1, found '2'",
        ),
        (generation(temperature=float("nan")), "generation_kwargs.temperature: expected a number, found nan"),
        (generation(top_p=float("inf")), "generation_kwargs.top_p: inf is not a number of JSON"),
        (generation(max_gen_toks=-5), "generation_kwargs.max_gen_toks: expected at least 1, found -5"),
        ({"metadata": {"version": float("nan")}}, "metadata: NaN and infinity are not numbers of JSON"),
        ({"task": "  "}, "task: the name is empty"),
        ({"task": "x\0y"}, "task: a name cannot have the character NUL"),
    ],
)
def test_numbers_out_of_range_are_refused_by_check_and_by_the_run(
    lab: TaskProject, settings: dict[str, Any], message: str
) -> None:
    lab.task(docs=TWO, **settings)
    (problem,) = problems_in(lab.folder / "t.yaml")
    assert problem.level == "error"
    assert message in str(problem)
    with pytest.raises(InputError, match=message):
        lab.run()
