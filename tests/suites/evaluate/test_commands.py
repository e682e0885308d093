"""Runs of `assay.evaluate` on the command line, with a real model, and in a notebook."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

import assay

from conftest import Assay

ROWS = [{"q": letter, "a": letter.upper()} for letter in "abcd"]


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def answer(prompt: str) -> str:
    return prompt[-1].upper() if "nice" in prompt or prompt[-1] in "ab" else "?"


def test_commands_read_a_run_of_a_program(assay_in: Assay) -> None:
    """`show`, `runs` and `compare` need no program; `rescore` says why it cannot do without."""
    prompts = {"plain": "{{ q }}", "nice": "nice {{ q }}"}
    run = assay.evaluate(ROWS, model=answer, prompt=prompts, score="exact_match", target="a", name="letters")
    listed = assay_in("runs").stdout
    assert "evaluate letters" in listed
    assert "plain exact_match 0.5000; nice exact_match 1.0000" in listed
    failed = assay_in("show", "results", "--failed").stdout
    assert re.search(r"^ +4 +3 +plain +✗ +c +C +\?$", failed, re.MULTILINE)
    case = assay_in("show", "results", "@4").stdout
    assert '"q": "c"' in case
    assert "exact_match: 0" in case
    compared = assay_in("compare", f"{run.folder}@plain", f"{run.folder}@nice").stdout
    assert "+0.5000" in compared
    refused = assay_in("rescore", "results")
    assert refused.returncode == 2
    assert "scored by functions of a Python program" in refused.stderr


def test_the_embedded_model_is_evaluated(weights: Path) -> None:
    """A real model, asked with a prompt; its replies are logged and not asked for a second time."""
    rows = [
        {"question": "What is the capital of France?", "answer": "Paris"},
        {"question": "2+2?", "answer": "4"},
    ]

    def contains(answer: str, target: str) -> bool:
        return target in answer

    for paid in (2, 0):
        run = assay.evaluate(
            rows,
            model="local/smollm2",
            prompt="Answer in one word. {{ question }}",
            gen_kwargs={"temperature": 0, "max_tokens": 16},
            score=[contains, lambda answer: len(answer) + 0],
            target="answer",
        )
        assert run.summary.this_start.get("paid") == paid or not run.asked
    assert next(run.cases()).scores["contains"].value == 1
    assert run.summary.spent.calls == 2


RUN = "assay.evaluate(rows, answer=double, score='exact_match', target='want', quiet=True)"
PRINT = "print(run['exact_match'].value, calls)"
CELLS = [
    "import assay\nFACTOR = 2\nrows = [{'n': 1, 'want': 2}, {'n': 2, 'want': 4}]\ncalls = 0",
    "def double(n):\n    global calls\n    calls += 1\n    return n * FACTOR",
    f"run = {RUN}\n{PRINT}",
    f"run = {RUN}\n{PRINT}",
    f"FACTOR = 3\nrun = {RUN}\n{PRINT}",
    "def double(n):\n    global calls\n    calls += 1\n    return n + n  # another cell, another body",
    f"run = await {RUN.replace('evaluate', 'aevaluate')}\n{PRINT}",
]


def test_a_function_that_is_redefined_in_a_notebook_is_asked_again(tmp_path: Path) -> None:
    """In a real kernel, whose event loop runs: nothing is stale and nothing is asked without need."""
    from nbclient import NotebookClient

    make: Any = importlib.import_module("nbformat.v4")  # it has no types
    notebook = make.new_notebook(cells=[make.new_code_cell(cell) for cell in CELLS])
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    printed = [output.text.strip() for cell in notebook.cells for output in cell.outputs if output.name == "stdout"]
    assert printed == ["1.0 2", "1.0 2", "0.0 4", "1.0 6"]
