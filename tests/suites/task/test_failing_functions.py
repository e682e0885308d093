"""`!function`: errors for missing and failing code, and the effect of changed code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from assay.store.cases import RunCases

from support.commands import environment
from support.task_project import FOUR, Fn, TaskProject, refused

# What is asked
PLACES: dict[str, dict[str, Any]] = {
    "doc_to_text": {"doc_to_text": Fn("utils.broken")},
    "doc_to_target": {"doc_to_target": Fn("utils.broken")},
    "process_docs": {"process_docs": Fn("utils.broken")},
    "process_results": {"process_results": Fn("utils.broken")},
    "metric_list": {"metric_list": [{"metric": Fn("utils.broken")}]},
    "aggregation": {"metric_list": [{"metric": "exact_match", "aggregation": Fn("utils.broken")}]},
    "filter_list": {
        "filter_list": [
            {"name": "f", "filter": [{"function": "custom", "filter_fn": Fn("utils.broken")}]},
        ]
    },
    "samples": {"num_fewshot": 1, "fewshot_config": {"samples": Fn("utils.broken")}},
    "custom_dataset": {"custom_dataset": Fn("utils.broken")},
}


def renamed(value: Any) -> Any:
    """The same settings with a module that nobody has."""
    if isinstance(value, dict):
        return {key: renamed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [renamed(item) for item in value]
    return Fn("nowhere_at_all.broken") if isinstance(value, Fn) else value


@pytest.mark.parametrize("place", PLACES)
def test_a_missing_module_is_an_error_before_the_first_request(lab: TaskProject, place: str) -> None:
    """The message has the file that was looked for."""
    match = r"t.yaml:\d+ [^ ]*: !function nowhere_at_all.broken: there is no file nowhere_at_all.py and no module"
    refused(lab, match, **renamed(PLACES[place]))


@pytest.mark.parametrize("place", PLACES)
def test_a_missing_function_is_an_error_before_the_first_request(lab: TaskProject, place: str) -> None:
    """The message has the file that lacks it."""
    lab.write("utils.py", "broken = 5\n")
    match = r"^t.yaml:\d+ [^ ]*: !function utils.broken: utils.py has no function 'broken'"
    refused(lab, match, **PLACES[place])


@pytest.mark.parametrize("place", PLACES)
def test_a_module_that_raises_is_an_error_before_the_first_request(lab: TaskProject, place: str) -> None:
    """The message has the exception."""
    lab.write("utils.py", "raise KeyError('no luck')\n")
    refused(
        lab,
        r"^t.yaml:\d+ [^ ]*: !function utils.broken: .*importing it raised KeyError: 'no luck'",
        **PLACES[place],
    )


@pytest.mark.parametrize("place", ["doc_to_text", "doc_to_target", "process_docs", "samples", "custom_dataset"])
def test_a_function_that_raises_on_the_first_document_is_an_error_before_the_first_request(
    lab: TaskProject, place: str
) -> None:
    """The message has the key and the exception."""
    lab.write("utils.py", "def broken(*given, **named):\n    raise KeyError('no luck')\n")
    refused(lab, rf"t.yaml:\d+ .*{place}.*KeyError: 'no luck'", **PLACES[place])


def test_a_function_needs_a_module(lab: TaskProject) -> None:
    """`!function name` without a module is an error."""
    refused(lab, r"t.yaml:\d doc_to_text: !function broken: expected module.name", doc_to_text=Fn("broken"))


def test_a_function_where_none_belongs_is_refused(lab: TaskProject) -> None:
    """Settings that cannot be a function report it."""
    refused(lab, r"t.yaml:\d+ repeats: !function utils.n is not allowed here", repeats=Fn("utils.n"))
    where = {"until": [Fn("utils.n")]}
    refused(lab, r"generation_kwargs.until.0: !function utils.n is not allowed", generation_kwargs=where)


def test_a_filter_class_without_apply_is_refused(lab: TaskProject) -> None:
    """Before the first request."""
    lab.write("utils.py", "class Bad:\n    pass\n")
    chain = [{"function": Fn("utils.Bad")}]
    refused(
        lab,
        r"filter_list.0.filter.0: !function utils.Bad: expected a class with a method apply",
        filter_list=[{"name": "f", "filter": chain}],
    )


@pytest.mark.parametrize("place", ["doc_to_text", "doc_to_target"])
def test_a_document_on_which_code_raises_fails_alone(lab: TaskProject, place: str) -> None:
    """The others are requested and scored; the row has the reason and the document's place."""
    lab.write("utils.py", "def broken(doc):\n    return {'1': '1', '3': '3', '4': '4'}[doc['q']]\n")
    lab.task(docs=FOUR, **PLACES[place])
    result = lab.run()
    assert (result.run.exit_code, result.run.summary.infra_error) == (2, 1)
    assert result.metric("exact_match").denominator == 3
    assert result.metric("exact_match").left_out == {"bad data": 1}
    error = result.rows()[1]["error"]
    assert "!function utils.broken raised KeyError: '2'" in error
    assert "t.jsonl:2" in error
    assert result.results["t"]["exact_match,none"] == 1.0


