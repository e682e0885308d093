"""No file of a run has a secret, a secret damages no file, and a replay scores as the first run did."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from support.commands import TIMEOUT, Finished, environment

SECRET = 'sk-0f8fad5b"d9cb'
MODEL = f"""
SECRET = {SECRET!r}

def answer(prompt, params):
    text = prompt if isinstance(prompt, str) else prompt[-1]["content"]
    if "raise" in text:
        raise ValueError(f"cannot use {{SECRET}}")
    return {{"text": f"the response: {{SECRET}}", "reasoning": f"I saw {{SECRET}}"}}
"""
TASK = """
task: echo
dataset_path: json
dataset_kwargs: {data_files: {test: docs.jsonl}}
test_split: test
doc_to_text: "{{question}}"
doc_to_target: "{{answer}}"
metric_list: [{metric: exact_match}]
"""
PIPELINE = """
id: p
inputs: [text]
steps:
  - {id: one, template: "{{ text }}"}
  - {id: two, type: code, code: "def transform(inputs): return inputs['text']"}
outputs: [{key: said, from: one}, {key: copied, from: two}]
"""
HOP = """
async def hop_check(session, fields):
    status, found = await session.hop_get(fields["text"], fields["text"], str, verifier=None)
    return "OK", {"knows": "sk-" in str(found)}
"""
EVALUATE = """
import assay
import model

def solve(question):
    return model.answer(question, {})["text"]

