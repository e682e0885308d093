"""`assay check` reads code and the names of models, and finds what a run would trip over. It runs neither."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conftest import Assay
from support.pipeline_project import typed
from support.task_project import as_yaml

Captured = pytest.CaptureFixture[str]
NO_ENTRY = "it defines no function to call; define one of aggregate, transform, process_data, main, execute"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder of the test."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def problems(capsys: Captured, *words: str) -> list[str]:
    """Check a file and return level, place and message of its problems."""
    (check,) = json.loads(typed(capsys, "check", *words, "--json").out)
    return [f"{each['level']} {Path(each['where']).name}: {each['message']}" for each in check["problems"]]


def code_step(source: str, **keys: Any) -> str:
    """Return a pipeline of one code step."""
    return as_yaml({"inputs": ["n"], "steps": [{"id": "s", "type": "code", "code": source, **keys}]})


@pytest.mark.parametrize(
    ("source", "language"),
    [
        ("x = 1", "python"),
        ("open('ran', 'w')\ndef run(n): return n", "python"),
        ("", "python"),
        ("const x = 1", "javascript"),
        ("function run(n) { return n }", "javascript"),
    ],
)
def test_code_without_a_function_to_call_is_found(capsys: Captured, source: str, language: str) -> None:
    Path("p.yaml").write_text(code_step(source, language=language))
    (problem,) = problems(capsys, "p.yaml")
    assert problem.startswith("error p.yaml:")
    assert problem.endswith(NO_ENTRY)
    assert not Path("ran").exists()


@pytest.mark.parametrize(
    ("source", "language"),
    [
        ("def main(n): return n", "python"),
        ("main = lambda n: n", "python"),
        (
            "try:\n    from fast import transform\nexcept ImportError:\n    async def transform(n): ...",
            "python",
        ),
        ("from helper import *", "python"),
        ("globals()['ma' + 'in'] = len", "python"),
        ("const main = (n) => n", "javascript"),
        ("module.exports = (n) => n", "javascript"),
        ("globalThis['ma' + 'in'] = (n) => n", "javascript"),
    ],
)
def test_code_that_may_define_a_function_is_fine(capsys: Captured, source: str, language: str) -> None:
    Path("p.yaml").write_text(code_step(source, language=language))
    assert problems(capsys, "p.yaml") == []


def test_a_code_file_and_an_aggregation_without_a_function_are_named(capsys: Captured) -> None:
    Path("n.py").write_text("x = 1\n")
    steps = [
        {"id": "a", "type": "code", "code_file": "n.py"},
        {"id": "b", "type": "aggregate", "strategy": "custom", "code": "y = 2"},
    ]
    Path("p.yaml").write_text(as_yaml({"inputs": ["n"], "steps": steps}))
    first, second = problems(capsys, "p.yaml")
    assert first == f"error n.py: {NO_ENTRY}"
    assert second.startswith("error p.yaml:")


MODELS = [
    ("python/nofile.py:f", "there is no file 'nofile.py'"),
    ("python/model.py:repyl", "model.py has no function 'repyl'; did you mean 'reply'?"),
    ("python/model.py", "names no function: write python/FILE.py:function"),
    ("script/nofile.jsonl", "there is no file 'nofile.jsonl'"),
    ("python/model.py:reply", ""),
    ("script/replies.jsonl", ""),
    ("openai/nofile.py:f", ""),
]


@pytest.mark.parametrize(("model", "message"), MODELS)
@pytest.mark.parametrize("place", ["settings", "step", "variant", "test"])
def test_a_model_whose_file_or_function_does_not_exist_is_found(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured, place: str, model: str, message: str
) -> None:
    """In the working folder, or in a folder above the file: there the command of a run may be typed."""
    Path("model.py").write_text("open('ran', 'w')\ndef reply(prompt, params): return 'hi'\n")
    Path("replies.jsonl").write_text('{"text": "hi"}\n')
    Path("sub").mkdir()
    step: dict[str, Any] = {"id": "s", "template": "{{ n }}"}
    pipeline: dict[str, Any] = {"inputs": ["n"], "steps": [step]}
    words = ["sub/p.yaml"]
    if place == "settings":
        words = ["sub/settings.yaml"]
        settings = {"llms": {"one": {"model": model}}, "profiles": {"a": {"run": "one"}}}
        Path(words[0]).write_text(as_yaml(settings))
    elif place == "step":
        step["model"] = model
    elif place == "variant":
        pipeline["variants"] = {"v": {"overrides": {"s": {"model": model}}}}
    else:
        test = {"id": "t", "inputs": {"n": "1"}, "step_inputs": {"s": {"model": model}}}
        Path("sub/p_basic.jsonl").write_text(json.dumps(test) + "\n")
        words = ["sub/p_basic.jsonl", "--pipeline", "sub/p.yaml"]
    Path("sub/p.yaml").write_text(as_yaml(pipeline))
    for folder in (here, here / "sub"):
        monkeypatch.chdir(folder)
        words = [word.removeprefix("sub/") if folder.name == "sub" else word for word in words]
        errors = [problem for problem in problems(capsys, *words) if problem.startswith("error")]
        assert len(errors) == bool(message)
        assert message in "".join(errors)
    assert not (here / "ran").exists()


def test_a_testset_that_needs_allow_code_says_so(capsys: Captured) -> None:
    """Code of a test, and a Python function as its model. The run is refused without the flag."""
    Path("model.py").write_text("def reply(prompt, params): return 'hi'\n")
    steps = [{"id": "s", "template": "{{ n }}"}, {"id": "c", "type": "code", "code": "def main(n): return n"}]
    Path("p.yaml").write_text(as_yaml({"inputs": ["n"], "steps": steps}))
    tests = [
        {"id": "plain", "inputs": {"n": "1"}},
        {"id": "a", "inputs": {"n": "1"}, "step_inputs": {"s": {"model": "python/model.py:reply"}}},
        {"id": "b", "inputs": {"n": "1"}, "step_inputs": {"c": {"code": "def main(n): return 2"}}},
    ]
    Path("p_basic.jsonl").write_text("".join(json.dumps(test) + "\n" for test in tests))
    done = typed(capsys, "check", "p_basic.jsonl")
    assert done.code == 0
    assert "a run needs --allow-code: code, or a Python function as model, in 2 tests (the first: " in done.out
    run = ("pipeline", "p.yaml", "--testset", "p_basic.jsonl", "--model", "python/model.py:reply")
    assert typed(capsys, *run).code == 2
    assert typed(capsys, *run, "--allow-code").code == 0


def test_a_template_with_a_missing_column_is_found_beside_code_that_only_scores(sums: Path, assay_in: Assay) -> None:
    """The first document is built as the run builds it; the metric in Python is not imported."""
    (sums / "own.py").write_text("raise SystemExit('imported')\n\n\ndef near(references, predictions): ...\n")
    text = (sums / "sums.yaml").read_text()
    metric = "metric_list:\n  - {metric: !function own.near, aggregation: mean, higher_is_better: true}\n"
    changed = text.replace("metric_list:\n", metric).replace("{{question}}", "{{note}}")
    (sums / "sums.yaml").write_text(changed)
    refused = assay_in("task", "sums.yaml", "--model", "python/model.py:answer", "--predict-only")
    message = "sums.yaml:5 doc_to_text: the template is refused: 'note' is undefined; the document has"
    assert message in refused.stderr
    for path in ("sums.yaml", "."):
        checked = assay_in("check", path)
        assert checked.returncode == 1, checked.stdout
        assert message in checked.stdout