@pytest.mark.parametrize(
    "code",
    [
        {"process_results": Fn("utils.grade"), "metric_list": [{"metric": "m"}]},
        {"metric_list": [{"metric": Fn("utils.m")}]},
        {
            "filter_list": [{"name": "none", "filter": [{"function": "custom", "filter_fn": Fn("utils.f")}]}],
            "metric_list": [{"metric": Fn("utils.fine")}],
        },
    ],
)
def test_a_document_on_which_scoring_raises_loses_its_score_alone(lab: TaskProject, code: dict[str, Any]) -> None:
    """Its reply is kept, its row has the error, and the mean covers the other documents."""
    lab.write(
        "utils.py",
        "def m(references, predictions):\n    return 1 / (int(predictions[0]) - 2)\n"
        "def grade(doc, results):\n    return {'m': m(None, results)}\n"
        "def fine(references, predictions):\n    return predictions[0]\n"
        "def f(resps, docs):\n    return [m(None, each) for each in resps]\n",
    )
    lab.task(docs=FOUR, **code)
    result = lab.run()
    name = "fine" if "filter_list" in code else "m"
    assert result.run.summary.ok == 4
    assert result.metric(name).denominator == 3
    assert result.metric(name).left_out == {"invalid": 1}
    assert "ZeroDivisionError: division by zero" in result.rows()[1]["error"]
    assert result.rows()[1]["resps"] == [["2"]]
    # A filter that raised has no answers. If a metric raised, they show what it got.
    assert result.rows()[1]["filtered_resps"] == ([] if "filter_list" in code else ["2"])
    assert result.results["t"][f"{name},none"] == pytest.approx((-1 + 1 + 0.5) / 3)


def test_an_aggregation_that_raises_costs_its_number_alone(lab: TaskProject) -> None:
    """The other numbers and the rows are written; the report has the error."""
    lab.write("utils.py", "def bad(values):\n    raise ValueError('no luck')\n")
    metrics = [{"metric": "exact_match"}, {"metric": "acc", "aggregation": Fn("utils.bad")}]
    lab.write("grade.py", "def grade(doc, results):\n    return {'exact_match': 1.0, 'acc': 1.0}\n")
    lab.task(docs=FOUR, process_results=Fn("grade.grade"), metric_list=metrics)
    result = lab.run()
    assert result.results["t"]["exact_match,none"] == 1.0
    assert result.results["t"]["acc,none"] is None
    assert result.metric("acc").reason == "!function utils.bad raised ValueError: no luck at utils.py:2"
    assert len(result.rows()) == 4


@pytest.mark.parametrize("aggregation", ["f1", "weighted_perplexity", "brier_score"])
def test_a_built_in_aggregation_may_get_values_it_cannot_use(lab: TaskProject, aggregation: str) -> None:
    """`process_results` may return anything; the other numbers are written."""
    lab.write("grade.py", "def grade(doc, results):\n    return {'acc': 1.0, 'v': 1.0}\n")
    metrics = [{"metric": "acc"}, {"metric": "v", "aggregation": aggregation}]
    lab.task(docs=FOUR, process_results=Fn("grade.grade"), metric_list=metrics)
    result = lab.run()
    assert (result.results["t"]["acc,none"], result.results["t"]["v,none"]) == (1.0, None)
    assert result.metric("v").reason.startswith(f"{aggregation} raised TypeError: ")


