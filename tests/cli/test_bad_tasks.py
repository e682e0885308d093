"""Mistakes in tasks, groups and their Python: a sentence with file and key, before any request where it can be."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from conftest import Assay, write_docs
from servers.loopback import LoopbackServer, chat

CHOICES = """\
task: choices
dataset_path: json
dataset_kwargs: {data_files: {test: choices.jsonl}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{question}}"
doc_to_target: "{{label}}"
doc_to_choice: [it is, it is not]
"""
TWICE = """\
filter_list:
  - {name: a, filter: [{function: take_first}]}
  - {name: a, filter: [{function: take_first}]}
metadata:"""
OWN = """\
def question(doc):
    if doc["answer"] == "4":
        raise KeyError("this one")
    return "Q: " + doc["question"] + "\\nA:"

def results(doc, replies):
    if doc["answer"] == "4":
        raise ValueError("cannot read it")
    return {"mine": 1.0, "other": 0.5}

def documents(docs):
    raise ValueError("no documents today")

def average(values):
    raise ZeroDivisionError("nothing to divide by")

constant = 3
"""


@pytest.fixture
def folder(sums: Path) -> Path:
    """The sums, a task of choices, and Python beside them."""
    (sums / "choices.yaml").write_text(CHOICES)
    docs = [{"question": f"{n}?", "label": n % 2, "text": "yes"} for n in range(3)]
    write_docs(sums / "choices.jsonl", docs)
    (sums / "own.py").write_text(OWN)
    (sums / "broken.py").write_text("import a_module_that_is_not_there\n")
    return sums


SUMS: dict[str, tuple[str, str, list[str]]] = {
    "a function that is missing": (
        '"Q: {{question}}\\nA:"',
        "!function own.gone",
        ["sums.yaml:5 doc_to_text", "own.py has no function 'gone'"],
    ),
    "a module that is missing": (
        '"Q: {{question}}\\nA:"',
        "!function gone.question",
        ["sums.yaml:5 doc_to_text", "there is no file gone.py"],
    ),
    "a module that does not import": (
        '"Q: {{question}}\\nA:"',
        "!function broken.question",
        ["sums.yaml:5 doc_to_text", "broken.py: importing it raised ModuleNotFoundError"],
    ),
    "a function that is none": (
        '"Q: {{question}}\\nA:"',
        "!function own.constant",
        ["sums.yaml:5 doc_to_text", "has no function 'constant'"],
    ),
    "process_docs that raises": (
        "metadata:",
        "process_docs: !function own.documents\nmetadata:",
        ["sums.yaml:16 process_docs", "ValueError: no documents today"],
    ),
    "process_results that is missing": (
        "metadata:",
        "process_results: !function own.gone\nmetadata:",
        ["sums.yaml:16 process_results", "no function 'gone'"],
    ),
    "a chain that ends in a list": (
        "metadata:",
        "filter_list:\n  - name: all\n    filter: [{function: lowercase}]\nmetadata:",
        ["sums.yaml:17 filter_list.0", "the chain 'all' returns a list", "take_first"],
    ),
    "two chains of one name": (
        "metadata:",
        TWICE,
        ["sums.yaml:18 filter_list.1.name", "two chains are named 'a'"],
    ),
    "a regex of a metric that does not compile": (
        "ignore_case: true",
        'regexes_to_ignore: ["("]',
        ["sums.yaml:15 metric_list.0", "'(' is not a regular expression"],
    ),
    "a data set by name": (
        "dataset_path: json\ndataset_kwargs: {data_files: {test: sums.jsonl}}",
        "dataset_path: openai/gsm8k\ndataset_name: main",
        ["sums.yaml:2 dataset_path", "pip install 'assay[hf]'"],
    ),
}
OF_CHOICES: dict[str, tuple[str, str, list[str]]] = {
    "a label outside the choices": (
        '"{{label}}"',
        '"{{label + 2}}"',
        ["choices.jsonl:1", "choices.yaml:7 doc_to_target", "the label 2 is outside the 2 choices"],
    ),
    "a label that is no choice": (
        '"{{label}}"',
        "text",
        ["choices.yaml:7 doc_to_target", "the label 'yes' is outside"],
    ),
    "choices that are no list": (
        "[it is, it is not]",
        '"{{text}}"',
        ["choices.jsonl:1", "choices.yaml:8 doc_to_choice", "expected a list of choices, found 'yes'"],
    ),
    "a column of choices that is no list": (
        "[it is, it is not]",
        "text",
        ["choices.yaml:8 doc_to_choice", "expected a list of choices, found 'yes'"],
    ),
    "no choices": ("[it is, it is not]", "[]", ["choices.yaml:8 doc_to_choice", "found []"]),
    "choices that YAML takes for truth": (
        "[it is, it is not]",
        "[it is, no]",
        ["choices.yaml:8 doc_to_choice", "found False; put it in quotes"],
    ),
    "choices that are no text": ("[it is, it is not]", "[1, 2]", ["choices.yaml:8 doc_to_choice", "found 1"]),
    "no doc_to_choice": (
        "doc_to_choice:",
        "description: x #",
        ["choices.yaml:1", "needs the key 'doc_to_choice'"],
    ),
    "a metric of generated text": (
        "output_type:",
        "metric_list: [{metric: bleu}]\noutput_type:",
        ["choices.yaml:5 metric_list.0", "no metric for multiple_choice named 'bleu'"],
    ),
}


@pytest.mark.parametrize(("task", "name"), [("sums", n) for n in SUMS] + [("choices", n) for n in OF_CHOICES])
def test_a_bad_task_is_refused_before_any_request(task: str, name: str, folder: Path, assay_in: Assay) -> None:
    """Exit code 2, the place and the reason; nothing is sent, nothing is written."""
    old, new, said = (SUMS if task == "sums" else OF_CHOICES)[name]
    path = folder / f"{task}.yaml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with LoopbackServer(lambda body: (200, chat("4"))) as server:
        done = assay_in(
            "task",
            path.name,
            "--model",
            "openai-completions/x",
            "--base-url",
            server.url,
            "--output-path",
            "out",
        )
    assert done.returncode == 2, done.stderr
    for part in said:
        assert done.stderr.count(part) == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert not server.bodies
    assert not (folder / "out").exists()


GROUPS: dict[str, tuple[dict[str, str], str, list[str]]] = {
    "itself": ({"g.yaml": "group: g\ntask: [g]\n"}, "g.yaml", ["g.yaml:2 task", "contains itself"]),
    "itself through another": (
        {"g.yaml": "group: g\ntask:\n  - h\n", "h.yaml": "group: h\ntask: [g]\n"},
        "g",
        ["task: this group contains itself: ", "g.yaml in ", "h.yaml"],
    ),
    "nobody": (
        {"g.yaml": "group: g\ntask:\n  - sums\n  - summs\n"},
        "g",
        ["g.yaml:4 task", "'summs'", "'sums'"],
    ),
    "nothing": ({"g.yaml": "group: g\ntask: []\n"}, "g", ["g.yaml:1 group", "has no tasks"]),
    "a task of one name in two files": (
        {"copy.yaml": ""},
        "sums",
        ["two files define 'sums'", "copy.yaml", "sums.yaml"],
    ),
}


@pytest.mark.parametrize("name", GROUPS)
def test_a_bad_group_is_refused(name: str, folder: Path, assay_in: Assay) -> None:
    """A group has tasks, and is not among its own."""
    files, asked, said = GROUPS[name]
    for file, text in files.items():
        (folder / file).write_text(text or (folder / "sums.yaml").read_text())
    done = assay_in("task", asked, "--include-path", ".", "--model", "python/model.py:answer", "--output-path", "out")
    assert done.returncode == 2, done.stderr
    for part in said:
        assert part in done.stderr
    assert not (folder / "out").exists()


PYTHON = ("--model", "python/model.py:answer", "--output-path", "out")
ENDPOINT = ("--base-url", "http://127.0.0.1:9/v1", "--output-path", "out")
USE: dict[str, tuple[tuple[str, ...], str]] = {
    "samples of a strange task": (
        ("sums.yaml", *PYTHON, "--samples", '{"nope": [1]}'),
        "--samples names 'nope', which is not among the tasks of this run",
    ),
    "samples beyond the data": (
        ("sums.yaml", *PYTHON, "--samples", '{"sums": [0, 6]}'),
        "--samples: sums has no document 6; it has 6, from 0 on",
    ),
    "samples before the data": (("sums.yaml", *PYTHON, "--samples", '{"sums": [-1]}'), "no document -1"),
    "no samples": (
        ("sums.yaml", *PYTHON, "--samples", '{"sums": []}'),
        "--samples has no document for 'sums'",
    ),
    "samples that are no JSON": (
        ("sums.yaml", *PYTHON, "--samples", "{sums: [1]}"),
        "--samples: not a JSON",
    ),
    "samples that are no lists": (("sums.yaml", *PYTHON, "--samples", '{"sums": "x"}'), "option 'samples"),
    "a samples file that is not there": (
        ("sums.yaml", *PYTHON, "--samples", "gone.json"),
        "--samples: 'gone.json' cannot be read",
    ),
    "samples and a limit": (
        ("sums.yaml", *PYTHON, "--samples", '{"sums": [1]}', "--limit", "2"),
        "--samples and --limit both select documents",
    ),
    "two seeds": (("sums.yaml", *PYTHON, "--seed", "1,2"), "--seed takes one number or four, not 2"),
    "a seed that is no number": (("sums.yaml", *PYTHON, "--seed", "1,x,3,4"), "found '1,x,3,4'"),
    "stops that are no text": (
        ("sums.yaml", *PYTHON, "--gen-kwargs", "until=3"),
        "--gen-kwargs until: expected text or a list of texts, found 3",
    ),
    "a temperature that is no number": (
        ("sums.yaml", *PYTHON, "--gen-kwargs", "temperature=hot"),
        "--gen-kwargs temperature: expected a number, found 'hot'",
    ),
    "a parameter without a value": (
        ("sums.yaml", *PYTHON, "--gen-kwargs", "top_p"),
        "--gen-kwargs: expected",
    ),
    "turns without a template": (
        ("sums.yaml", *PYTHON, "--fewshot-as-multiturn"),
        "needs --apply-chat-template",
    ),
    "likelihoods of a chat model": (
        ("choices.yaml", "--model", "openai/x", *ENDPOINT),
        "openai/x cannot do loglikelihood, which this run needs",
    ),
    "likelihoods of a function": (("choices.yaml", *PYTHON), "cannot do loglikelihood"),
    "likelihoods in a chat template": (
        ("choices.yaml", "--model", "openai-completions/x", *ENDPOINT, "--apply-chat-template"),
        "the task choices needs likelihoods",
    ),
    "a list of nothing": (("--list",), "--list found no tasks: pass the folder with --include-path DIR"),
    "a list of a folder that is not there": (("--list", "--include-path", "gone"), "'gone' is not a folder"),
    "a pattern that matches nothing": (("x*.yaml", *PYTHON), "no task file matches 'x*.yaml'"),
    "a model of the harness without a name": (
        ("sums.yaml", "--model", "local-completions", "--output-path", "out"),
        "--model local-completions needs the model's name: --model_args model=NAME",
    ),
}


@pytest.mark.parametrize("name", USE)
def test_wrong_use_is_refused_before_any_request(name: str, folder: Path, assay_in: Assay) -> None:
    """One sentence that names the option, exit code 2, and no folder."""
    arguments, said = USE[name]
    done = assay_in("task", *arguments)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not (folder / "out").exists()


def rows(folder: Path) -> list[dict[str, object]]:
    """The samples, parsed."""
    (path,) = (folder / "out").glob("*/samples_*.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def change(folder: Path, old: str, new: str) -> None:
    """The task of sums, otherwise."""
    text = (folder / "sums.yaml").read_text()
    assert old in text
    (folder / "sums.yaml").write_text(text.replace(old, new))


def test_a_function_that_raises_costs_its_document_and_is_named(folder: Path, assay_in: Assay) -> None:
    """The others are asked and scored, and both files are there; the row says which setting raised what."""
    change(folder, '"Q: {{question}}\\nA:"', "!function own.question")
    done = assay_in("task", "sums.yaml", *PYTHON)
    assert done.returncode == 2
    assert re.search(r"exact_match +0.4000 .* 2/5 +1 bad data", done.stdout)
    assert "1 of 6 cases cannot be asked because of bad data: sums.yaml:5 doc_to_text" in done.stderr
    assert "ontinue with" not in done.stderr, "the same command would meet the same document"
    assert list((folder / "out").glob("*/results_*.json"))
    assert [row["error"] for row in rows(folder) if "error" in row] == [
        (
            "bad_case: sums.yaml:5 doc_to_text: !function own.question raised KeyError: 'this one' "
            '(own.py:3: raise KeyError("this one")) (sums.jsonl:3)'
        )
    ]
    shown = assay_in("show", "out", "2").stdout
    assert "!function own.question raised KeyError: 'this one'" in shown
    assert "bad_data" in shown.splitlines()[0]


def test_process_results_that_raises_is_left_out_of_every_metric(folder: Path, assay_in: Assay) -> None:
    """It names no metric for that document, so each metric it names elsewhere says one less."""
    change(folder, "metadata:", "process_results: !function own.results\nmetadata:")
    done = assay_in("task", "sums.yaml", *PYTHON)
    assert done.returncode == 0, done.stderr
    assert re.search(r"none +mine +1.0000 .* 5 +1 invalid", done.stdout)
    assert re.search(r"none +other +0.5000 .* 5 +1 invalid", done.stdout)
    assert "exact_match" not in done.stdout
    assert "assay show out/assay/" in done.stdout, "says where the reasons are"
    assert [row["error"] for row in rows(folder) if "error" in row] == ["ValueError: cannot read it"]


def test_an_aggregation_that_raises_leaves_its_number_out(folder: Path, assay_in: Assay) -> None:
    """The replies are paid: files come out, the number is null, the reason is on the screen, and the exit code is 1."""
    change(folder, "aggregation: mean", "aggregation: !function own.average")
    done = assay_in("task", "sums.yaml", *PYTHON)
    assert done.returncode == 1, done.stdout
    assert re.search(r"none +exact_match +– ", done.stdout)
    assert "!function own.average raised ZeroDivisionError: nothing to divide by" in done.stdout
    (results,) = (folder / "out").glob("*/results_*.json")
    assert json.loads(results.read_text())["results"]["sums"]["exact_match,none"] is None
    assert len(rows(folder)) == 6


def test_a_run_and_a_check_warn_of_a_key_that_occurs_twice_in_a_row(folder: Path, assay_in: Assay) -> None:
    lines = (folder / "sums.jsonl").read_text().splitlines()
    (folder / "sums.jsonl").write_text("\n".join(['{"answer": "9", ' + lines[0][1:], *lines[1:]]) + "\n")
    message = "answer: duplicate key in one object; the last value is used"
    done = assay_in("task", "sums.yaml", *PYTHON)
    assert (done.returncode, done.stderr.count(message)) == (0, 1), done.stderr
    checked = assay_in("check", "sums.yaml")
    assert f"sums.jsonl:1: warning: {message}" in checked.stdout