rows = [{"question": f"about {line.strip()}", "expected": line.strip()} for line in open("rows.txt")]
# More records of a case than are written at once.
assay.evaluate(rows, answer=solve, score="exact_match", target="expected", repeats=70, output_dir="out")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a task, a pipeline and a program, whose data have the secret too."""
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "echo.yaml").write_text(TASK)
    right = f"the response: {SECRET}"
    docs = [{"question": f"say {SECRET}", "answer": right}, {"question": "raise", "answer": "-"}]
    docs.append({"question": "plain", "answer": right})
    (tmp_path / "docs.jsonl").write_text("".join(json.dumps(doc) + "\n" for doc in docs))
    (tmp_path / "p.yaml").write_text(PIPELINE)
    tests = [
        {
            "id": f"t{number}",
            "tags": [f"of {SECRET}"],
            "inputs": {"text": doc["question"]},
            "expected_outputs": {"said": right},
        }
        for number, doc in enumerate(docs)
    ]
    # The last one would run if the output of code were compared before it is redacted.
    tests.append({"id": "copy", "inputs": {"text": right}, "expected_outputs": {"copied": right}})
    tests.append({"id": "later", "inputs": {"text": "plain"}, "depends_on": ["copy"]})
    (tmp_path / "tests.jsonl").write_text("".join(json.dumps(test) + "\n" for test in tests))
    hoplet = tmp_path / "Check" / "Hoplet"
    hoplet.mkdir(parents=True)
    (hoplet / "Hop.py").write_text(HOP)
    rows = [
        {"id": n, "tag": f"of {SECRET}", "text": doc["question"], "expected_text": right}
        for n, doc in enumerate(docs)
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "evaluate.py").write_text(EVALUATE)
    (tmp_path / "rows.txt").write_text(f"{right}\nplain\n")
    return tmp_path


COMMANDS = {
    "task": ("-m", "assay", "task", "echo.yaml", "--model", "python/model.py:answer", "--log-samples"),
    "pipeline": (
        "-m",
        "assay",
        "pipeline",
        "p.yaml",
        "--testset",
        "tests.jsonl",
        "--model",
        "python/model.py:answer",
    ),
    "hop": ("-m", "assay", "hop", "Check", "rows.jsonl", "--model", "python/model.py:answer"),
    "evaluate": ("evaluate.py",),
}


def run(folder: Path, suite: str, variables: Mapping[str, str], out: str = "out") -> Finished:
    """Run a suite as a process with these variables."""
    output = ("--output-dir", out) if suite != "evaluate" else ()
    done = subprocess.run(
        [sys.executable, *COMMANDS[suite], *output],
        cwd=folder,
        env={**environment(), **variables},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    return Finished(done.returncode, done.stdout, done.stderr)


def written(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in folder.rglob("*")
        if path.suffix in (".json", ".jsonl", ".csv", ".xml", ".log")
    }


@pytest.mark.parametrize("suite", COMMANDS)
def test_no_file_has_the_secret_and_a_replay_scores_the_same(folder: Path, suite: str) -> None:
    """The solver and the scorers get the redacted reply at once, so the reply is never equal to the target."""
    first = run(folder, suite, {"MY_API_KEY": SECRET})
    assert "Traceback" not in first.err
    texts = written(folder / "out")
    escaped = json.dumps(SECRET)[1:-1]
    for name, text in {**texts, "stdout": first.out, "stderr": first.err}.items():
        assert SECRET not in text, name
        assert escaped not in text, name
    assert any("the response: [redacted]" in text for text in texts.values())
    if suite == "pipeline":
        tests = [json.loads(line) for line in texts["p/results.jsonl"].splitlines()]
        assert [test["result"] for test in tests] == [
            "failed",
            "errored",
            "failed",
            "failed",
            "skipped",
        ]
    if suite == "hop":
        # Its function saw the redacted reply too.
        results = texts[next(name for name in texts if name.startswith("rows_"))]
        assert "knows" in results
        assert '\\"knows\\":true' not in results.replace(" ", "")
    scores = next((folder / "out").glob("assay/*/scores.jsonl"))
    before = scores_in(scores)
    assert before
    # Without its scores, the same command scores the stored replies again.
    scores.unlink()
    again = run(folder, suite, {"MY_API_KEY": SECRET})
    assert again.code == first.code
    assert scores_in(scores) == before


def scores_in(path: Path) -> list[str]:
    """Return the content of the scores, in an order that does not depend on which case was faster."""
    keys = ("case", "metric", "part", "status", "value", "data", "expected")
    lines = [json.loads(line) for line in path.read_text().splitlines()[1:]]
    return sorted(json.dumps([line.get(key) for key in keys]) for line in lines)


def test_variables_with_ordinary_words_change_nothing(folder: Path) -> None:
    """Their names say that they are keys, their values are words that replies, fields and metrics have too."""
    words = {
        "A_KEY": "response",
        "B_TOKEN": "exact_match",
        "C_SECRET": "12345678",
        "D_KEY": "true",
        "E_KEY": "1",
        "F_KEY": "1+1=2?",
    }
    plain, named = run(folder, "task", {}, "plain"), run(folder, "task", words, "named")
    assert (plain.code, named.code) == (0, 0)
    samples = [next((folder / out).rglob("samples_*.jsonl")).read_bytes() for out in ("plain", "named")]
    assert samples[0] == samples[1]
    calls = [
        next((folder / out).glob("assay/*/calls.jsonl")).read_text().splitlines()
        for out in ("plain", "named")
    ]
    replies = [sorted(str(json.loads(line).get("response")) for line in lines) for lines in calls]
    assert replies[0] == replies[1]


@pytest.mark.parametrize("suite", COMMANDS)
def test_other_users_cannot_read_the_files_of_a_run(folder: Path, suite: str) -> None:
    """The group may, as umask says. A run folder cannot be entered by others. A file that is made anew is no exception."""
    code = run(folder, suite, {}).code
    next((folder / "out").glob("assay/*/scores.jsonl")).unlink()
    assert run(folder, suite, {}).code == code
    results = [path for path in (folder / "out").rglob("*") if path.is_file()]
    names = {path.name for path in results}
    assert {"run.json", "summary.json", "calls.jsonl", "records.jsonl", "scores.jsonl"} <= names
    assert ("observer.jsonl" in names) == (suite == "hop")
    for path in results:
        assert not stat.S_IMODE(path.stat().st_mode) & 0o007, path
    (run_folder,) = (folder / "out" / "assay").glob("*/run.json")
    assert not stat.S_IMODE(run_folder.parent.stat().st_mode) & 0o007