def test_a_document_without_a_value_of_process_results_is_left_out(lab: TaskProject) -> None:
    """The report counts it as not scored."""
    lab.write("grade.py", "def grade(doc, results):\n    return {'v': 1.0} if doc['q'] < '2' else {}\n")
    lab.task(docs=FOUR, process_results=Fn("grade.grade"), metric_list=[{"metric": "v"}])
    result = lab.run().metric("v")
    assert (result.denominator, result.left_out) == (1, {"not scored": 3})


def test_nanmean_ignores_nan(lab: TaskProject) -> None:
    """Rows show NaN as the harness writes it; `mean` reports it as invalid."""
    lab.write(
        "grade.py",
        "def grade(doc, results):\n"
        "    value = float('nan') if doc['q'] == '2' else float(doc['q'])\n"
        "    return {'v': value, 'w': value}\n",
    )
    metrics = [{"metric": "v", "aggregation": "nanmean"}, {"metric": "w"}]
    lab.task(docs=FOUR, process_results=Fn("grade.grade"), metric_list=metrics)
    result = lab.run()
    assert result.results["t"]["v,none"] == pytest.approx(8 / 3)
    assert '"v": NaN' in result.run.files[1].read_text().splitlines()[1]
    assert result.metric("w").left_out == {"invalid": 1}


def test_a_number_too_large_costs_one_score(lab: TaskProject) -> None:
    """Python integers are unlimited; floats and JSON are not."""
    lab.write(
        "utils.py",
        "def m(references, predictions):\n    return 10 ** (400 if predictions == ['2'] else 30)\n",
    )
    lab.task(docs=FOUR, metric_list=[{"metric": Fn("utils.m")}])
    result = lab.run()
    assert result.metric("m").left_out == {"invalid": 1}
    assert result.results["t"]["m,none"] == pytest.approx(1e30)


def test_a_type_error_of_a_metric_is_reported(lab: TaskProject) -> None:
    """Not the second error, from the call in the older form."""
    lab.write("utils.py", "def m(references, predictions):\n    return len(5)\n")
    lab.task(docs=FOUR, metric_list=[{"metric": Fn("utils.m")}])
    assert "object of type 'int' has no len()" in lab.run().rows()[0]["error"]


# Code that ends the program


ENDING = """
import sys

def leave(*given, **named):
    sys.exit(0)

def leave_on_two(text):
    if text == "2":
        sys.exit(0)
    return 1.0

def text(doc):
    leave_on_two(doc["q"])
    return doc["q"]

def grade(doc, results):
    return {"m": leave_on_two(results[0])}

def m(references, predictions):
    return leave_on_two(predictions[0])

def f(resps, docs):
    return [[str(leave_on_two(each[0]))] for each in resps]

def rows(data):
    for row in data:
        leave_on_two(row["q"])
        yield row

class Filter:
    def __init__(self):
        sys.exit(0)
"""


@pytest.mark.parametrize("place", ["doc_to_target", "process_docs", "samples", "custom_dataset"])
def test_sys_exit_before_the_first_request_is_an_error_of_the_task(lab: TaskProject, place: str) -> None:
    """The place is reported, and the exit code is not 0."""
    lab.write("utils.py", ENDING.replace("def leave(", "def broken("))
    refused(lab, rf"t.yaml:\d+ .*{place}.*SystemExit: 0", **PLACES[place])


def test_sys_exit_in_a_generator_and_in_a_filter_class_is_an_error_of_the_task(lab: TaskProject) -> None:
    """A generator's code runs while its rows are read, a filter's constructor when the task is read."""
    lab.write("utils.py", ENDING)
    refused(lab, r"t.yaml:\d+ process_docs: rows: SystemExit: 0", process_docs=Fn("utils.rows"))
    chain = [{"name": "f", "filter": [{"function": Fn("utils.Filter")}]}]
    refused(lab, r"filter_list.0.filter.0: 0", filter_list=chain)


def test_sys_exit_on_one_document_costs_that_document(lab: TaskProject) -> None:
    """The others are asked; the failure carries the traceback of the user's file."""
    lab.write("utils.py", ENDING)
    lab.task(docs=FOUR, doc_to_text=Fn("utils.text"))
    result = lab.run()
    assert (result.run.exit_code, result.run.summary.infra_error) == (2, 1)
    assert "!function utils.text raised SystemExit: 0" in result.rows()[1]["error"]
    (failure,) = [case.end.failure for case in RunCases(result.run.folder) if case.end.failure]
    assert "in leave_on_two\n    sys.exit(0)" in failure.traceback


@pytest.mark.parametrize(
    "code",
    [
        {"process_results": Fn("utils.grade"), "metric_list": [{"metric": "m"}]},
        {"metric_list": [{"metric": Fn("utils.m")}]},
        {
            "filter_list": [{"name": "none", "filter": [{"function": "custom", "filter_fn": Fn("utils.f")}]}],
            "metric_list": [{"metric": Fn("utils.m")}],
        },
    ],
)
def test_sys_exit_in_scoring_costs_one_score(lab: TaskProject, code: dict[str, Any]) -> None:
    """The others are scored, and the score that is missing carries the traceback."""
    lab.write("utils.py", ENDING)
    lab.task(docs=FOUR, **code)
    result = lab.run()
    assert (result.metric("m").denominator, result.metric("m").left_out) == (3, {"invalid": 1})
    assert "SystemExit: 0" in result.rows()[1]["error"]


def test_sys_exit_in_an_aggregation_costs_its_number(lab: TaskProject) -> None:
    """The run is finished, and the number is not measured."""
    lab.write("utils.py", ENDING)
    lab.task(docs=FOUR, metric_list=[{"metric": "exact_match", "aggregation": Fn("utils.leave")}])
    result = lab.run()
    assert result.metric("exact_match").reason == "!function utils.leave raised SystemExit: 0 at utils.py:5"


# What changed code means


def again(lab: TaskProject) -> dict[str, Any]:
    """`assay task` as a process of its own, so that changed Python is read anew: what the run says of itself."""
    command = [sys.executable, "-m", "assay", "task", "t.yaml", "--model", "python/model.py:echo"]
    done = subprocess.run(
        [*command, "--output-dir", "out", "--quiet"],
        cwd=lab.folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    folders = sorted(Path("out/assay").iterdir())
    summaries = [json.loads((folder / "summary.json").read_text()) for folder in folders]
    return {"runs": len(folders), "last": summaries[-1]}


def test_changed_scoring_code_scores_again_and_changed_prompt_code_starts_a_new_run(lab: TaskProject) -> None:
    """Scoring again sends no request."""
    lab.write("score.py", "def grade(doc, results):\n    return {'m': 1.0}\n")
    lab.write("ask.py", "def text(doc):\n    return doc['q']\n")
    lab.task(
        docs=FOUR,
        doc_to_text=Fn("ask.text"),
        process_results=Fn("score.grade"),
        metric_list=[{"metric": "m"}],
    )
    first = again(lab)
    assert first["last"]["report"]["entries"][0]["metrics"][0]["value"] == 1.0
    lab.write("score.py", "def grade(doc, results):\n    return {'m': 0.5}\n")
    second = again(lab)
    assert second["runs"] == 1
    assert second["last"]["report"]["entries"][0]["metrics"][0]["value"] == 0.5
    assert second["last"]["this_start"]["paid"] == 0
    lab.write("ask.py", "def text(doc):\n    return doc['q'] + '?'\n")
    assert again(lab)["runs"] == 2


@pytest.mark.parametrize(
    ("imported", "helper"),
    [
        ("from helper import said", "helper.py"),
        ("import helper as h\nsaid = h.said", "helper.py"),
        ("from pack.deep import said", "pack/deep.py"),
        ("from pack import said", "pack/deep.py"),
        (
            "try:\n    from ...pack import nothing\nexcept ImportError:\n    from pack import said",
            "pack/deep.py",
        ),
    ],
)
def test_a_changed_helper_is_changed_code(lab: TaskProject, imported: str, helper: str) -> None:
    """A file that the code imports is part of the code."""
    lab.write("pack/__init__.py", "from .deep import said\n")
    lab.write("pack/deep.py", "said = '?'\n")
    lab.write("helper.py", "said = '?'\n")
    lab.write("ask.py", f"import json\n{imported}\n\ndef text(doc):\n    return doc['q'] + said\n")
    lab.task(docs=FOUR, doc_to_text=Fn("ask.text"))
    again(lab)
    lab.write("unrelated.py", "said = '!'\n")
    assert again(lab)["runs"] == 1
    lab.write(helper, "said = '!'\n")
    assert again(lab)["runs"] == 2
